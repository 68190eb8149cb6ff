package identity_test

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/internal/login"
)

// phones are the login methods of the settings by which phones sign people in.
type phones struct{}

func (phones) Providers(_ context.Context, u *config.Units) (list []federation.Provider, version uint64, _ error) {
	for _, m := range u.LoginMethods.LoginMethods {
		if m.Type == config.TypeQRCode && m.Enabled {
			list = append(list, federation.Provider{ID: m.ID, Name: m.Name, Source: federation.Phone{}, Managed: true})
		}
	}
	return list, uint64(len(list)), nil
}

// phoning returns a harness where people sign in by their phone, and its settings.
func phoning(t *testing.T) (*harness, *config.Units) {
	t.Helper()
	h, u := stepping(t, 0)
	h.manager = phones{}
	h.start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.MobileAuthenticationEnabled = true
	u.LoginMethods.MobileLogin = config.MobileLogin{Enabled: true, ShowUseMobileToLogin: true, AllowedLoginAttempts: 3}
	return h, u
}

// qrMethod adds a login method of type QR_CODE.
func qrMethod(u *config.Units, m config.LoginMethod) {
	m.Type, m.Enabled, m.Removable = config.TypeQRCode, true, true
	u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, m)
}

var phoneLink = regexp.MustCompile(`href="(/sign-in/(?:phone|provider)\?[^"]+)"`)

// byPhone goes from a place to the page with the code that a phone scans.
func (b *browser) byPhone(at string) *answer {
	b.h.t.Helper()
	form := b.get(at)
	m := phoneLink.FindStringSubmatch(form.Body.String())
	if m == nil {
		b.h.t.Fatalf("GET %s = %d %s does not lead to a code:\n%s", at, form.Code, form.url, form.Body)
	}
	return b.get(html.UnescapeString(m[1]))
}

// scan returns what the code of a page has: the path of its link, and the number next to it.
func (a *answer) scan(t testing.TB) (link, number string) {
	t.Helper()
	m, n := shownLink.FindStringSubmatch(a.Body.String()), shownNumber.FindStringSubmatch(a.Body.String())
	if m == nil || n == nil || a.Header().Get("Refresh") != "4" || !strings.Contains(a.Body.String(), `class="qr"`) {
		t.Fatalf("GET %s = %d, want a code that waits (Refresh %q):\n%s", a.url, a.Code, a.Header().Get("Refresh"), a.Body)
	}
	return strings.TrimPrefix(html.UnescapeString(m[1]), issuer), n[1]
}

// phone returns a browser elsewhere, in which the person is signed in.
func (h *harness) phone() *browser {
	h.t.Helper()
	b := h.browser()
	b.address = "198.51.100.20:99"
	b.plain()
	return b
}

// approve scans a code and types its number.
func (b *browser) approve(link, number string) *answer {
	b.h.t.Helper()
	form := b.get(link)
	if a := b.post(form, "number", number); a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("approving = %d:\n%s", a.Code, a.Body)
	}
	return b.get(form.url)
}

