package identity_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestPasskey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, passkeysOn)
	h.notices = new(notifytest.Notices)
	h.start()
	owner, k := h.browser(), newToken(t)
	owner.signIn(demo, demoPassword)
	if a := owner.get("/account/security"); !strings.Contains(a.Body.String(), "phishing-resistant") {
		t.Errorf("the page about signing in does not offer passkeys:\n%s", a.Body)
	}
	f := owner.passkeyForm(owner.get(addPasskeyPage))
	handle, err := base64.RawURLEncoding.DecodeString(f.User.ID)
	if err != nil || len(handle) != 32 || f.RP.ID != rpID || f.User.Name != demo || f.User.DisplayName != "Demo Person" || f.Attestation != "none" ||
		f.Selection.ResidentKey != "required" || f.Selection.UserVerification != "required" || len(f.Exclude) != 0 {
		t.Errorf("the browser is asked for %+v", f.options)
	}
	a := owner.answer(f, k.create(f.options))
	if len(recoveryCodesOf(a)) != 10 {
		t.Fatalf("a new passkey: status %d, want recovery codes:\n%s", a.Code, a.Body)
	}
	if a = owner.post(owner.get(a.next()), "name", "  Phone <b> "); a.Header().Get("Location") != "/account/security" {
		t.Fatalf("its name: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if s, err := h.session(owner); err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"DEFAULT", "FINGER_PRINT"}) {
		t.Errorf("the session that has added a passkey is %+v, %v; want level 3", s, err)
	}
	if page := owner.get("/account/security").Body.String(); !strings.Contains(page, "Phone &lt;b&gt;") || strings.Contains(page, "Last used") {
		t.Errorf("the page about signing in:\n%s", page)
	}

	b := h.browser()
	form := b.get("/next")
	if !strings.Contains(form.Body.String(), `autocomplete="username webauthn"`) || !strings.Contains(form.Header().Get("Content-Security-Policy"), "script-src 'self';") {
		t.Errorf("the sign-in page does not offer passkeys:\n%s", form.Body)
	}
	use := b.passkeyForm(form)
	if use.RPID != rpID || use.UserVerification != "required" || len(use.AllowCredentials) != 0 {
		t.Errorf("the browser is asked for %+v", use.options)
	}
	h.clock.Advance(time.Minute)
	if a := b.answer(use, k.use(use.options), "remember", "yes"); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("sign-in by passkey: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	s, err := h.session(b)
	if err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"FINGER_PRINT"}) || s.Provider != "identity" || !s.AuthTime.Equal(h.clock.Now()) || s.Ends.Sub(s.AuthTime) < 24*time.Hour {
		t.Errorf("the session is %+v, %v; want level 3 by passkey, remembered", s, err)
	}
	security := b.get("/account/security")
	if !strings.Contains(words(security), "Last used on 21 November 2026") {
		t.Errorf("the page about signing in does not say when the passkey was used:\n%s", security.Body)
	}
	if data := b.get("/account/data/download").Body.String(); !strings.Contains(data, `"name": "Phone \u003cb\u003e"`) || strings.Contains(data, b64(k.id)) {
		t.Errorf("what the person can download of themselves:\n%s", data)
	}
	other := newToken(t)
	g := b.passkeyForm(b.get(addPasskeyPage))
	if len(g.Exclude) != 1 || g.Exclude[0].ID != b64(k.id) || g.User.ID != f.User.ID {
		t.Errorf("for the second passkey the browser is asked for %+v", g.options)
	}
	b.answer(g, other.create(g.options))

	remove := linkTo(t, security, "/account/security/passkeys/remove?id=")
	if page := b.get(remove); !strings.Contains(page.Body.String(), "no longer be able to sign in with “Phone &lt;b&gt;”") {
		t.Errorf("the question before a passkey goes:\n%s", page.Body)
	} else if a := b.post(page); a.Header().Get("Location") != "/account/security" {
		t.Errorf("the removal: status %d:\n%s", a.Code, a.Body)
	}
	if a := h.browser().tryPasskey(k); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "That passkey doesn’t work here") {
		t.Errorf("a passkey that is removed: status %d:\n%s", a.Code, a.Body)
	}
	if a := h.browser().tryPasskey(other); a.Code != http.StatusSeeOther {
		t.Errorf("the other passkey: status %d:\n%s", a.Code, a.Body)
	}
	for kind, want := range map[string]int{
		"person.PasskeyAddedEvent": 2, "person.PasskeyRenamedEvent": 1, "person.PasskeyRemovedEvent": 1, "login.LoginSucceededEvent": 3, "login.LoginFailedEvent": 1,
		"login.StepUpSucceededEvent": 2,
	} {
		if got := h.events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	var told []notify.Kind
	for _, n := range h.notices.Take() {
		told = append(told, n.Kind)
	}
	if want := []notify.Kind{notify.PasskeyAdded, notify.PasskeyAdded, notify.PasskeyRemoved}; !slices.Equal(told, want) {
		t.Errorf("the person was told %v, want %v", told, want)
	}
	h.checkInvariants()
}

