package recovery_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestForgotTooMany: the page that asks people to try again later leads back to their sign-in.
func TestForgotTooMany(t *testing.T) {
	t.Parallel()
	h, _, _ := identitytest.NewWithReset(t)
	h.Admit = func(r *http.Request, _ int) bool { return r.Method != http.MethodPost }
	h.Start()
	b := h.Browser()
	if a := b.Forget(identitytest.Demo); a.Code != http.StatusServiceUnavailable || !strings.Contains(a.Body.String(), `href="/forgot?flow=`) {
		t.Errorf("= %d, want 503 and the way back:\n%s", a.Code, a.Body)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithReset(t)
	elsewhere, b := h.Browser(), h.Browser()
	elsewhere.SignIn(identitytest.Demo, identitytest.DemoPassword)
	a := b.Forget("DEMO@example.com")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST /forgot = %d:\n%s", a.Code, a.Body)
	}
	if sent := b.Get(a.Header().Get("Location")); sent.Code != http.StatusOK || strings.Contains(sent.Body.String(), "demo@") {
		t.Errorf("afterwards: %d\n%s", sent.Code, sent.Body)
	}
	link := h.Link(notify.ResetLink, identitytest.Demo)
	page := b.Get(link)
	if page.Code != http.StatusOK || page.URL != "/reset" || !strings.Contains(page.Body.String(), identitytest.Demo) {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.URL, page.Body)
	}
	if a := b.Post(page, "password", "short"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "8 to 256 characters") {
		t.Errorf("a short password = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(page, "password", ""); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no password = %d", a.Code)
	}
	a = b.Post(page, "password", identitytest.FreshPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST of the new password = %d:\n%s", a.Code, a.Body)
	}
	done := b.Get(a.Header().Get("Location"))
	_, rest, ok := strings.Cut(done.Body.String(), `href="/sign-in?flow=`)
	if !ok {
		t.Fatalf("afterwards: %d\n%s", done.Code, done.Body)
	}
	flow, _, _ := strings.Cut(rest, `"`)
	signIn := b.Get("/sign-in?flow=" + strings.ReplaceAll(flow, "&amp;", "&"))
	if !strings.Contains(signIn.Body.String(), `value="demo@example.com"`) {
		t.Errorf("the sign-in page does not know the username:\n%s", signIn.Body)
	}
	if a := b.Post(signIn, "username", identitytest.Demo, "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" {
		t.Errorf("sign-in with the new password = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if elsewhere.IsSignedIn() {
		t.Error("a session of before is alive")
	}
	if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the old password = %d", a.Code)
	}
	if ev := h.Events(); ev["person.PasswordResetRequestedEvent"] != 1 || ev["person.PasswordResetEvent"] != 1 ||
		ev["person.PasswordChangedEvent"] != 1 {
		t.Errorf("events: %v", ev)
	}
	if list := box.Take(); len(list) != 0 {
		t.Errorf("told: %+v", list)
	}

	u.Features.PasswordResetEnabled = false
	c := h.Browser()
	if a := c.Get("/forgot"); a.Code != http.StatusNotFound || strings.Contains(c.Get("/next").Body.String(), "/forgot") {
		t.Errorf("switched off = %d", a.Code)
	}
	u.Features.PasswordResetEnabled = true
	h.Notices = nil
	h.Start()
	if a := c.Get("/forgot"); a.Code != http.StatusNotFound {
		t.Errorf("without anything to send by = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestResetByAddress: a reset by e-mail address sends a link to every person with that address.
func TestResetByAddress(t *testing.T) {
	t.Parallel()
	h, _, box := identitytest.NewWithReset(t)
	verified := true
	h.Add(person.NewPerson{
		Username: "ann", Email: "Ann@example.com", EmailVerified: &verified,
		Password: secret.New(identitytest.DemoPassword),
	})
	h.Add(person.NewPerson{
		Username: "ann2", Email: "ann@example.com", EmailVerified: &verified,
		Password: secret.New(identitytest.DemoPassword), Inactive: true,
	})
	h.Add(person.NewPerson{Username: "bob", Password: secret.New(identitytest.DemoPassword)})
	for name, c := range map[string]struct {
		typed string
		want  []string
	}{
		"two who share it":         {"ann@example.com", []string{"reset_link Ann@example.com", "reset_link ann@example.com"}},
		"a username":               {"ann", []string{"reset_link Ann@example.com"}},
		"somebody without address": {"bob", nil},
		"nobody":                   {"eve@example.com", nil},
		"nobody at all":            {"a b\tc", nil},
	} {
		b := h.Browser()
		if a := b.Forget(c.typed); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %d", name, a.Code)
		}
		identitytest.WantNotices(t, name, box, c.want...)
	}
	if err := h.Person.SetState(t.Context(), "ann", person.Blocked, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	h.Browser().Forget("ann")
	identitytest.WantNotices(t, "blocked", box)
}

func TestNotifyPasswordReset(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithReset(t)
	reset := func() {
		t.Helper()
		h.Clock.Advance(time.Hour)
		b := h.Browser()
		b.Forget(identitytest.Demo)
		if a := b.Post(b.Get(h.Link(notify.ResetLink, identitytest.Demo)), "password",
			identitytest.FreshPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("reset = %d:\n%s", a.Code, a.Body)
		}
	}
	reset()
	identitytest.WantNotices(t, "switched off", box)
	u.EmailNotifications.PasswordReset = true
	reset()
	identitytest.WantNotices(t, "switched on", box, "password_reset "+identitytest.Demo)
	u.EmailNotifications.AttributesUpdate.OnPasswordUpdated = true
	reset()
	identitytest.WantNotices(t, "both switches", box, "password_updated "+identitytest.Demo)
}

// TestResetWithoutPassword: a person who signs in at a provider has no password to reset, and is told so.
func TestResetWithoutPassword(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithReset(t)
	p := h.Add(person.NewPerson{Username: "ext@example.com"})
	err := h.Store.Update(t.Context(), func(tx storage.Tx) error { return h.Federation.Couple(tx, p.ID, "partner", "", "s1", h.Clock.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	h.Browser().Forget("ext@example.com")
	identitytest.WantNotices(t, "switched off", box)
	u.EmailNotifications.PasswordResetForAccountWithoutPassword = true
	h.Browser().Forget("ext@example.com")
	list := identitytest.WantNotices(t, "switched on", box, "reset_no_password ext@example.com")
	if n := list[0]; n.Link != "/sign-in" || n.Data["provider"] != "partner" {
		t.Errorf("notice = %+v", n)
	}
	first := h.Add(person.NewPerson{Username: "new@example.com"})
	b := h.Browser()
	b.Forget("new@example.com")
	if a := b.Post(b.Get(h.Link(notify.ResetLink, "new@example.com")), "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther {
		t.Errorf("the first password of %s = %d", first.ID, a.Code)
	}
	h.Browser().SignIn("new@example.com", identitytest.FreshPassword)
}

// TestResetOfThoseWhoMoved: people who signed in by a directory choose a password once it is one that people move from.
func TestResetOfThoseWhoMoved(t *testing.T) {
	t.Parallel()
	h, _, _ := identitytest.NewWithReset(t, func(c *identity.Config) {
		c.Providers = []federation.Provider{{ID: "old", Name: "Old directory", Source: &idptest.Directory{}, Migrates: true}}
	})
	p := h.Add(person.NewPerson{Username: "eve@example.com"})
	err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
		return h.Person.CoupleProved(tx, "old", &idp.Identity{Subject: "eve"}, p.ID, h.Clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	b := h.Browser()
	b.Forget("eve@example.com")
	b.Post(b.Get(h.Link(notify.ResetLink, "eve@example.com")), "password", identitytest.FreshPassword)
	h.Browser().SignIn("eve@example.com", identitytest.FreshPassword)
}

// TestResetPartitions: a person in a partition can reset the password and sign in there.
func TestResetPartitions(t *testing.T) {
	t.Parallel()
	h, _, box := identitytest.NewWithReset(t, func(c *identity.Config) { c.Partitions.On = true })
	h.Add(person.NewPerson{Username: `acme\ann@example.com`, Password: secret.New(identitytest.DemoPassword)})
	h.Browser().Forget("ann@example.com")
	identitytest.WantNotices(t, "in the default partition", box)
	b := h.Browser()
	b.Forget(`acme\ann@example.com`)
	page := b.Get(h.Link(notify.ResetLink, "ann@example.com"))
	if !strings.Contains(page.Body.String(), `acme\ann@example.com`) {
		t.Errorf("the page does not say whose password it is:\n%s", page.Body)
	}
	b.Post(page, "password", identitytest.FreshPassword)
	h.Browser().SignIn(`acme\ann@example.com`, identitytest.FreshPassword)
}

// TestResetThrottle: requests are limited per mailbox and per network address. A person with a new password is not kept
// out by earlier wrong ones.
func TestResetThrottle(t *testing.T) {
	t.Parallel()
	h, _, box := identitytest.NewWithReset(t)
	for range 12 {
		if a := h.Browser().Forget(identitytest.Demo); a.Code != http.StatusSeeOther {
			t.Fatalf("POST /forgot = %d", a.Code)
		}
	}
	if n := len(box.Take()); n != 5 {
		t.Errorf("%d mails in no time, want 5", n)
	}
	for range 18 {
		h.Browser().Forget("nobody@example.com")
	}
	if a := h.Browser().Forget(identitytest.Demo); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" {
		t.Errorf("request 31 of one address = %d, Retry-After %s", a.Code, a.Header().Get("Retry-After"))
	}

	h.Clock.Advance(time.Hour)
	b := h.Browser()
	for range 5 {
		b.Try(identitytest.Demo, "wrong password")
	}
	if a := b.Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
		t.Fatalf("after wrong passwords = %d", a.Code)
	}
	b.Forget(identitytest.Demo)
	b.Post(b.Get(h.Link(notify.ResetLink, identitytest.Demo)), "password", identitytest.FreshPassword)
	b.SignIn(identitytest.Demo, identitytest.FreshPassword)
}

func TestResetAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 238: sixty-four new passwords by one link at once", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		b := h.Browser()
		b.Forget(identitytest.Demo)
		page := b.Get(h.Link(notify.ResetLink, identitytest.Demo))
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[int]int{}
		for i := range 64 {
			wg.Go(func() {
				c := &identitytest.Browser{H: h, Cookies: map[string]string{}, Address: b.Address}
				for k, v := range b.Cookies {
					c.Cookies[k] = v
				}
				a := c.Post(page, "password", identitytest.FreshPassword+string(rune('A'+i)))
				mu.Lock()
				defer mu.Unlock()
				got[a.Code]++
			})
		}
		wg.Wait()
		if got[http.StatusSeeOther] != 1 || got[http.StatusSeeOther]+got[http.StatusBadRequest]+got[http.StatusServiceUnavailable] != 64 ||
			h.Events()["person.PasswordResetEvent"] != 1 {
			t.Errorf("answers %v, events %v, want one that wins", got, h.Events())
		}
	})
	t.Run("attack 238: a link after its use, a newer one, its time, another password, another address, a block", func(t *testing.T) {
		t.Parallel()
		for name, kill := range map[string]func(t *testing.T, h *identitytest.Harness, id string){
			"a newer one": func(_ *testing.T, h *identitytest.Harness, _ string) { h.Browser().Forget("ann"); h.Notices.Take() },
			"its time":    func(_ *testing.T, h *identitytest.Harness, _ string) { h.Clock.Advance(30 * time.Minute) },
			"another password": func(t *testing.T, h *identitytest.Harness, id string) {
				if err := h.Person.SetPassword(t.Context(), id, secret.New(identitytest.DemoPassword+"x"), identitytest.Ops); err != nil {
					t.Fatal(err)
				}
			},
			"another address": func(t *testing.T, h *identitytest.Harness, id string) {
				_, err := h.Person.UpdatePerson(t.Context(), id, person.Edit{By: identitytest.Ops, Verified: true},
					func(_ storage.Tx, d *person.Details) error {
						d.Profile.EmailAddresses = []person.EmailAddress{{Value: "other@example.com", Primary: true, Verified: true}}
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
			},
			"a block and its end": func(t *testing.T, h *identitytest.Harness, id string) {
				for _, s := range []person.State{person.Blocked, person.Active} {
					if err := h.Person.SetState(t.Context(), id, s, identitytest.Ops); err != nil {
						t.Fatal(err)
					}
				}
			},
			"its use": func(t *testing.T, h *identitytest.Harness, _ string) {
				b := h.Browser()
				b.Forget("ann")
				b.Post(b.Get(h.Link(notify.ResetLink, "ann@example.com")), "password", identitytest.FreshPassword)
			},
			"an end of everything": func(t *testing.T, h *identitytest.Harness, _ string) {
				if err := h.Store.Update(t.Context(), session.EndAllSessions); err != nil {
					t.Fatal(err)
				}
			},
		} {
			h, _, _ := identitytest.NewWithReset(t)
			verified := true
			p := h.Add(person.NewPerson{
				Username: "ann", Email: "ann@example.com", EmailVerified: &verified,
				Password: secret.New(identitytest.DemoPassword),
			})
			b := h.Browser()
			b.Forget("ann")
			link := h.Link(notify.ResetLink, "ann@example.com")
			page := b.Get(link)
			kill(t, h, p.ID)
			before := h.Events()["person.PasswordResetEvent"]
			if a := b.Post(page, "password", identitytest.FreshPassword+"!"); a.Code != http.StatusBadRequest ||
				h.Events()["person.PasswordResetEvent"] != before {
				t.Errorf("POST after %s = %d", name, a.Code)
			}
			if a := b.Get(link); a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), `href="/forgot"`) {
				t.Errorf("GET after %s = %d:\n%s", name, a.Code, a.Body)
			}
		}
	})
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		b := h.Browser()
		b.Forget(identitytest.Demo)
		link := h.Link(notify.ResetLink, identitytest.Demo)
		token := link[strings.IndexByte(link, '=')+1:]
		for range 3 {
			scanner := h.Browser()
			scanner.Address = "198.51.100.9:1"
			scanner.Get(link)
			scanner.Do(http.MethodHead, link, "")
		}
		a := b.Do(http.MethodGet, link, "")
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/reset" || a.Header().Get("Referrer-Policy") != "no-referrer" ||
			a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET of the link = %d %v", a.Code, a.Header())
		}
		page := b.Get("/reset")
		if strings.Contains(page.Body.String(), token) {
			t.Error("the page repeats the token")
		}
		if a := b.Post(page, "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther {
			t.Errorf("the link after the scanner = %d", a.Code)
		}
		for _, e := range h.Logs.All() {
			for k, v := range e.ContextMap() {
				if strings.Contains(identitytest.ToString(v), token) || strings.Contains(identitytest.ToString(v), identitytest.FreshPassword) {
					t.Errorf("%s: %s tells a secret", e.Message, k)
				}
			}
		}
		for key, value := range h.Dump() {
			if strings.Contains(key+value, token) {
				t.Errorf("%q holds the token", key)
			}
		}
	})
	t.Run("attack 231: the link of one thing for another, a flipped bit, no link", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		b := h.Browser()
		b.Forget(identitytest.Demo)
		link := h.Link(notify.ResetLink, identitytest.Demo)
		flipped := []byte(link)
		flipped[20] ^= 1
		for _, target := range []string{
			string(flipped), "/reset", "/reset?token=", "/reset?token=ghml_" + strings.Repeat("A", 49),
			"/reset?token=" + strings.Repeat("x", 10000),
		} {
			if a := h.Browser().Get(target); a.Code != http.StatusBadRequest {
				t.Errorf("GET %.60s = %d", target, a.Code)
			}
		}
	})
	t.Run("attack 282: the forms without their tokens, of another browser, of another link", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		b, other := h.Browser(), h.Browser()
		b.Forget(identitytest.Demo)
		page := b.Get(h.Link(notify.ResetLink, identitytest.Demo))
		body := url.Values{"password": {identitytest.FreshPassword}}.Encode()
		if a := b.Do(http.MethodPost, "/reset", body); a.Code != http.StatusForbidden {
			t.Errorf("without a token = %d", a.Code)
		}
		other.Get("/forgot")
		if a := other.Do(http.MethodPost, "/reset",
			url.Values{"password": {identitytest.FreshPassword}, "csrf": {page.CSRF()}}.Encode()); a.Code != http.StatusBadRequest {
			t.Errorf("of another browser = %d", a.Code)
		}
		if a := b.Do(http.MethodPost, "/forgot",
			url.Values{"username": {identitytest.Demo}, "csrf": {page.CSRF()}}.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("the token of another form = %d", a.Code)
		}
		if n := h.Events()["person.PasswordResetEvent"]; n != 0 {
			t.Errorf("%d passwords changed", n)
		}
	})
	t.Run("attack 219: somebody and nobody get one answer, with the same work behind it", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		h.Add(person.NewPerson{Username: "blocked@example.com", Password: secret.New(identitytest.DemoPassword)})
		if err := h.Person.SetState(t.Context(), "blocked@example.com", person.Blocked, identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		shape := func(typed string) (int, string, int) {
			b := h.Browser()
			before := len(h.Dump())
			a := b.Post(b.Get("/forgot"), "username", typed)
			return a.Code, a.Header().Get("Location") + b.Get(a.Header().Get("Location")).Body.String(), len(h.Dump()) - before
		}
		shape("the first one writes more")
		code, text, records := shape(identitytest.Demo)
		for _, typed := range []string{"nobody@example.com", "nobody", "blocked@example.com", "x\x00y", strings.Repeat("ä", 5000)} {
			if c, b, n := shape(typed); c != code || b != text || n < records-1 || n > records {
				t.Errorf("%.20q: %d and %d records, want %d and %d", typed, c, n, code, records)
			}
		}
	})
	t.Run("attack 236: the link does not follow Host and its like", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithReset(t)
		b := h.Browser()
		page := b.Get("/forgot")
		b.Header = http.Header{
			"X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Port": {"81"},
			"Forwarded":      {"host=evil.example;proto=http"},
			"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/x-www-form-urlencoded"},
		}
		b.Post(page, "username", identitytest.Demo)
		if link := h.Link(notify.ResetLink, identitytest.Demo); !strings.HasPrefix(link, "/reset?token=ghml_") {
			t.Errorf("link = %s", link)
		}
	})
	t.Run("attack 239: addresses that are more than one, or a header", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithReset(t)
		for _, typed := range []string{
			identitytest.Demo + ",eve@example.com", identitytest.Demo + "\r\nBcc: eve@example.com",
			`"` + identitytest.Demo + `" <eve@example.com>`, "[\"" + identitytest.Demo + "\",\"eve@example.com\"]", identitytest.Demo + "\x00",
		} {
			b := h.Browser()
			if a := b.Post(b.Get("/forgot"), "username", typed); a.Code != http.StatusSeeOther {
				t.Errorf("%q = %d", typed, a.Code)
			}
			identitytest.WantNotices(t, typed, box)
		}
	})
	t.Run("attack 226: the policy holds for a reset", func(t *testing.T) {
		t.Parallel()
		h, u, _ := identitytest.NewWithReset(t)
		u.PasswordPolicy = settings.PasswordPolicy{
			MinLength: 10, MaxLength: 20, LowerCaseCharRequired: true, UpperCaseCharRequired: true,
			SpecialCharRequired: true,
		}
		b := h.Browser()
		b.Forget(identitytest.Demo)
		page := b.Get(h.Link(notify.ResetLink, identitytest.Demo))
		for _, password := range []string{
			"Aa!456789", "Aa!" + strings.Repeat("5", 18), "AA!4567890", "aa!4567890",
			"Aa34567890", "Aa!4567\x00890",
		} {
			if a := b.Post(page, "password", password); a.Code != http.StatusUnprocessableEntity || strings.Contains(a.Body.String(), password) {
				t.Errorf("%q = %d", password, a.Code)
			}
		}
		if a := b.Post(page, "password", strings.Repeat("Aa!4567890", 100_000)); a.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("a megabyte = %d", a.Code)
		}
		if a := b.Post(page, "password", "Aa!4567890"); a.Code != http.StatusSeeOther {
			t.Errorf("a good one = %d:\n%s", a.Code, a.Body)
		}
	})
}
