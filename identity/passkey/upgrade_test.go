package passkey_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// conditional is an authenticator of a browser that makes a passkey by itself: no one touches it, and no one is
// verified.
func conditional(k *identitytest.Authenticator) { k.Flags = 0 }

// signInAble signs in with a password in a browser that can make a passkey by itself.
func signInAble(b *identitytest.Browser) *identitytest.Answer {
	return b.Post(b.Get("/next"), "username", identitytest.Demo, "password", identitytest.DemoPassword, "upgrade", "yes")
}

var upgradeFields = regexp.MustCompile(`<form method="post" action="([^"]*)" data-upgrade="([^"]*)">`)

// readUpgrade returns the form with which the browser answers whether it has made a passkey.
func readUpgrade(t *testing.T, page *identitytest.Answer) (f identitytest.PasskeyForm) {
	t.Helper()
	body := page.Body.String()
	m := upgradeFields.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("status %d, no form:\n%s", page.Code, body)
	}
	f.Action = html.UnescapeString(m[1])
	if err := json.Unmarshal([]byte(html.UnescapeString(m[2])), &f.Options); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(body, "data-upgrade")
	f.CSRF = identitytest.CSRFField.FindStringSubmatch(rest)[1]
	return f
}

// TestUpgrade: after a sign-in with a password a person gets a passkey without a question. It signs in, asks nothing of
// them elsewhere, and is removed by one click for good.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	h.Notices = new(notifytest.Notices)
	h.Config.SecondFactor = authn.SecondFactorWhenSetUp
	h.Start()
	b, k := h.Browser(), identitytest.NewAuthenticator(t).Bent(conditional)
	form := b.Get("/next")
	if !strings.Contains(form.Body.String(), `<input type="hidden" name="upgrade">`) {
		t.Errorf("the form does not ask whether the browser makes passkeys by itself:\n%s", form.Body)
	}
	page := b.Get(signInAble(b).Next())
	f := readUpgrade(t, page)
	if f.Selection.UserVerification != "preferred" || f.Selection.ResidentKey != "required" || f.User.Name != identitytest.Demo {
		t.Errorf("the browser is asked for %+v", f.Options)
	}
	if !strings.Contains(page.Header().Get("Content-Security-Policy"), "script-src 'self'") ||
		!strings.Contains(page.Body.String(), ">Continue<") {
		t.Errorf("the page has no script, or no way on without one:\n%s", page.Body)
	}
	if a := b.AnswerPasskey(f, k.Create(f.Options)); a.Header().Get("Location") != "/next" {
		t.Fatalf("the answer = %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if level := b.Level(); level != 1 {
		t.Errorf("level = %d after a passkey that no one has used, want 1", level)
	}
	if told := h.Notices.Take(); len(told) != 1 || told[0].Kind != notify.PasskeyAdded {
		t.Errorf("messages: %+v", told)
	}

	k.Flags = identitytest.UserPresent | identitytest.UserVerified
	if a := h.Browser().TryPasskey(k); a.Header().Get("Location") != "/next" {
		t.Fatalf("sign-in with the passkey = %d:\n%s", a.Code, a.Body)
	}
	other := h.Browser() // on a device without the passkey
	if a := signInAble(other); a.Header().Get("Location") != "/next" {
		t.Errorf("the next sign-in with a password leads to %q, want /next: no second step, no second passkey", a.Header().Get("Location"))
	}
	security := other.Get("/account/security")
	if security.Code != http.StatusOK || !strings.Contains(security.Body.String(), "Made by your browser when you signed in with a password") {
		t.Fatalf("the page about signing in = %d:\n%s", security.Code, security.Body)
	}
	at := identitytest.PasskeyRemoval.FindString(security.Body.String())
	_, rest, _ := strings.Cut(security.Body.String(), `action="`+at)
	csrf := identitytest.CSRFField.FindStringSubmatch(rest)[1]
	if a := other.Do(http.MethodPost, at, url.Values{"csrf": {csrf}}.Encode()); a.Header().Get("Location") != "/account/security" {
		t.Fatalf("its removal by one click = %d:\n%s", a.Code, a.Body)
	}
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the removed passkey = %d", a.Code)
	}
	if a := signInAble(h.Browser()); a.Header().Get("Location") != "/next" {
		t.Errorf("after its removal a sign-in leads to %q, want /next: it must not come back", a.Header().Get("Location"))
	}
}

