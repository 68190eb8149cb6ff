package qrlogin_test

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// phones are the login methods of the settings by which phones sign people in.
type phones struct{}

func (phones) Providers(_ context.Context, u *settings.Units) (list []federation.Provider, version uint64, _ error) {
	for _, m := range u.LoginMethods.LoginMethods {
		if m.Type == settings.TypeQRCode && m.Enabled {
			list = append(list, federation.Provider{ID: m.ID, Name: m.Name, Source: federation.Phone{}, Managed: true})
		}
	}
	return list, uint64(len(list)), nil
}

// phoning returns a harness where people sign in by their phone, and its settings.
func phoning(t *testing.T) (*identitytest.Harness, *settings.Units) {
	t.Helper()
	h, u := identitytest.NewStepping(t, 0)
	h.Manager = phones{}
	h.Start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.MobileAuthenticationEnabled = true
	u.LoginMethods.MobileLogin = settings.MobileLogin{Enabled: true, ShowUseMobileToLogin: true, AllowedLoginAttempts: 3}
	return h, u
}

// qrMethod adds a login method of type QR_CODE.
func qrMethod(u *settings.Units, m settings.LoginMethod) {
	m.Type, m.Enabled, m.Removable = settings.TypeQRCode, true, true
	u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, m)
}

var phoneLink = regexp.MustCompile(`href="(/sign-in/(?:phone|provider)\?[^"]+)"`)

// byPhone goes from a place to the page with the code that a phone scans.
func byPhone(b *identitytest.Browser, at string) *identitytest.Answer {
	b.H.T.Helper()
	form := b.Get(at)
	m := phoneLink.FindStringSubmatch(form.Body.String())
	if m == nil {
		b.H.T.Fatalf("GET %s = %d %s does not lead to a code:\n%s", at, form.Code, form.URL, form.Body)
	}
	return b.Get(html.UnescapeString(m[1]))
}

// scan returns what the code of a page has: the path of its link, and the number next to it.
func scan(a *identitytest.Answer, t testing.TB) (link, number string) {
	t.Helper()
	m, n := identitytest.ShownLink.FindStringSubmatch(a.Body.String()), identitytest.ShownNumber.FindStringSubmatch(a.Body.String())
	if m == nil || n == nil || a.Header().Get("Refresh") != "4" || !strings.Contains(a.Body.String(), `class="qr"`) {
		t.Fatalf("GET %s = %d, want a code that waits (Refresh %q):\n%s", a.URL, a.Code, a.Header().Get("Refresh"), a.Body)
	}
	return strings.TrimPrefix(html.UnescapeString(m[1]), identitytest.Issuer), n[1]
}

// newPhone returns a browser elsewhere, in which the person is signed in.
func newPhone(h *identitytest.Harness) *identitytest.Browser {
	h.T.Helper()
	b := h.Browser()
	b.Address = "198.51.100.20:99"
	b.Plain()
	return b
}

// approve scans a code and types its number.
func approve(b *identitytest.Browser, link, number string) *identitytest.Answer {
	b.H.T.Helper()
	form := b.Get(link)
	if a := b.Post(form, "number", number); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("approving = %d:\n%s", a.Code, a.Body)
	}
	return b.Get(form.URL)
}