func TestPhoneSignIn(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone := h.phone()
	h.clock.Advance(time.Minute)
	b := h.browser()
	code := b.byPhone("/next")
	if !strings.Contains(code.Body.String(), "Continue to The shop") {
		t.Errorf("the page with the code does not name the application:\n%s", code.Body)
	}
	link, number := code.scan(t)
	if again, same := b.get(code.url).scan(t); again != link || same != number {
		t.Error("a reload shows another code")
	}
	form := phone.get(link)
	if !strings.HasPrefix(form.url, "/phone?id=") {
		t.Errorf("the phone is at %s", form.url)
	}
	for _, want := range []string{demo, "The shop", "203.0.113.7", "21 November 2026", "12:01"} {
		if !strings.Contains(words(form), want) {
			t.Errorf("the phone does not say %q:\n%s", want, form.Body)
		}
	}
	if strings.Contains(form.Body.String(), ">"+number+"<") || strings.Contains(form.url, number+"&") {
		t.Error("the phone tells the number that it asks for")
	}
	if a := phone.post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no number = %d", a.Code)
	}
	if a := b.get(code.url); b.isSignedIn() || a.Code != http.StatusOK {
		t.Errorf("signed in before the phone has approved: %d", a.Code)
	}
	if a := phone.approve(link, number); !strings.Contains(a.Body.String(), "Approved") {
		t.Errorf("the phone afterwards = %d:\n%s", a.Code, a.Body)
	}
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Fatalf("the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
	h.wantLevel(b, 1)
	s, err := h.session(b)
	if err != nil || s.Provider != "identity" || len(s.AMR) != 1 || s.AMR[0] != "CUSTOM_AUTHENTICATOR" || !s.AuthTime.Equal(h.clock.Now().Add(-time.Minute)) {
		t.Errorf("the session is %+v (%v), want the age of the phone's", s, err)
	}
	if n := h.events(); n["login.PhoneApprovedEvent"] != 1 || n["login.LoginSucceededEvent"] != 2 {
		t.Errorf("events: %v", n)
	}
	if got := words(b.get("/account/activity")); !strings.Contains(got, "You approved a sign-in with your phone") {
		t.Errorf("the person's activity:\n%s", got)
	}
	h.checkInvariants()
}

// TestPhoneSignInOnAnotherNode: the phone comes to a process that has never seen the code.
func TestPhoneSignInOnAnotherNode(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := h.phone(), h.browser()
	code := b.byPhone("/next")
	link, number := code.scan(t)
	h.start()
	phone.approve(link, number)
	h.start()
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
}

// TestPhoneSignsInFirst: on a phone where nobody is signed in, the code leads by the sign-in page, and tells nothing
// before.
func TestPhoneSignsInFirst(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := h.browser(), h.browser()
	code := b.byPhone("/next")
	link, number := code.scan(t)
	form := phone.get(link)
	if !strings.HasPrefix(form.url, "/sign-in?flow=") || strings.Contains(form.Body.String(), "203.0.113.7") {
		t.Fatalf("a phone where nobody is signed in = %s:\n%s", form.url, form.Body)
	}
	a := phone.post(form, "username", demo, "password", demoPassword)
	form = phone.get(a.Header().Get("Location"))
	if !strings.Contains(form.Body.String(), "203.0.113.7") {
		t.Fatalf("after the sign-in = %s:\n%s", form.url, form.Body)
	}
	phone.post(form, "number", number)
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
}

func TestPhoneDenies(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := h.phone(), h.browser()
	code := b.byPhone("/next")
	link, _ := code.scan(t)
	form := phone.get(link)
	if a := phone.post(form, "deny", "yes"); a.Code != http.StatusSeeOther || !strings.Contains(phone.get(form.url).Body.String(), "Sign-in denied") {
		t.Errorf("denying = %d:\n%s", a.Code, a.Body)
	}
	a := b.get(code.url)
	if b.isSignedIn() || !strings.Contains(a.Body.String(), "denied on the phone") || a.Header().Get("Refresh") != "" || h.events()["login.PhoneDeniedEvent"] != 1 {
		t.Errorf("the browser that waited = %d:\n%s", a.Code, a.Body)
	}
	if a := b.post(a); a.Code != http.StatusSeeOther {
		t.Fatalf("another code = %d:\n%s", a.Code, a.Body)
	}
	if next, _ := b.get(code.url).scan(t); next == link {
		t.Error("the code is the one that was denied")
	}
}

