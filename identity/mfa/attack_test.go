package mfa_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestPreparedSecondStep: a second step that an API client has prepared is worth nothing once its person has a role in
// the admin console.
func TestPreparedSecondStep(t *testing.T) {
	t.Parallel()
	turning := func() (role *atomic.Bool, change func(*identity.Config)) {
		role = new(atomic.Bool)
		return role, func(c *identity.Config) { c.HasRole = func(string, []string) bool { return role.Load() } }
	}
	t.Run("attack 7376: a passkey of a session that a client has opened", func(t *testing.T) {
		t.Parallel()
		role, change := turning()
		h, k := identitytest.New(t, identitytest.PasskeysOn, change), identitytest.NewAuthenticator(t)
		opened := h.Browser()
		opened.SignIn(identitytest.Demo, identitytest.DemoPassword)
		now, err := h.Session.CurrentOf(identitytest.NewRequest(opened, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
			rec, err := session.Records.Get(tx, now.SessionID)
			if err != nil {
				return err
			}
			rec.Vouched = true
			return session.Records.Put(tx, now.SessionID, rec, h.Session.Collect(rec))
		}); err != nil {
			t.Fatal(err)
		}
		opened.AddPasskey(k)
		browsers := map[bool]*identitytest.Browser{false: h.Browser(), true: h.Browser()}
		for _, b := range browsers {
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		}
		level3(h)
		for is, b := range browsers {
			role.Store(is)
			f := b.ReadPasskeyForm(b.Get("/next"))
			if in := b.AnswerPasskey(f, k.Use(f.Options)).Code == http.StatusSeeOther; in == is {
				t.Errorf("with a role %v: the passkey raises the session: %v", is, in)
			}
		}
	})
	t.Run("attack 7376: a code that a client has made", func(t *testing.T) {
		t.Parallel()
		role, change := turning()
		h, _ := delivering(t, change)
		for _, c := range []struct {
			by   audit.Actor
			role bool
			in   bool
		}{
			{audit.Actor{ID: "desk", BelowRoles: true}, false, true},
			{audit.Actor{ID: "desk", BelowRoles: true}, true, false},
			{audit.Actor{ID: "admin"}, true, true},
		} {
			role.Store(false)
			made, err := h.Proof.MakeDeliveredCode(t.Context(), identitytest.Demo, "step-up", c.by)
			if err != nil {
				t.Fatal(err)
			}
			role.Store(c.role)
			b := h.Plain()
			if in := b.Post(b.Get("/next"), "code", made.Code).Code == http.StatusSeeOther; in != c.in {
				t.Errorf("a code of %s, a role %v: lets in %v", c.by.ID, c.role, in)
			}
		}
	})
}

func TestStepUpAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred codes at once five are looked at", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		set := h.Plain()
		secret, _, _ := set.AddApp(identitytest.AuthenticatorPage)
		b := h.Plain()
		page := b.Get("/next")
		b.Hundred(page, identitytest.WrongFor(h.Code(secret)))
		if a := b.Post(page, "code", h.Code(secret)); a.Code != http.StatusTooManyRequests {
			t.Errorf("the right code while nothing is taken = %d", a.Code)
		}
	})
	t.Run("attack 221: a password that is right does not set back the tries of codes", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		set := h.Plain()
		set.AddApp(identitytest.AuthenticatorPage)
		b := h.Browser()
		looked := 0
		for range 4 {
			b.Plain()
			page := b.Get("/next")
			for range 3 {
				if a := b.Post(page, "code", "000000"); a.Code == http.StatusUnprocessableEntity {
					looked++
				}
			}
			b.Post(b.Get("/sign-out"))
		}
		if looked != 5 {
			t.Errorf("%d codes were looked at, want 5", looked)
		}
	})
	t.Run("attack 222: codes and passwords share one counter", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		set := h.Plain()
		set.AddApp(identitytest.AuthenticatorPage)
		b := h.Plain()
		form := b.Get("/next")
		for range 5 {
			b.Post(form, "code", "000000")
		}
		b.Post(b.Get("/sign-out"))
		if a := b.Post(b.Get("/next?plain=1"), "username", identitytest.Demo, "password",
			identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("a password after five wrong codes = %d, want 429", a.Code)
		}
	})
	t.Run("attack 266: a code is taken once, by one of several sessions at once", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		set := h.Plain()
		secret, _, _ := set.AddApp(identitytest.AuthenticatorPage)
		code := h.Code(secret)
		var browsers []*identitytest.Browser
		for range 4 {
			b := h.Plain()
			browsers = append(browsers, b)
		}
		var wg sync.WaitGroup
		raised := make([]int, len(browsers))
		for i, b := range browsers {
			page := b.Get("/next")
			wg.Go(func() { raised[i] = b.Post(page, "code", code).Code })
		}
		wg.Wait()
		n := 0
		for _, c := range raised {
			if c == http.StatusSeeOther {
				n++
			}
		}
		if n != 1 {
			t.Errorf("one code has raised %d sessions: %v", n, raised)
		}
		h.Clock.Advance(30 * time.Second)
		b := h.Plain()
		if a := b.Post(b.Get("/next"), "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of the step before, used already = %d", a.Code)
		}
	})
	t.Run("attack 266: a session of level 1 cannot change what an account with more has", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		waiting := h.Browser() // a thief who already has the page open
		waiting.Plain()
		open := waiting.Get(identitytest.AuthenticatorPage)
		stolen := strings.ReplaceAll(identitytest.ShownSecret.FindStringSubmatch(open.Body.String())[1], " ", "")

		set := h.Plain()
		set.AddApp(identitytest.AuthenticatorPage)
		before := h.Dump()
		for what, a := range map[string]*identitytest.Answer{
			"a second app":       waiting.Post(open, "code", h.Code(stolen)),
			"the app's page":     waiting.Do(http.MethodGet, identitytest.AuthenticatorPage, ""),
			"the removal":        waiting.Do(http.MethodPost, "/account/security/remove?method=authenticator", "csrf="+open.CSRF()),
			"new recovery codes": waiting.Do(http.MethodPost, "/account/security/recovery", "csrf="+open.CSRF()),
			"a forged level":     waiting.Do(http.MethodGet, "/account/security/recovery?level=4&amr=FINGER_PRINT&acr=4", ""),
		} {
			if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
				t.Errorf("%s with a password alone = %d to %q:\n%s", what, a.Code, a.Header().Get("Location"), a.Body)
			}
		}
		for key, value := range h.Dump() {
			if strings.HasPrefix(key, stepUpKey) && before[key] != value {
				t.Errorf("%q has changed", key)
			}
		}
	})
	t.Run("attack 266: a step-up belongs to its browser, person and form", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		set := h.Plain()
		secret, _, _ := set.AddApp(identitytest.AuthenticatorPage)
		b, other := h.Plain(), h.Plain()
		page := b.Get("/next")
		if a := other.Get(page.URL); a.Code != http.StatusForbidden {
			t.Errorf("the step-up of another browser = %d", a.Code)
		}
		mine := other.Get("/next")
		forged := other.Do(http.MethodPost, mine.URL+"&method=authenticator",
			url.Values{"csrf": {page.CSRF()}, "code": {h.Code(secret)}}.Encode())
		if forged.Code != http.StatusForbidden {
			t.Errorf("a form with the token of another = %d", forged.Code)
		}
		other.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := other.Post(mine, "code", h.Code(secret)); a.Code != http.StatusForbidden {
			t.Errorf("a form from another site = %d", a.Code)
		}
		h.WantLevel(other, 1)
		b.Post(b.Get("/sign-out"))
		if a := b.Post(page, "code", h.Code(secret)); a.Code != http.StatusSeeOther ||
			!strings.HasPrefix(a.Header().Get("Location"), "/sign-in?") {
			t.Errorf("a step-up after sign-out = %d to %q", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 269: who takes the name of a removed person has none of their methods", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.NewStepping(t, 3)
		b := h.Plain()
		b.AddApp(identitytest.AuthenticatorPage)
		has := func() (n int) {
			for key := range h.Dump() {
				if strings.HasPrefix(key, stepUpKey) {
					n++
				}
			}
			return n
		}
		if n := has(); n != 1 {
			t.Fatalf("%d records of methods, want 1", n)
		}
		if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Removed, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		if n := has(); n != 0 {
			t.Errorf("%d records of methods are still there", n)
		}
	})
}