// linkTo returns the first link in a page that begins with the prefix.
func linkTo(t *testing.T, page *answer, prefix string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page.Body.String(), `href="`+prefix)
	if !ok {
		t.Fatalf("no link to %s:\n%s", prefix, page.Body)
	}
	rest, _, _ = strings.Cut(rest, `"`)
	return prefix + rest
}

// signers returns a key for each algorithm that passkeys can use.
func signers(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ES256": newToken(t).key, "EdDSA": ed, "RS256": rs}
}

func TestPasskeyAlgorithms(t *testing.T) {
	t.Parallel()
	h := newHarness(t, passkeysOn)
	b := h.browser()
	b.signIn(demo, demoPassword)
	for name, key := range signers(t) {
		k := newToken(t)
		k.key = key
		b.addPasskey(k)
		if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("sign-in by a passkey with %s: status %d:\n%s", name, a.Code, a.Body)
		}
	}
}

// TestPasskeyMeetsDemands: signing in with a passkey meets demands that the existing password session does not meet.
func TestPasskeyMeetsDemands(t *testing.T) {
	t.Parallel()
	for name, demand := range map[string]func(*harness, *login.Demand){
		"a level":       func(_ *harness, d *login.Demand) { d.Level = 3 },
		"a new sign-in": func(h *harness, d *login.Demand) { d.NotBefore = h.clock.Now() },
		"an age":        func(_ *harness, d *login.Demand) { d.MaxAge = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, k := withPasskey(t)
			b := h.browser()
			b.signIn(demo, demoPassword)
			h.clock.Advance(time.Minute)
			before := h.demand
			at := h.clock.Now()
			h.demand = func(r *http.Request) login.Demand {
				d := before(r)
				d.NotBefore = at
				demand(h, &d)
				return d
			}
			f := b.passkeyForm(b.get("/next?again"))
			if a := b.answer(f, k.use(f.options)); a.Code != http.StatusSeeOther || !strings.HasPrefix(b.get(a.Header().Get("Location")).Body.String(), "signed in as ") {
				t.Errorf("status %d:\n%s", a.Code, a.Body)
			}
		})
	}
}

func TestPasskeyStepUp(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	b := h.browser()
	b.signIn(demo, demoPassword)
	was := b.session()
	before := h.demand
	h.demand = func(r *http.Request) login.Demand {
		d := before(r)
		d.Level = 3
		return d
	}
	page := b.get("/next")
	f := b.passkeyForm(page)
	if !strings.HasPrefix(page.url, "/step-up/passkey?flow=") || len(f.AllowCredentials) != 1 || f.AllowCredentials[0].ID != b64(k.id) {
		t.Fatalf("the step-up is at %s and asks for %+v:\n%s", page.url, f.options, page.Body)
	}
	if a := b.answer(f, newToken(t).use(f.options)); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "That passkey doesn’t work here") {
		t.Errorf("a passkey of nobody: status %d:\n%s", a.Code, a.Body)
	}
	if a := b.answer(f, k.use(f.options)); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the challenge once more: status %d:\n%s", a.Code, a.Body)
	}
	f = b.passkeyForm(b.get("/next"))
	// When the page lists the passkeys, the authenticator does not have to return the user handle.
	k.handle = nil
	if a := b.answer(f, k.use(f.options)); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the step-up: status %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if s, err := h.session(b); err != nil || s.Level != 3 || !slices.Equal(s.AMR, []string{"DEFAULT", "FINGER_PRINT"}) || b.session() == was {
		t.Errorf("the session is %+v, %v; want level 3 under another cookie", s, err)
	}
	if got := h.events()["login.StepUpFailedEvent"]; got != 2 {
		t.Errorf("%d failed step-ups, want 2", got)
	}
	h.checkInvariants()
}

// TestPasskeyOnTheWay: where a step-up allows the set-up of a first method, that method can be a passkey.
func TestPasskeyOnTheWay(t *testing.T) {
	t.Parallel()
	h, _ := stepping(t, 3, passkeysOn)
	b, k := h.browser(), newToken(t)
	b.plain()
	page := b.get("/next")
	page = b.get(strings.ReplaceAll(linkTo(t, page, addPasskeyPage), "&amp;", "&"))
	f := b.passkeyForm(page)
	a := b.answer(f, k.create(f.options))
	if a = b.get(a.next()); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the first passkey on the way: status %d:\n%s", a.Code, a.Body)
	}
}

