package identitytest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// NewWithPIN returns the harness of stepping for level 2, with e-mail and a demo person who has a PIN.
func NewWithPIN(t *testing.T) (*Harness, *settings.Units, *notifytest.Notices) {
	t.Helper()
	h, u := NewStepping(t, 2)
	box := &notifytest.Notices{}
	h.Notices = box
	h.Start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.PINEnabled, u.EmailNotifications.PINReset = true, true
	b := h.Plain()
	if a := b.Post(b.Get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	return h, u, box
}

// ShownLink matches the link that enrols a phone.
var ShownLink = regexp.MustCompile(`<p class="secret" id="link"><code>([^<]+)</code>`)

// ShownNumber matches the number that a prompt is compared with.
var ShownNumber = regexp.MustCompile(`<p class="number"><b>([0-9]{2})</b>`)

// RecoveryCodesOf returns the codes that a page shows.
func RecoveryCodesOf(a *Answer) (out []string) {
	for _, c := range ShownCode.FindAllStringSubmatch(a.Body.String(), -1) {
		out = append(out, c[1])
	}
	return out
}

// NewWithEmailCodes returns the harness of stepping for level 2, with codes by e-mail as the only method.
func NewWithEmailCodes(t *testing.T) (*Harness, *settings.Units, *notifytest.Notices) {
	t.Helper()
	h, u := NewStepping(t, 2)
	box := &notifytest.Notices{}
	h.Notices = box
	h.Start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.EmailNotifications.StepUpAuthentication = true
	return h, u, box
}

// Ask requests a code and returns it with the page where it is entered.
func (b *Browser) Ask(box *notifytest.Notices) (page *Answer, code string) {
	b.H.T.Helper()
	page = b.Get("/next")
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("asking for a code at %s = %d:\n%s", page.URL, a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || list[0].Kind != notify.StepUpCode || list[0].To != Demo || len(list[0].Data["code"]) != 6 {
		b.H.T.Fatalf("sent: %+v", list)
	}
	return b.Get(page.URL), list[0].Data["code"]
}

// PINPage is the path of the page about the PIN.
const PINPage = "/account/security/pin"

// SetPIN sets a PIN.
func (b *Browser) SetPIN(pin string) {
	b.H.T.Helper()
	if a := b.Post(b.Get(PINPage), "pin", pin, "again", pin); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("a new PIN = %d:\n%s", a.Code, a.Body)
	}
}

// RemoveMethod removes a method of Demo, as an administrator does.
func (h *Harness) RemoveMethod(method string) error {
	return h.StepUp.RemoveStepUp(h.T.Context(), Demo, mfa.Removal{Method: method}, audit.Actor{ID: "admin", Name: "admin"})
}

// NewStepping returns a harness where every demand asks for a level, unless its URL has plain=, and authenticator apps
// are on.
func NewStepping(t *testing.T, level int, change ...func(*identity.Config)) (*Harness, *settings.Units) {
	t.Helper()
	h, u := NewConfigured(t, change...)
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		if r.URL.Query().Get("plain") == "" {
			d.Level = level
		}
		return d
	}
	return h, u
}

// ShownSecret matches the secret for an authenticator app.
var ShownSecret = regexp.MustCompile(`<p class="secret" id="secret"><code>([A-Z2-7 ]+)</code>`)

// ShownCode matches a recovery code.
var ShownCode = regexp.MustCompile(`<li><code>([a-z2-7-]+)</code>`)

// Code returns the code that an authenticator app shows now.
func (h *Harness) Code(secret string) string {
	h.T.Helper()
	code, err := totp.GenerateCode(secret, h.Clock.Now())
	if err != nil {
		h.T.Fatal(err)
	}
	return code
}

// AddApp sets up an authenticator app at a page. It returns the secret, the recovery codes and the link that continues.
func (b *Browser) AddApp(target string) (secret string, codes []string, next string) {
	b.H.T.Helper()
	a := b.Get(target)
	m := ShownSecret.FindStringSubmatch(a.Body.String())
	if m == nil {
		b.H.T.Fatalf("GET %s: status %d, no secret:\n%s", target, a.Code, a.Body)
	}
	secret = strings.ReplaceAll(m[1], " ", "")
	a = b.Post(a, "code", b.H.Code(secret))
	for _, c := range ShownCode.FindAllStringSubmatch(a.Body.String(), -1) {
		codes = append(codes, c[1])
	}
	link := regexp.MustCompile(`<div class="buttons"><a class="button" href="([^"]+)"`).FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || len(codes) != 10 || link == nil {
		b.H.T.Fatalf("the first code: status %d, %d recovery codes:\n%s", a.Code, len(codes), a.Body)
	}
	b.H.Clock.Advance(30 * time.Second) // the code of this step is used up
	return secret, codes, strings.ReplaceAll(link[1], "&amp;", "&")
}

// AuthenticatorPage is the path of the page about authenticator apps.
const AuthenticatorPage = "/account/security/authenticator"
