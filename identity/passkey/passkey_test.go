package passkey_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestPasskey(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	h.Notices = new(notifytest.Notices)
	h.Start()
	owner, k := h.Browser(), identitytest.NewAuthenticator(t)
	owner.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if a := owner.Get("/account/security"); !strings.Contains(a.Body.String(), "phishing-resistant") {
		t.Errorf("the page about signing in does not offer passkeys:\n%s", a.Body)
	}
	f := owner.ReadPasskeyForm(owner.Get(identitytest.AddPasskeyPage))
	handle, err := base64.RawURLEncoding.DecodeString(f.User.ID)
	if err != nil || len(handle) != 32 || f.RP.ID != identitytest.RPID || f.User.Name != identitytest.Demo ||
		f.User.DisplayName != "Demo Person" || f.Attestation != "none" ||
		f.Selection.ResidentKey != "required" || f.Selection.UserVerification != "required" || len(f.Exclude) != 0 {
		t.Errorf("the browser is asked for %+v", f.Options)
	}
	a := owner.AnswerPasskey(f, k.Create(f.Options))
	if len(identitytest.RecoveryCodesOf(a)) != 10 {
		t.Fatalf("a new passkey: status %d, want recovery codes:\n%s", a.Code, a.Body)
	}
	if a = owner.Post(owner.Get(a.Next()), "name", "  Phone <b> "); a.Header().Get("Location") != "/account/security" {
		t.Fatalf("its name: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if s, err := h.SessionOf(owner); err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"DEFAULT", "FINGER_PRINT"}) {
		t.Errorf("the session that has added a passkey is %+v, %v; want level 3", s, err)
	}
	if page := owner.Get("/account/security").Body.String(); !strings.Contains(page, "Phone &lt;b&gt;") ||
		strings.Contains(page, "Last used") {
		t.Errorf("the page about signing in:\n%s", page)
	}

	b := h.Browser()
	form := b.Get("/next")
	if !strings.Contains(form.Body.String(), `autocomplete="username webauthn"`) ||
		!strings.Contains(form.Header().Get("Content-Security-Policy"), "script-src 'self';") {
		t.Errorf("the sign-in page does not offer passkeys:\n%s", form.Body)
	}
	use := b.ReadPasskeyForm(form)
	if use.RPID != identitytest.RPID || use.UserVerification != "required" || len(use.AllowCredentials) != 0 {
		t.Errorf("the browser is asked for %+v", use.Options)
	}
	h.Clock.Advance(time.Minute)
	if a := b.AnswerPasskey(use, k.Use(use.Options), "remember", "yes"); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" {
		t.Fatalf("sign-in by passkey: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	s, err := h.SessionOf(b)
	if err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"FINGER_PRINT"}) || s.Provider != "identity" ||
		!s.AuthTime.Equal(h.Clock.Now()) || s.Ends.Sub(s.AuthTime) < 24*time.Hour {
		t.Errorf("the session is %+v, %v; want level 3 by passkey, remembered", s, err)
	}
	security := b.Get("/account/security")
	if !strings.Contains(identitytest.Words(security), "Last used on 21 November 2026") {
		t.Errorf("the page about signing in does not say when the passkey was used:\n%s", security.Body)
	}
	if data := b.Get("/account/data/download").Body.String(); !strings.Contains(data, `"name": "Phone \u003cb\u003e"`) ||
		strings.Contains(data, identitytest.B64(k.ID)) {
		t.Errorf("what the person can download of themselves:\n%s", data)
	}
	other := identitytest.NewAuthenticator(t)
	g := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	if len(g.Exclude) != 1 || g.Exclude[0].ID != identitytest.B64(k.ID) || g.User.ID != f.User.ID {
		t.Errorf("for the second passkey the browser is asked for %+v", g.Options)
	}
	b.AnswerPasskey(g, other.Create(g.Options))

	remove := identitytest.LinkTo(t, security, "/account/security/passkeys/remove?id=")
	if page := b.Get(remove); !strings.Contains(page.Body.String(), "no longer be able to sign in with “Phone &lt;b&gt;”") {
		t.Errorf("the question before a passkey goes:\n%s", page.Body)
	} else if a := b.Post(page); a.Header().Get("Location") != "/account/security" {
		t.Errorf("the removal: status %d:\n%s", a.Code, a.Body)
	}
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "That passkey doesn’t work here") {
		t.Errorf("a passkey that is removed: status %d:\n%s", a.Code, a.Body)
	}
	if a := h.Browser().TryPasskey(other); a.Code != http.StatusSeeOther {
		t.Errorf("the other passkey: status %d:\n%s", a.Code, a.Body)
	}
	for kind, want := range map[string]int{
		"person.PasskeyAddedEvent": 2, "person.PasskeyRenamedEvent": 1, "person.PasskeyRemovedEvent": 1, "login.LoginSucceededEvent": 3,
		"login.LoginFailedEvent":     1,
		"login.StepUpSucceededEvent": 2,
	} {
		if got := h.Events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	var told []notify.Kind
	for _, n := range h.Notices.Take() {
		told = append(told, n.Kind)
	}
	if want := []notify.Kind{notify.PasskeyAdded, notify.PasskeyAdded, notify.PasskeyRemoved}; !slices.Equal(told, want) {
		t.Errorf("the person was told %v, want %v", told, want)
	}
	h.CheckInvariants()
}