// TestPhoneSwitches: what the settings switch off is neither offered nor done, at once.
func TestPhoneSwitches(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	phone := h.phone()
	offered := func(at string) bool {
		return phoneLink.MatchString(h.browser().get(at).Body.String())
	}
	waits := h.browser()
	code := waits.byPhone("/next")
	link, number := code.scan(t)
	form := phone.get(link)

	u.Features.MobileAuthenticationEnabled = false
	if offered("/next") {
		t.Error("mobile_authentication_enabled off: the sign-in page offers it")
	}
	if a := waits.get(code.url); a.Code != http.StatusForbidden {
		t.Errorf("mobile_authentication_enabled off: the code = %d", a.Code)
	}
	if a := phone.post(form, "number", number); a.Code != http.StatusBadRequest {
		t.Errorf("mobile_authentication_enabled off: approving = %d", a.Code)
	}
	u.Features.MobileAuthenticationEnabled = true

	u.LoginMethods.MobileLogin.Enabled = false
	if a := h.browser().get("/sign-in/phone"); offered("/next") || a.Code != http.StatusNotFound {
		t.Errorf("mobile_login off: the page = %d", a.Code)
	}
	qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone"})
	if !offered("/next") {
		t.Error("mobile_login off: a login method of the type is not offered")
	}
	u.LoginMethods.LoginMethods = u.LoginMethods.LoginMethods[:len(u.LoginMethods.LoginMethods)-1]
	u.LoginMethods.MobileLogin.Enabled = true

	u.LoginMethods.MobileLogin.ShowUseMobileToLogin = false
	b := h.browser()
	direct := b.get("/sign-in/phone")
	if offered("/next") {
		t.Error("show_use_mobile_to_login off: the sign-in page offers it")
	}
	link, number = direct.scan(t)
	phone.approve(link, number)
	if a := b.get(direct.url); a.url != "/account" || !b.isSignedIn() {
		t.Errorf("/sign-in/phone leads to %d %s", a.Code, a.url)
	}
	if a := b.get("/sign-in/phone"); a.url != "/account" {
		t.Errorf("/sign-in/phone of somebody who is signed in leads to %s", a.url)
	}

	u.LoginMethods.MobileLogin.ShowUseMobileToLogin = true
	before := h.demand
	h.demand = func(r *http.Request) login.Demand {
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
	phone := h.phone()
	u.LoginMethods.LoginMethods[0].Enabled = false // passwords
	b := h.browser()
	code := b.get("/next")
	if strings.Contains(code.Body.String(), "Use another way") {
		t.Error("the page leads to another way, which there is not")
	}
	link, number := code.scan(t)
	phone.approve(link, number)
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
}

// TestPhoneLoginMethod: a login method has a name and a level, and clients can demand it.
func TestPhoneLoginMethod(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled = true
	u.LoginMethods.MobileLogin.Enabled = false
	qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone", AuthenticationLevel: 2})
	phone, b := h.phone(), h.browser()
	phone.pin("827164")
	h.clock.Advance(time.Hour / 2)
	other := h.phone()
	if a := b.get("/next"); !strings.Contains(a.Body.String(), "Acme phone") {
		t.Errorf("the sign-in page:\n%s", a.Body)
	}
	before := h.demand
	h.demand = func(r *http.Request) login.Demand {
		d := before(r)
		if r.URL.Query().Get("plain") == "" {
			d.Provider = "qr"
		}
		return d
	}
	code := b.get("/next?only=1")
	link, number := code.scan(t)
	// The level of the method is what the phone has to have.
	form := other.get(link)
	if !strings.Contains(form.Body.String(), "Confirm it’s me") || strings.Contains(form.Body.String(), `name="number"`) {
		t.Fatalf("a phone below the level = %s:\n%s", form.url, form.Body)
	}
	up := other.get(other.post(form).Header().Get("Location"))
	if !strings.HasPrefix(up.url, "/step-up?flow=") {
		t.Fatalf("confirming leads to %s:\n%s", up.url, up.Body)
	}
	form = other.get(other.post(up, "code", "827164").Header().Get("Location"))
	if a := other.post(form, "number", number); a.Code != http.StatusSeeOther {
		t.Fatalf("approving at level 2 = %d:\n%s", a.Code, a.Body)
	}
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Fatalf("the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
	if s, err := h.session(b); err != nil || s.Provider != "qr" || s.Level != 2 {
		t.Errorf("the session is %+v (%v)", s, err)
	}
	if got := words(b.get("/account/devices")); !strings.Contains(got, "Acme phone") {
		t.Errorf("the devices do not say how the person signed in:\n%s", got)
	}
}

// TestPhoneTries: so many wrong numbers, and the code is over.
func TestPhoneTries(t *testing.T) {
	t.Parallel()
	h, _ := phoning(t)
	phone, b := h.phone(), h.browser()
	code := b.byPhone("/next")
	link, number := code.scan(t)
	form := phone.get(link)
	for i := range 2 {
		if a := phone.post(form, "number", wrongFor(number)); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "isn’t the number") {
			t.Errorf("wrong number %d = %d:\n%s", i+1, a.Code, a.Body)
		}
	}
	if a := phone.post(form, "number", wrongFor(number)); a.Code != http.StatusSeeOther || !strings.Contains(phone.get(form.url).Body.String(), "Too many wrong numbers") {
		t.Errorf("the last wrong number = %d:\n%s", a.Code, a.Body)
	}
	if phone.post(form, "number", number); b.isSignedIn() {
		t.Error("signed in")
	}
	if a := b.get(code.url); !strings.Contains(a.Body.String(), "Too many wrong numbers") || b.isSignedIn() || h.events()["login.PhoneDeniedEvent"] != 1 {
		t.Errorf("the browser that waited = %d:\n%s", a.Code, a.Body)
	}
}

// TestPhoneMessages: what the operator says to people stands on the phone.
func TestPhoneMessages(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled = true
	u.LoginMethods.MobileLogin.LoginMessage = "Never approve for <somebody> who calls you."
	phone := h.phone()
	link, _ := h.browser().byPhone("/next").scan(t)
	if a := phone.get(link); !strings.Contains(a.Body.String(), "Never approve for &lt;somebody&gt; who calls you.") {
		t.Errorf("without login_message:\n%s", a.Body)
	}
	phone.pin("827164")
	u.LoginMethods.MobileLogin.StepUpType, u.LoginMethods.MobileLogin.StepUpMessage = "PIN", "Your PIN, please."
	link, _ = h.browser().byPhone("/next").scan(t)
	if a := phone.get(link); strings.Contains(a.Body.String(), "Never approve") || !strings.Contains(a.Body.String(), "Your PIN, please.") {
		t.Errorf("without step_up_message:\n%s", a.Body)
	}
}

// TestPhoneStepUp: the person uses the method of the settings on the phone, for each code anew.
func TestPhoneStepUp(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.Features.PINEnabled, u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true, true
	u.LoginMethods.MobileLogin.StepUpType = "PIN"
	phone := h.phone()
	b := h.browser()
	link, number := b.byPhone("/next?x=0").scan(t)
	form := phone.get(link)
	if !strings.Contains(form.Body.String(), `href="/account/security"`) || strings.Contains(form.Body.String(), `name="number"`) {
		t.Errorf("a person without a PIN:\n%s", form.Body)
	}
	if a := phone.do(http.MethodPost, form.url, "number="+number); a.Code != http.StatusForbidden {
		t.Errorf("a person without a PIN approves: %d", a.Code)
	}
	phone.pin("827164")
	for i, at := range []string{"/next?x=1", "/next?x=2"} {
		h.clock.Advance(time.Minute)
		b := h.browser()
		code := b.byPhone(at)
		link, number := code.scan(t)
		form := phone.get(link)
		if strings.Contains(form.Body.String(), `name="number"`) {
			t.Fatalf("code %d is approved without the PIN:\n%s", i+1, form.Body)
		}
		if a := phone.post(form, "number", number); !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Fatalf("code %d: the form leads to %q", i+1, a.Header().Get("Location"))
		}
		up := phone.get(phone.post(form).Header().Get("Location"))
		if !strings.Contains(up.Body.String(), "PIN") || strings.Contains(up.Body.String(), "authenticator") {
			t.Errorf("code %d: the page asks for something else:\n%s", i+1, up.Body)
		}
		form = phone.get(phone.post(up, "code", "827164").Header().Get("Location"))
		phone.post(form, "number", number)
		if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Fatalf("code %d: the browser that waited = %d %s:\n%s", i+1, a.Code, a.url, a.Body)
		}
		h.wantLevel(b, 2)
	}
	u.Features.PINEnabled = false
	if phoneLink.MatchString(h.browser().get("/next").Body.String()) {
		t.Error("it is offered while its method of step-up is switched off")
	}
}