func TestPhoneSignIn(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone := newPhone(h)
	h.Clock.Advance(time.Minute)
	b := h.Browser()
	code := byPhone(b, "/next")
	if !strings.Contains(code.Body.String(), "Continue to The shop") {
		t.Errorf("the page with the code does not name the application:\n%s", code.Body)
	}
	link, number := scan(code, t)
	if again, same := scan(b.Get(code.URL), t); again != link || same != number {
		t.Error("a reload shows another code")
	}
	form := phone.Get(link)
	if !strings.HasPrefix(form.URL, "/phone?id=") {
		t.Errorf("the phone is at %s", form.URL)
	}
	for _, want := range []string{identitytest.Demo, "The shop", "203.0.113.7", "21 November 2026", "12:01"} {
		if !strings.Contains(identitytest.Words(form), want) {
			t.Errorf("the phone does not say %q:\n%s", want, form.Body)
		}
	}
	if strings.Contains(form.Body.String(), ">"+number+"<") || strings.Contains(form.URL, number+"&") {
		t.Error("the phone tells the number that it asks for")
	}
	if a := phone.Post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no number = %d", a.Code)
	}
	if a := b.Get(code.URL); b.IsSignedIn() || a.Code != http.StatusOK {
		t.Errorf("signed in before the phone has approved: %d", a.Code)
	}
	if a := approve(phone, link, number); !strings.Contains(a.Body.String(), "Approved") {
		t.Errorf("the phone afterwards = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Fatalf("the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
	h.WantLevel(b, 1)
	s, err := h.SessionOf(b)
	if err != nil || s.Provider != "identity" || len(s.AMR) != 1 || s.AMR[0] != "CUSTOM_AUTHENTICATOR" ||
		!s.AuthTime.Equal(h.Clock.Now().Add(-time.Minute)) {
		t.Errorf("the session is %+v (%v), want the age of the phone's", s, err)
	}
	if n := h.Events(); n["login.PhoneApprovedEvent"] != 1 || n["login.LoginSucceededEvent"] != 2 {
		t.Errorf("events: %v", n)
	}
	if got := identitytest.Words(b.Get("/account/activity")); !strings.Contains(got, "You approved a sign-in with your phone") {
		t.Errorf("the person's activity:\n%s", got)
	}
	h.CheckInvariants()
}

// TestPhoneSignInOnAnotherNode: the phone comes to a process that has never seen the code.
func TestPhoneSignInOnAnotherNode(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := newPhone(h), h.Browser()
	code := byPhone(b, "/next")
	link, number := scan(code, t)
	h.Start()
	approve(phone, link, number)
	h.Start()
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
}

// TestPhoneSignsInFirst: on a phone where no one is signed in, the code leads by the sign-in page, and tells nothing
// before.
func TestPhoneSignsInFirst(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := h.Browser(), h.Browser()
	code := byPhone(b, "/next")
	link, number := scan(code, t)
	form := phone.Get(link)
	if !strings.HasPrefix(form.URL, "/sign-in?flow=") || strings.Contains(form.Body.String(), "203.0.113.7") {
		t.Fatalf("a phone where no one is signed in = %s:\n%s", form.URL, form.Body)
	}
	a := phone.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	form = phone.Get(a.Header().Get("Location"))
	if !strings.Contains(form.Body.String(), "203.0.113.7") {
		t.Fatalf("after the sign-in = %s:\n%s", form.URL, form.Body)
	}
	phone.Post(form, "number", number)
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
}

func TestPhoneDenies(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := newPhone(h), h.Browser()
	code := byPhone(b, "/next")
	link, _ := scan(code, t)
	form := phone.Get(link)
	if a := phone.Post(form, "deny", "yes"); a.Code != http.StatusSeeOther ||
		!strings.Contains(phone.Get(form.URL).Body.String(), "Sign-in denied") {
		t.Errorf("denying = %d:\n%s", a.Code, a.Body)
	}
	a := b.Get(code.URL)
	if b.IsSignedIn() || !strings.Contains(a.Body.String(), "denied on the phone") || a.Header().Get("Refresh") != "" ||
		h.Events()["login.PhoneDeniedEvent"] != 1 {
		t.Errorf("the browser that waited = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(a); a.Code != http.StatusSeeOther {
		t.Fatalf("another code = %d:\n%s", a.Code, a.Body)
	}
	if next, _ := scan(b.Get(code.URL), t); next == link {
		t.Error("the code is the one that was denied")
	}
}

// TestPhoneSwitches: what the settings switch off is neither offered nor done, at once.
func TestPhoneSwitches(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	phone := newPhone(h)
	offered := func(at string) bool {
		return phoneLink.MatchString(h.Browser().Get(at).Body.String())
	}
	waits := h.Browser()
	code := byPhone(waits, "/next")
	link, number := scan(code, t)
	form := phone.Get(link)

	u.Features.MobileAuthenticationEnabled = false
	if offered("/next") {
		t.Error("mobile_authentication_enabled off: the sign-in page offers it")
	}
	if a := waits.Get(code.URL); a.Code != http.StatusForbidden {
		t.Errorf("mobile_authentication_enabled off: the code = %d", a.Code)
	}
	if a := phone.Post(form, "number", number); a.Code != http.StatusBadRequest {
		t.Errorf("mobile_authentication_enabled off: approving = %d", a.Code)
	}
	u.Features.MobileAuthenticationEnabled = true

	u.LoginMethods.MobileLogin.Enabled = false
	if a := h.Browser().Get("/sign-in/phone"); offered("/next") || a.Code != http.StatusNotFound {
		t.Errorf("mobile_login off: the page = %d", a.Code)
	}
	qrMethod(u, settings.LoginMethod{ID: "qr", Name: "Acme phone"})
	if !offered("/next") {
		t.Error("mobile_login off: a login method of the type is not offered")
	}
	u.LoginMethods.LoginMethods = u.LoginMethods.LoginMethods[:len(u.LoginMethods.LoginMethods)-1]
	u.LoginMethods.MobileLogin.Enabled = true

	u.LoginMethods.MobileLogin.ShowUseMobileToLogin = false
	b := h.Browser()
	direct := b.Get("/sign-in/phone")
	if offered("/next") {
		t.Error("show_use_mobile_to_login off: the sign-in page offers it")
	}
	link, number = scan(direct, t)
	approve(phone, link, number)
	if a := b.Get(direct.URL); a.URL != "/account" || !b.IsSignedIn() {
		t.Errorf("/sign-in/phone leads to %d %s", a.Code, a.URL)
	}
	if a := b.Get("/sign-in/phone"); a.URL != "/account" {
		t.Errorf("/sign-in/phone of somebody who is signed in leads to %s", a.URL)
	}

	u.LoginMethods.MobileLogin.ShowUseMobileToLogin = true
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.View = "mobile"
		return d
	}
	if offered("/next") {
		t.Error("app_view=mobile: the phone is asked to scan its own screen")
	}
}

// TestPhoneAlone: where phones are the only way, the sign-in page goes there.
func TestPhoneAlone(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	phone := newPhone(h)
	u.LoginMethods.LoginMethods[0].Enabled = false // passwords
	b := h.Browser()
	code := b.Get("/next")
	if strings.Contains(code.Body.String(), "Use another way") {
		t.Error("the page leads to another way, which there is not")
	}
	link, number := scan(code, t)
	approve(phone, link, number)
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
}

// TestPhoneLoginMethod: a login method has a name and a level, and clients can demand it.
func TestPhoneLoginMethod(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled = true
	u.LoginMethods.MobileLogin.Enabled = false
	qrMethod(u, settings.LoginMethod{ID: "qr", Name: "Acme phone", AuthenticationLevel: 2})
	phone, b := newPhone(h), h.Browser()
	phone.SetPIN("827164")
	h.Clock.Advance(time.Hour / 2)
	other := newPhone(h)
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), "Acme phone") {
		t.Errorf("the sign-in page:\n%s", a.Body)
	}
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		if r.URL.Query().Get("plain") == "" {
			d.Provider = "qr"
		}
		return d
	}
	code := b.Get("/next?only=1")
	link, number := scan(code, t)
	// The level of the method is what the phone has to have.
	form := other.Get(link)
	if !strings.Contains(form.Body.String(), "Confirm it’s me") || strings.Contains(form.Body.String(), `name="number"`) {
		t.Fatalf("a phone below the level = %s:\n%s", form.URL, form.Body)
	}
	up := other.Get(other.Post(form).Header().Get("Location"))
	if !strings.HasPrefix(up.URL, "/step-up?flow=") {
		t.Fatalf("confirming leads to %s:\n%s", up.URL, up.Body)
	}
	form = other.Get(other.Post(up, "code", "827164").Header().Get("Location"))
	if a := other.Post(form, "number", number); a.Code != http.StatusSeeOther {
		t.Fatalf("approving at level 2 = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Fatalf("the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
	if s, err := h.SessionOf(b); err != nil || s.Provider != "qr" || s.Level != 2 {
		t.Errorf("the session is %+v (%v)", s, err)
	}
	if got := identitytest.Words(b.Get("/account/devices")); !strings.Contains(got, "Acme phone") {
		t.Errorf("the devices do not say how the person signed in:\n%s", got)
	}
}

// TestPhoneTries: so many wrong numbers, and the code is over.
func TestPhoneTries(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := newPhone(h), h.Browser()
	code := byPhone(b, "/next")
	link, number := scan(code, t)
	form := phone.Get(link)
	for i := range 2 {
		if a := phone.Post(form, "number", identitytest.WrongFor(number)); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), "isn’t the number") {
			t.Errorf("wrong number %d = %d:\n%s", i+1, a.Code, a.Body)
		}
	}
	if a := phone.Post(form, "number", identitytest.WrongFor(number)); a.Code != http.StatusSeeOther ||
		!strings.Contains(phone.Get(form.URL).Body.String(), "Too many wrong numbers") {
		t.Errorf("the last wrong number = %d:\n%s", a.Code, a.Body)
	}
	if phone.Post(form, "number", number); b.IsSignedIn() {
		t.Error("signed in")
	}
	if a := b.Get(code.URL); !strings.Contains(a.Body.String(), "Too many wrong numbers") || b.IsSignedIn() ||
		h.Events()["login.PhoneDeniedEvent"] != 1 {
		t.Errorf("the browser that waited = %d:\n%s", a.Code, a.Body)
	}
}