// TestPasskeyWithoutPassword: a person without a password can sign in with a passkey, and cannot remove the last one.
func TestPasskeyWithoutPassword(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	p, err := h.Person.Person(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	err = h.store.Update(t.Context(), func(tx storage.Tx) error {
		return tx.Delete(storage.NewTable[struct{}]("identity_password").Key(p.ID))
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.browser().try(demo, demoPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a password that is gone: status %d", a.Code)
	}
	b := h.browser()
	if a := b.tryPasskey(k); a.Code != http.StatusSeeOther {
		t.Fatalf("a passkey without a password: status %d:\n%s", a.Code, a.Body)
	}
	remove := linkTo(t, b.get("/account/security"), "/account/security/passkeys/remove?id=")
	if a := b.post(b.get(remove)); a.Code != http.StatusConflict || !strings.Contains(a.Body.String(), "your only way to sign in") {
		t.Errorf("removing the only way in: status %d:\n%s", a.Code, a.Body)
	}
	b.addPasskey(newToken(t))
	if a := b.post(b.get(remove)); a.Code != http.StatusSeeOther {
		t.Errorf("removing one of two: status %d:\n%s", a.Code, a.Body)
	}
}

// TestPasskeyState: a passkey keeps working after a new password, but does not let a blocked person sign in.
func TestPasskeyState(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	if err := h.Person.SetPassword(t.Context(), demo, secret.New("another horse 22"), event.Actor{}); err != nil {
		t.Fatal(err)
	}
	if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
		t.Errorf("after a new password: status %d:\n%s", a.Code, a.Body)
	}
	if err := h.Person.SetState(t.Context(), demo, person.Blocked, event.Actor{}); err != nil {
		t.Fatal(err)
	}
	blocked := h.browser().tryPasskey(k)
	unknown := h.browser().tryPasskey(newToken(t))
	if blocked.Code != http.StatusUnprocessableEntity || blocked.Code != unknown.Code || blocked.Body.Len() != unknown.Body.Len() {
		t.Errorf("a blocked person's passkey: status %d with %d bytes; nobody's: %d with %d; want 422 and the same", blocked.Code, blocked.Body.Len(), unknown.Code, unknown.Body.Len())
	}
	h.checkInvariants()
}

func TestPasskeysOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		issuer string
		off    bool
		want   bool
	}{
		"https":              {issuer, false, true},
		"switched off":       {issuer, true, false},
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
	h, k := withPasskey(t)
	h.cfg.NoPasskeys = true
	h.start()
	b := h.browser()
	form := b.get("/next")
	if strings.Contains(form.Body.String(), "passkey") || strings.Contains(form.Body.String(), "webauthn") {
		t.Errorf("passkeys are off, and the sign-in page offers them:\n%s", form.Body)
	}
	flow := strings.TrimPrefix(form.url, "/sign-in")
	if a := b.do(http.MethodPost, "/sign-in/passkey"+flow, url.Values{"csrf": {form.csrf()}, "credential": {k.use(options{})}}.Encode()); a.Code != http.StatusForbidden || b.session() != "" {
		t.Errorf("passkeys are off, and one is taken: status %d", a.Code)
	}
	b.signIn(demo, demoPassword)
	if a := b.get(addPasskeyPage); a.Code != http.StatusNotFound {
		t.Errorf("passkeys are off, and the page that adds one has status %d, want 404", a.Code)
	}
	if a := b.get("/account/security"); strings.Contains(a.Body.String(), "asskey") {
		t.Errorf("passkeys are off, and the page about signing in tells of them:\n%s", a.Body)
	}
}

// TestPasskeysAreBounded: a person can have at most twenty passkeys.
func TestPasskeysAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, passkeysOn)
	b := h.browser()
	b.signIn(demo, demoPassword)
	for range 19 {
		b.addPasskey(newToken(t))
	}
	f := b.passkeyForm(b.get(addPasskeyPage))
	b.addPasskey(newToken(t))
	if page := b.get(addPasskeyPage); !strings.Contains(page.Body.String(), "You have 20 passkeys") || strings.Contains(page.Body.String(), "data-passkey") {
		t.Errorf("with 20 passkeys there is room for another:\n%s", page.Body)
	}
	if a := b.answer(f, newToken(t).create(f.options)); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the 21st passkey: status %d:\n%s", a.Code, a.Body)
	}
	if got := h.events()["person.PasskeyAddedEvent"]; got != 20 {
		t.Errorf("%d passkeys were added, want 20", got)
	}
}

// TestRemovePasskeysByCommand: an administrator can remove the passkeys of a person who has lost them.
func TestRemovePasskeysByCommand(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	if err := h.StepUp.RemoveStepUp(t.Context(), demo, "passkey", event.Actor{ID: "admin"}); err != nil {
		t.Fatal(err)
	}
	if err := h.StepUp.RemoveStepUp(t.Context(), demo, "passkey", event.Actor{ID: "admin"}); err == nil {
		t.Error("passkeys that are gone are removed again")
	}
	if a := h.browser().tryPasskey(k); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a passkey that an administrator has removed: status %d", a.Code)
	}
}