// TestPhoneTypes: only what the settings name approves.
func TestPhoneTypes(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.LoginMethods.MobileLogin.AuthenticationType = "APP"
	phone, b := h.phone(), h.browser()
	link, number := b.byPhone("/next").scan(t)
	form := phone.get(link)
	if !strings.Contains(form.Body.String(), "Use the app") || strings.Contains(form.Body.String(), "<form method") && strings.Contains(form.Body.String(), `name="number"`) {
		t.Errorf("APP: the browser of the phone = %d:\n%s", form.Code, form.Body)
	}
	if a := phone.do(http.MethodPost, form.url, "number="+number); a.Code != http.StatusForbidden {
		t.Errorf("APP: the browser of the phone approves: %d", a.Code)
	}
	qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone", QRCode: &config.QRCodeAttributes{MobileAuthenticationType: "BROWSER"}})
	u.LoginMethods.MobileLogin.Enabled = false
	code := b.byPhone("/next?x=1")
	link, number = code.scan(t)
	phone.approve(link, number)
	if a := b.get(code.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("BROWSER in the login method: the browser that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
}

// TestPhoneLinks: next to the code stand the links to the app.
func TestPhoneLinks(t *testing.T) {
	t.Parallel()
	h, u := phoning(t)
	u.LoginMethods.MobileLogin.Enabled = false
	qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone", QRCode: &config.QRCodeAttributes{
		AndroidStoreLink: "https://play.example.com/acme", AppStoreLink: "https://apps.example.com/acme", DeepLinkingEnabled: true, DeepLinkingRedirectURL: "acme://sign-in?v=2",
	}})
	links := &u.LoginMethods.LoginMethods[len(u.LoginMethods.LoginMethods)-1]
	b := h.browser()
	code := b.byPhone("/next")
	link, _ := code.scan(t)
	token := link[strings.Index(link, "token="):]
	for _, want := range []string{`href="https://play.example.com/acme"`, `href="https://apps.example.com/acme"`, `href="acme://sign-in?` + token + `&amp;v=2"`} {
		if !strings.Contains(code.Body.String(), want) {
			t.Errorf("the page with the code has no %s:\n%s", want, code.Body)
		}
	}
	links.QRCode = &config.QRCodeAttributes{DeepLinkingRedirectURL: "acme://sign-in"}
	if a := b.get(code.url); strings.Contains(a.Body.String(), "acme:") || strings.Contains(a.Body.String(), "example.com/acme") {
		t.Errorf("switched off:\n%s", a.Body)
	}
	links.QRCode = &config.QRCodeAttributes{AppStoreLink: "https://apps.example.com/acme", DeepLinkingEnabled: true, DeepLinkingRedirectURL: "acme://sign-in", MobileAuthenticationType: "BROWSER"}
	if a := b.get(code.url); strings.Contains(a.Body.String(), "acme:") || strings.Contains(a.Body.String(), "example.com/acme") {
		t.Errorf("links to an app that cannot approve:\n%s", a.Body)
	}
}