func TestPasskeyAlgorithms(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for name, key := range identitytest.Signers(t) {
		k := identitytest.NewAuthenticator(t)
		k.Key = key
		b.AddPasskey(k)
		if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("sign-in by a passkey with %s: status %d:\n%s", name, a.Code, a.Body)
		}
	}
}

// TestPasskeyMeetsDemands: signing in with a passkey meets demands that the existing password session does not meet.
func TestPasskeyMeetsDemands(t *testing.T) {
	t.Parallel()
	for name, demand := range map[string]func(*identitytest.Harness, *authn.Demand){
		"a level":       func(_ *identitytest.Harness, d *authn.Demand) { d.Level = 3 },
		"a new sign-in": func(h *identitytest.Harness, d *authn.Demand) { d.NotBefore = h.Clock.Now() },
		"an age":        func(_ *identitytest.Harness, d *authn.Demand) { d.MaxAge = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, k := identitytest.WithPasskey(t)
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			h.Clock.Advance(time.Minute)
			before := h.Demand
			at := h.Clock.Now()
			h.Demand = func(r *http.Request) authn.Demand {
				d := before(r)
				d.NotBefore = at
				demand(h, &d)
				return d
			}
			f := b.ReadPasskeyForm(b.Get("/next?again"))
			if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusSeeOther ||
				!strings.HasPrefix(b.Get(a.Header().Get("Location")).Body.String(), "signed in as ") {
				t.Errorf("status %d:\n%s", a.Code, a.Body)
			}
		})
	}
}

func TestPasskeyStepUp(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	was := b.Session()
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.Level = 3
		return d
	}
	page := b.Get("/next")
	f := b.ReadPasskeyForm(page)
	if !strings.HasPrefix(page.URL, "/step-up/passkey?flow=") || len(f.AllowCredentials) != 1 ||
		f.AllowCredentials[0].ID != identitytest.B64(k.ID) {
		t.Fatalf("the step-up is at %s and asks for %+v:\n%s", page.URL, f.Options, page.Body)
	}
	if a := b.AnswerPasskey(f, identitytest.NewAuthenticator(t).Use(f.Options)); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "That passkey doesn’t work here") {
		t.Errorf("a passkey of nobody: status %d:\n%s", a.Code, a.Body)
	}
	if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the challenge once more: status %d:\n%s", a.Code, a.Body)
	}
	f = b.ReadPasskeyForm(b.Get("/next"))
	// When the page lists the passkeys, the authenticator does not have to return the user handle.
	k.Handle = nil
	if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the step-up: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if s, err := h.SessionOf(b); err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"DEFAULT", "FINGER_PRINT"}) ||
		b.Session() == was {
		t.Errorf("the session is %+v, %v; want level 3 under another cookie", s, err)
	}
	if got := h.Events()["login.StepUpFailedEvent"]; got != 2 {
		t.Errorf("%d failed step-ups, want 2", got)
	}
	h.CheckInvariants()
}

// TestPasskeyOnTheWay: where a step-up allows the set-up of a first method, that method can be a passkey.
func TestPasskeyOnTheWay(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 3, identitytest.PasskeysOn)
	b, k := h.Browser(), identitytest.NewAuthenticator(t)
	b.Plain()
	page := b.Get("/next")
	page = b.Get(strings.ReplaceAll(identitytest.LinkTo(t, page, identitytest.AddPasskeyPage), "&amp;", "&"))
	f := b.ReadPasskeyForm(page)
	a := b.AnswerPasskey(f, k.Create(f.Options))
	if a = b.Get(a.Next()); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the first passkey on the way: status %d:\n%s", a.Code, a.Body)
	}
}

// TestPasskeyWithoutPassword: a person without a password can sign in with a passkey, and cannot remove the last one.
func TestPasskeyWithoutPassword(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	p, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	err = h.Store.Update(t.Context(), func(tx storage.Tx) error {
		return tx.Delete(storage.NewTable[struct{}]("identity_password").Key(p.ID))
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a password that is gone: status %d", a.Code)
	}
	b := h.Browser()
	if a := b.TryPasskey(k); a.Code != http.StatusSeeOther {
		t.Fatalf("a passkey without a password: status %d:\n%s", a.Code, a.Body)
	}
	remove := identitytest.LinkTo(t, b.Get("/account/security"), "/account/security/passkeys/remove?id=")
	if a := b.Post(b.Get(remove)); a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), "your only way to sign in") {
		t.Errorf("removing the only way in: status %d:\n%s", a.Code, a.Body)
	}
	b.AddPasskey(identitytest.NewAuthenticator(t))
	if a := b.Post(b.Get(remove)); a.Code != http.StatusSeeOther {
		t.Errorf("removing one of two: status %d:\n%s", a.Code, a.Body)
	}
}