// TestNoUpgrade: a browser that makes no passkey, or a wrong one, goes on, and no one else is asked.
func TestNoUpgrade(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(k *identitytest.Authenticator, f identitytest.PasskeyForm) string{
		"none":    func(*identitytest.Authenticator, identitytest.PasskeyForm) string { return "" },
		"no JSON": func(*identitytest.Authenticator, identitytest.PasskeyForm) string { return "{" },
		"another origin": func(k *identitytest.Authenticator, f identitytest.PasskeyForm) string {
			k.Origin = "https://evil.example"
			return k.Create(f.Options)
		},
		"another host": func(k *identitytest.Authenticator, f identitytest.PasskeyForm) string {
			k.RPID = "evil.example"
			return k.Create(f.Options)
		},
		"an old challenge": func(k *identitytest.Authenticator, f identitytest.PasskeyForm) string {
			f.Challenge = "AAAA" + f.Challenge[4:]
			return k.Create(f.Options)
		},
	} {
		h := identitytest.New(t, identitytest.PasskeysOn)
		b, k := h.Browser(), identitytest.NewAuthenticator(t).Bent(conditional)
		f := readUpgrade(t, b.Get(signInAble(b).Next()))
		if a := b.AnswerPasskey(f, answer(k, f)); a.Header().Get("Location") != "/next" {
			t.Errorf("%s: %d to %q, want /next", name, a.Code, a.Header().Get("Location"))
		}
		if n := h.Events()["person.PasskeyAddedEvent"]; n != 0 {
			t.Errorf("%s: %d passkeys", name, n)
		}
	}
	h := identitytest.New(t, identitytest.PasskeysOn)
	b := h.Browser()
	if a := b.Post(b.Get("/next"), "username", identitytest.Demo, "password",
		identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("a browser that does not say that it can: %q", a.Header().Get("Location"))
	}
	h = identitytest.New(t, identitytest.PasskeysOn)
	h.Config.Passkeys.NoUpgrade = true
	h.Start()
	b = h.Browser()
	if strings.Contains(b.Get("/next").Body.String(), `name="upgrade"`) || signInAble(b).Header().Get("Location") != "/next" {
		t.Error("passkey_upgrade off: the person is asked")
	}
}

// TestUpgradeNeedsTheSecondFactor: a stolen password adds no passkey to an account with a second factor,
// in whatever order the pages are asked.
func TestUpgradeNeedsTheSecondFactor(t *testing.T) {
	t.Parallel()
	t.Run("attack 8319: a stolen password", func(t *testing.T) {
		h, u := identitytest.NewStepping(t, 2)
		h.Config.Passkeys.Off, u.Features.PINEnabled = false, true
		h.Start()
		thief := h.Browser()
		page := thief.Get(signInAble(thief).Next())
		f := readUpgrade(t, page)
		owner := h.Plain()
		if a := owner.Post(owner.Get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
			t.Fatalf("a PIN = %d", a.Code)
		}
		k := identitytest.NewAuthenticator(t).Bent(conditional)
		thief.AnswerPasskey(f, k.Create(f.Options))
		if n := h.Events()["person.PasskeyAddedEvent"]; n != 0 {
			t.Errorf("a session with a password alone has added %d passkeys", n)
		}
		again := h.Browser()
		for name, page := range map[string]*identitytest.Answer{
			"the same page": thief.Get(f.Action), "a new sign-in": again.Get(signInAble(again).Header().Get("Location")),
		} {
			if upgradeFields.MatchString(page.Body.String()) {
				t.Errorf("%s offers a passkey to a password alone:\n%s", name, page.Body)
			}
		}
		// The page that adds a passkey on purpose takes none without a verified owner.
		g := owner.ReadPasskeyForm(owner.Get(identitytest.AddPasskeyPage))
		if a := owner.AnswerPasskey(g, k.Create(g.Options)); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a passkey without a verified owner = %d:\n%s", a.Code, a.Body)
		}
	})
}

var signalsDiv = regexp.MustCompile(`<div hidden data-signals="[^"]*"></div>\n`)

var signalsField = regexp.MustCompile(`data-signals="([^"]*)"`)

// signals are the messages of a page to the browser about passkeys.
type signals struct {
	Unknown *struct{ RPID, CredentialID string } `json:"signalUnknownCredential"`
	All     *struct {
		RPID, UserID string
		IDs          []string `json:"allAcceptedCredentialIds"`
	} `json:"signalAllAcceptedCredentials"`
	Names *struct{ RPID, UserID, Name, DisplayName string } `json:"signalCurrentUserDetails"`
}

