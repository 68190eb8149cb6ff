package mfa_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// level3 makes what the harness leads to demand level 3.
func level3(h *identitytest.Harness) {
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.Level = 3
		return d
	}
}

// TestLostPasskey: the first passkey comes with recovery codes. A person who has lost it says that they cannot use it,
// and gets on with the password and a code.
func TestLostPasskey(t *testing.T) {
	t.Parallel()
	h, k := identitytest.New(t, identitytest.PasskeysOn), identitytest.NewAuthenticator(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	shown := b.AnswerPasskey(f, k.Create(f.Options))
	codes := identitytest.RecoveryCodesOf(shown)
	if shown.Code != http.StatusOK || len(codes) != 10 || !strings.HasPrefix(shown.Next(), "/account/security/passkeys/name?id=") {
		t.Fatalf("after the first passkey: %d, %d codes, next %q:\n%s", shown.Code, len(codes), shown.Next(), shown.Body)
	}
	if got := b.Get("/account/security").Body.String(); !strings.Contains(got, "10 codes left in case you lose your phone or passkey") {
		t.Errorf("the page about signing in does not count the codes:\n%s", got)
	}
	second := identitytest.NewAuthenticator(t)
	f = b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	if a := b.AnswerPasskey(f, second.Create(f.Options)); a.Code != http.StatusSeeOther {
		t.Errorf("the second passkey = %d, want no new codes:\n%s", a.Code, a.Body)
	}
	if n := h.Events()["person.RecoveryCodesMadeEvent"]; n != 1 {
		t.Errorf("%d events of new codes, want 1", n)
	}
	lost := h.Browser()
	lost.SignIn(identitytest.Demo, identitytest.DemoPassword)
	level3(h)
	page := lost.Get("/next")
	way := regexp.MustCompile(`<a href="([^"]+)">I can’t use my passkey</a>`).FindStringSubmatch(page.Body.String())
	if way == nil {
		t.Fatalf("the step-up has no way without the passkey:\n%s", page.Body)
	}
	choose := lost.Get(html.UnescapeString(way[1]))
	link := regexp.MustCompile(`href="([^"]+method=recovery)"`).FindStringSubmatch(choose.Body.String())
	if link == nil {
		t.Fatalf("no recovery code to choose:\n%s", choose.Body)
	}
	if a := lost.Post(lost.Get(html.UnescapeString(link[1])), "code", codes[0]); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" {
		t.Fatalf("a recovery code = %d:\n%s", a.Code, a.Body)
	}
	if s, err := h.SessionOf(lost); err != nil || s.Level != 3 {
		t.Errorf("the session is %+v, %v, want level 3", s, err)
	}
	h.CheckInvariants()
}

// TestNewCodesLowerWhatOldOnesRaised: the owner's own session keeps its level.
func TestNewCodesLowerWhatOldOnesRaised(t *testing.T) {
	t.Parallel()
	h, k := identitytest.New(t, identitytest.PasskeysOn), identitytest.NewAuthenticator(t)
	first := h.Browser()
	first.SignIn(identitytest.Demo, identitytest.DemoPassword)
	f := first.ReadPasskeyForm(first.Get(identitytest.AddPasskeyPage))
	codes := identitytest.RecoveryCodesOf(first.AnswerPasskey(f, k.Create(f.Options)))
	thief, owner := h.Browser(), h.Browser()
	for _, b := range []*identitytest.Browser{thief, owner} {
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	}
	level3(h)
	for i, b := range []*identitytest.Browser{thief, owner} {
		page := b.Get("/next")
		b.Post(b.Get(strings.Replace(page.URL, "/step-up/passkey?", "/step-up?", 1)+"&method=recovery"), "code", codes[i])
		h.WantLevel(b, 3)
	}
	if a := owner.Post(owner.Get("/account/security/recovery")); len(identitytest.RecoveryCodesOf(a)) != 10 {
		t.Fatalf("new codes = %d:\n%s", a.Code, a.Body)
	}
	t.Run("attack 5070: a session that was raised with an old code", func(*testing.T) { h.WantLevel(thief, 1) })
	h.WantLevel(owner, 3)
	h.WantLevel(first, 3)
}

// TestCodesEndWithTheLastPasskey: codes that stand in for nothing are invalid, also for passkeys to come.
func TestCodesEndWithTheLastPasskey(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, h *identitytest.Harness, b *identitytest.Browser){
		"by the person": func(t *testing.T, _ *identitytest.Harness, b *identitytest.Browser) {
			page := b.Get("/account/security")
			b.Post(b.Get(identitytest.LinkTo(t, page, "/account/security/passkeys/remove?id=")))
		},
		"by an administrator": func(t *testing.T, h *identitytest.Harness, _ *identitytest.Browser) {
			if err := h.RemoveMethod("passkey"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, k := identitytest.New(t, identitytest.PasskeysOn), identitytest.NewAuthenticator(t)
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
			codes := identitytest.RecoveryCodesOf(b.AnswerPasskey(f, k.Create(f.Options)))
			remove(t, h, b)
			again := h.Browser()
			again.SignIn(identitytest.Demo, identitytest.DemoPassword)
			again.AddPasskey(identitytest.NewAuthenticator(t))
			lost := h.Browser()
			lost.SignIn(identitytest.Demo, identitytest.DemoPassword)
			level3(h)
			page := lost.Get("/next")
			if a := lost.Post(lost.Get(strings.Replace(page.URL, "/step-up/passkey?", "/step-up?", 1)+"&method=recovery"), "code",
				codes[0]); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("a code of the passkey before = %d, want 422:\n%s", a.Code, a.Body)
			}
		})
	}
}