// TestPasskeyState: a passkey keeps working after a new password, but does not let a blocked person sign in.
func TestPasskeyState(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another horse 22"), audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
		t.Errorf("after a new password: status %d:\n%s", a.Code, a.Body)
	}
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	blocked := h.Browser().TryPasskey(k)
	unknown := h.Browser().TryPasskey(identitytest.NewAuthenticator(t))
	// The browser is told of one that no one has. Who has such a random id knows of its passkey.
	rest := len(signalsDiv.ReplaceAllString(unknown.Body.String(), ""))
	if blocked.Code != http.StatusUnprocessableEntity || blocked.Code != unknown.Code || blocked.Body.Len() != rest {
		t.Errorf("a blocked person's passkey: status %d with %d bytes; nobody's: %d with %d; want 422 and the same", blocked.Code,
			blocked.Body.Len(), unknown.Code, rest)
	}
	h.CheckInvariants()
}

func TestPasskeysOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		issuer string
		off    bool
		want   bool
	}{
		"https":              {identitytest.Issuer, false, true},
		"switched off":       {identitytest.Issuer, true, false},
		"an address":         {"https://192.0.2.1", false, false},
		"an IPv6 address":    {"https://[2001:db8::1]:8443", false, false},
		"localhost":          {"http://localhost:8080", false, true},
		"loopback":           {"http://127.0.0.1:8080", false, false},
		"https with a port":  {"https://auth.example.com:8443", false, true},
		"http":               {"http://auth.example.com", false, false},
		"one word":           {"https://auth", false, false},
		"a local host below": {"http://a.localhost", false, true},
	} {
		if got := passkey.Possible(c.issuer) && !c.off; got != c.want {
			t.Errorf("%s: passkeys are possible at %s: %t, want %t", name, c.issuer, got, c.want)
		}
	}
	h, k := identitytest.WithPasskey(t)
	h.Config.Passkeys.Off = true
	h.Start()
	b := h.Browser()
	form := b.Get("/next")
	if strings.Contains(form.Body.String(), "passkey") || strings.Contains(form.Body.String(), "webauthn") {
		t.Errorf("passkeys are off, and the sign-in page offers them:\n%s", form.Body)
	}
	flow := strings.TrimPrefix(form.URL, "/sign-in")
	if a := b.Do(http.MethodPost, "/sign-in/passkey"+flow,
		url.Values{"csrf": {form.CSRF()}, "credential": {k.Use(identitytest.Options{})}}.Encode()); a.Code != http.StatusForbidden ||
		b.Session() != "" {
		t.Errorf("passkeys are off, and one is taken: status %d", a.Code)
	}
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if a := b.Get(identitytest.AddPasskeyPage); a.Code != http.StatusNotFound {
		t.Errorf("passkeys are off, and the page that adds one has status %d, want 404", a.Code)
	}
	if a := b.Get("/account/security"); strings.Contains(a.Body.String(), "asskey") {
		t.Errorf("passkeys are off, and the page about signing in tells of them:\n%s", a.Body)
	}
}

// TestPasskeysAreBounded: a person can have at most twenty passkeys.
func TestPasskeysAreBounded(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for range 19 {
		b.AddPasskey(identitytest.NewAuthenticator(t))
	}
	f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	b.AddPasskey(identitytest.NewAuthenticator(t))
	if page := b.Get(identitytest.AddPasskeyPage); !strings.Contains(page.Body.String(), "You have 20 passkeys") ||
		strings.Contains(page.Body.String(), "data-passkey") {
		t.Errorf("with 20 passkeys there is room for another:\n%s", page.Body)
	}
	if a := b.AnswerPasskey(f, identitytest.NewAuthenticator(t).Create(f.Options)); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the 21st passkey: status %d:\n%s", a.Code, a.Body)
	}
	if got := h.Events()["person.PasskeyAddedEvent"]; got != 20 {
		t.Errorf("%d passkeys were added, want 20", got)
	}
}

// TestRemovePasskeysByCommand: an administrator can remove the passkeys of a person who has lost them.
func TestRemovePasskeysByCommand(t *testing.T) {
	t.Parallel()
	h, k := identitytest.WithPasskey(t)
	if err := h.RemoveMethod("passkey"); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveMethod("passkey"); err == nil {
		t.Error("passkeys that are gone are removed again")
	}
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a passkey that an administrator has removed: status %d", a.Code)
	}
}