// TestPhoneMessages: what the operator says to people stands on the phone.
func TestPhoneMessages(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled = true
	u.LoginMethods.MobileLogin.LoginMessage = "Never approve for <somebody> who calls you."
	phone := newPhone(h)
	link, _ := scan(byPhone(h.Browser(), "/next"), t)
	if a := phone.Get(link); !strings.Contains(a.Body.String(), "Never approve for &lt;somebody&gt; who calls you.") {
		t.Errorf("without login_message:\n%s", a.Body)
	}
	phone.SetPIN("827164")
	u.LoginMethods.MobileLogin.StepUpType, u.LoginMethods.MobileLogin.StepUpMessage = "PIN", "Your PIN, please."
	link, _ = scan(byPhone(h.Browser(), "/next"), t)
	if a := phone.Get(link); strings.Contains(a.Body.String(), "Never approve") || !strings.Contains(a.Body.String(), "Your PIN, please.") {
		t.Errorf("without step_up_message:\n%s", a.Body)
	}
}

// TestPhoneStepUp: the person uses the method of the settings on the phone, for each code.
func TestPhoneStepUp(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled, u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true, true
	u.LoginMethods.MobileLogin.StepUpType = "PIN"
	phone := newPhone(h)
	b := h.Browser()
	link, number := scan(byPhone(b, "/next?x=0"), t)
	form := phone.Get(link)
	if !strings.Contains(form.Body.String(), `href="/account/security"`) || strings.Contains(form.Body.String(), `name="number"`) {
		t.Errorf("a person without a PIN:\n%s", form.Body)
	}
	if a := phone.Do(http.MethodPost, form.URL, "number="+number); a.Code != http.StatusForbidden {
		t.Errorf("a person without a PIN approves: %d", a.Code)
	}
	phone.SetPIN("827164")
	for i, at := range []string{"/next?x=1", "/next?x=2"} {
		h.Clock.Advance(time.Minute)
		b := h.Browser()
		code := byPhone(b, at)
		link, number := scan(code, t)
		form := phone.Get(link)
		if strings.Contains(form.Body.String(), `name="number"`) {
			t.Fatalf("code %d is approved without the PIN:\n%s", i+1, form.Body)
		}
		if a := phone.Post(form, "number", number); !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Fatalf("code %d: the form leads to %q", i+1, a.Header().Get("Location"))
		}
		up := phone.Get(phone.Post(form).Header().Get("Location"))
		if !strings.Contains(up.Body.String(), "PIN") || strings.Contains(up.Body.String(), "authenticator") {
			t.Errorf("code %d: the page asks for something else:\n%s", i+1, up.Body)
		}
		form = phone.Get(phone.Post(up, "code", "827164").Header().Get("Location"))
		phone.Post(form, "number", number)
		if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Fatalf("code %d: the browser that waited = %d %s:\n%s", i+1, a.Code, a.URL, a.Body)
		}
		h.WantLevel(b, 2)
	}
	u.Features.PINEnabled = false
	if phoneLink.MatchString(h.Browser().Get("/next").Body.String()) {
		t.Error("it is offered while its method of step-up is switched off")
	}
}