// TestNobodyToAskNothingToUse: a person whose only way is a lost passkey is told who can help.
func TestNobodyToAskNothingToUse(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 3, identitytest.PasskeysOn)
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
	u.StepUp.AuthenticationMethods.GoogleAuthenticatorAuthenticationLevel = 4
	b := h.Plain()
	f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
	if a := b.AnswerPasskey(f, identitytest.NewAuthenticator(t).Create(f.Options)); a.Code != http.StatusSeeOther {
		t.Fatalf("a passkey where codes give more than it = %d, want no codes:\n%s", a.Code, a.Body)
	}
	lost := h.Plain()
	if a := lost.Get("/next"); !strings.Contains(a.Body.String(), "<summary>I can’t use my passkey</summary>") ||
		!strings.Contains(a.Body.String(), "contact your Gatehouse administrator") {
		t.Errorf("the step-up does not say whom to ask:\n%s", a.Body)
	}
}

// TestRecoveryFile: the codes can be kept as a file without a script. The form gives back nothing but the person's own
// codes.
func TestRecoveryFile(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 2)
	b := h.Plain()
	a := b.Get(identitytest.AuthenticatorPage)
	if !strings.Contains(a.Body.String(), `href="otpauth://totp/Gatehouse:demo@example.com?`) {
		t.Errorf("the page has no link for an app on the same phone:\n%s", a.Body)
	}
	secret := strings.ReplaceAll(identitytest.ShownSecret.FindStringSubmatch(a.Body.String())[1], " ", "")
	shown := b.Post(a, "code", h.Code(secret))
	codes := identitytest.RecoveryCodesOf(shown)
	const file = "/account/security/recovery/file"
	kept := b.Fill(shown, file, "codes", strings.Join(codes, " "))
	if kept.Code != http.StatusOK ||
		!strings.HasPrefix(kept.Header().Get("Content-Disposition"), `attachment; filename="recovery-codes.txt"`) ||
		kept.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("the file = %d %v:\n%s", kept.Code, kept.Header(), kept.Body)
	}
	for _, want := range append(codes, identitytest.Demo, "https://auth.example.com/account") {
		if !strings.Contains(kept.Body.String(), want) {
			t.Errorf("the file does not have %q:\n%s", want, kept.Body)
		}
	}
	for name, text := range map[string]string{
		"attack 276: text of another":   "<script>alert(1)</script>",
		"attack 276: one code and more": codes[0] + " call-0900-1234",
	} {
		if a := b.Fill(shown, file, "codes", text); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %d, want a redirect:\n%s", name, a.Code, a.Body)
		}
	}
	if a := b.Do(http.MethodPost, file, "codes="+codes[0]); a.Code != http.StatusForbidden {
		t.Errorf("a form of another site = %d, want 403", a.Code)
	}
	other := h.Plain()
	if a := other.Do(http.MethodPost, file, "codes="+codes[0]); a.Code == http.StatusOK {
		t.Errorf("a session with the password alone got the file: %s", a.Body)
	}
}

// TestRecoveryCodeRaces: of several browsers that come with the same recovery code at once, at two servers that share a
// storage, one gets in.
func TestRecoveryCodeRaces(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 3)
	_, codes, _ := h.Plain().AddApp(identitytest.AuthenticatorPage)
	other := *h
	other.Start()
	for i, code := range codes {
		h.Clock.Advance(time.Hour) // what failed before is forgotten
		var pages [4]*identitytest.Answer
		var browsers [4]*identitytest.Browser
		for j := range pages {
			at := h
			if j%2 == 1 {
				at = &other
			}
			browsers[j] = at.Plain()
			page := browsers[j].Get("/next")
			pages[j] = browsers[j].Get(page.URL + "&method=recovery")
		}
		var in atomic.Int64
		var all sync.WaitGroup
		for j, b := range browsers {
			all.Go(func() {
				if a := b.Post(pages[j], "code", code); a.Code == http.StatusSeeOther && a.Header().Get("Location") == "/next" {
					in.Add(1)
				}
			})
		}
		all.Wait()
		if n := in.Load(); n != 1 {
			t.Errorf("code %d: %d browsers got in, want 1", i, n)
		}
	}
	h.CheckInvariants()
}