func readSignals(t *testing.T, page *identitytest.Answer) (s signals) {
	t.Helper()
	m := signalsField.FindStringSubmatch(page.Body.String())
	if m == nil {
		return s
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSignals: the browser is told which passkeys are accepted, how their owner is called, and which one no one has.
func TestSignals(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	b, first, second := h.Browser(), identitytest.NewAuthenticator(t), identitytest.NewAuthenticator(t)
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if s := readSignals(t, b.Get("/account/security")); s.All != nil || s.Names != nil {
		t.Errorf("a person who never had a passkey: %+v", s)
	}
	b.AddPasskey(first)
	f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	b.AnswerPasskey(f, second.Create(f.Options))
	security := b.Get("/account/security")
	s := readSignals(t, security)
	if s.All == nil || s.All.RPID != identitytest.RPID || s.All.UserID != f.User.ID || len(s.All.IDs) != 2 ||
		s.All.IDs[0] != identitytest.B64(first.ID) {
		t.Errorf("accepted: %+v", s.All)
	}
	if s.Names == nil || s.Names.UserID != f.User.ID || s.Names.Name != identitytest.Demo || s.Names.DisplayName != "Demo Person" {
		t.Errorf("names: %+v", s.Names)
	}
	if s := readSignals(t, b.Get("/account/profile")); s.Names == nil {
		t.Error("the page of the profile does not tell the browser how the person is called")
	}
	b.Post(b.Get(identitytest.PasskeyRemoval.FindString(security.Body.String())))
	if s := readSignals(t, b.Get("/account/security")); s.All == nil || len(s.All.IDs) != 1 || s.All.IDs[0] != identitytest.B64(second.ID) {
		t.Errorf("after the removal of the first: %+v", s.All)
	}
	page := h.Browser().TryPasskey(first)
	if s := readSignals(t, page); page.Code != http.StatusUnprocessableEntity || s.Unknown == nil ||
		s.Unknown.CredentialID != identitytest.B64(first.ID) || s.Unknown.RPID != identitytest.RPID {
		t.Errorf("a sign-in with the removed passkey = %d, %+v", page.Code, s.Unknown)
	}
	page = h.Browser().TryPasskey(second.Bent(func(k *identitytest.Authenticator) { k.Sign = func([]byte) []byte { return []byte{1} } }))
	if s := readSignals(t, page); page.Code != http.StatusUnprocessableEntity || s.Unknown != nil || s.All != nil {
		t.Errorf("a wrong answer about a passkey of the person tells a stranger %+v", s)
	}
}

// TestRelatedOrigins: the list for browsers, and passkeys of the host that an issuer had before. An answer to a related
// origin signs no one in here.
func TestRelatedOrigins(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/webauthn"
	h := identitytest.New(t, identitytest.PasskeysOn)
	if a := h.Browser().Get(path); a.Code != http.StatusNotFound {
		t.Errorf("without related origins = %d %s, want 404", a.Code, a.Body)
	}
	h = identitytest.New(t, identitytest.PasskeysOn)
	h.Config.Passkeys.Related = []string{"https://login.example.org"}
	h.Config.Passkeys.RPID = "old.example.com"
	h.Start()
	a := h.Browser().Get(path)
	if want := `{"origins":["` + identitytest.Issuer + `","https://login.example.org"]}`; a.Code != http.StatusOK || a.Body.String() != want ||
		a.Header().Get("Content-Type") != "application/json" {
		t.Errorf("GET %s = %d %s, want %s", path, a.Code, a.Body, want)
	}
	b, k := h.Browser(), identitytest.NewAuthenticator(t)
	k.RPID = "old.example.com"
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	b.AddPasskey(k)
	if a := h.Browser().TryPasskey(k); a.Header().Get("Location") != "/next" {
		t.Errorf("a passkey of the host before = %d:\n%s", a.Code, a.Body)
	}
	t.Run("attack 9379: answers to other origins", func(t *testing.T) {
		for name, bend := range map[string]func(*identitytest.Authenticator){
			"an answer to a related origin":     func(k *identitytest.Authenticator) { k.Origin = "https://login.example.org" },
			"an answer to the host before":      func(k *identitytest.Authenticator) { k.Origin = "https://old.example.com" },
			"a passkey of the host that is now": func(k *identitytest.Authenticator) { k.RPID = identitytest.RPID },
		} {
			if a := h.Browser().TryPasskey(k.Bent(bend)); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s = %d to %q, want 422", name, a.Code, a.Header().Get("Location"))
			}
		}
	})
}