// TestPhoneTypes: only what the settings name approves.
func TestPhoneTypes(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.LoginMethods.MobileLogin.AuthenticationType = "APP"
	phone, b := newPhone(h), h.Browser()
	link, number := scan(byPhone(b, "/next"), t)
	form := phone.Get(link)
	if !strings.Contains(form.Body.String(), "Use the app") || strings.Contains(form.Body.String(), "<form method") &&
		strings.Contains(form.Body.String(), `name="number"`) {
		t.Errorf("APP: the browser of the phone = %d:\n%s", form.Code, form.Body)
	}
	if a := phone.Do(http.MethodPost, form.URL, "number="+number); a.Code != http.StatusForbidden {
		t.Errorf("APP: the browser of the phone approves: %d", a.Code)
	}
	qrMethod(u, settings.LoginMethod{ID: "qr", Name: "Acme phone", QRCode: &settings.QRCodeAttributes{MobileAuthenticationType: "BROWSER"}})
	u.LoginMethods.MobileLogin.Enabled = false
	code := byPhone(b, "/next?x=1")
	link, number = scan(code, t)
	approve(phone, link, number)
	if a := b.Get(code.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("BROWSER in the login method: the browser that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
}

// TestPhoneLinks: next to the code stand the links to the app.
func TestPhoneLinks(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.LoginMethods.MobileLogin.Enabled = false
	qrMethod(u, settings.LoginMethod{ID: "qr", Name: "Acme phone", QRCode: &settings.QRCodeAttributes{
		AndroidStoreLink: "https://play.example.com/acme", AppStoreLink: "https://apps.example.com/acme", DeepLinkingEnabled: true,
		DeepLinkingRedirectURL: "acme://sign-in?v=2",
	}})
	links := &u.LoginMethods.LoginMethods[len(u.LoginMethods.LoginMethods)-1]
	b := h.Browser()
	code := byPhone(b, "/next")
	link, _ := scan(code, t)
	token := link[strings.Index(link, "token="):]
	for _, want := range []string{
		`href="https://play.example.com/acme"`, `href="https://apps.example.com/acme"`,
		`href="acme://sign-in?` + token + `&amp;v=2"`,
	} {
		if !strings.Contains(code.Body.String(), want) {
			t.Errorf("the page with the code has no %s:\n%s", want, code.Body)
		}
	}
	links.QRCode = &settings.QRCodeAttributes{DeepLinkingRedirectURL: "acme://sign-in"}
	if a := b.Get(code.URL); strings.Contains(a.Body.String(), "acme:") || strings.Contains(a.Body.String(), "example.com/acme") {
		t.Errorf("switched off:\n%s", a.Body)
	}
	links.QRCode = &settings.QRCodeAttributes{
		AppStoreLink: "https://apps.example.com/acme", DeepLinkingEnabled: true,
		DeepLinkingRedirectURL: "acme://sign-in", MobileAuthenticationType: "BROWSER",
	}
	if a := b.Get(code.URL); strings.Contains(a.Body.String(), "acme:") || strings.Contains(a.Body.String(), "example.com/acme") {
		t.Errorf("links to an app that cannot approve:\n%s", a.Body)
	}
}
