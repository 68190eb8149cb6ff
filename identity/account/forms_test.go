package account_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// accountForms are the forms below /account, each with fields that would change something.
var accountForms = map[string][]string{
	"/account/profile":           {"form", "details", "given_name", "Evil"},
	"/account/profile/contact":   {"kind", "email", "do", "add", "value", "evil@example.org"},
	"/account/profile/confirm":   {"code", "123456"},
	"/account/security/password": {"current", identitytest.DemoPassword, "password", "Evil horse 666"},
	"/account/devices":           {"session", "others"},
	"/account/applications":      {"application", "shop"},
	"/account/security/accounts": {"do", "disconnect", "provider", "partner"},
	"/account/data/delete":       {"password", identitytest.DemoPassword},
}

// TestAccountForms submits every form below /account without a session, in one whose level is too low, from another
// site, and without its CSRF token.
func TestAccountForms(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	other := h.Browser()
	other.SignIn(identitytest.Demo, identitytest.DemoPassword)
	before := h.Dump()
	same := func(t *testing.T) {
		t.Helper()
		if !other.IsSignedIn() || h.Details(identitytest.Demo).Profile.Name.FirstName != "" {
			t.Error("something has changed")
		}
		for key, v := range h.Dump() {
			if (strings.HasPrefix(key, "identity_person\x00") || strings.HasPrefix(key, "identity_password\x00")) && before[key] != v {
				t.Errorf("%q has changed", key)
			}
		}
	}
	for path, fields := range accountForms {
		v := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			v.Set(fields[i], fields[i+1])
		}
		t.Run("attack 266: without a session: "+path, func(t *testing.T) {
			if a := h.Browser().Do(http.MethodPost, path, v.Encode()); a.Code != http.StatusSeeOther ||
				!strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
				t.Errorf("POST %s = %d to %s", path, a.Code, a.Header().Get("Location"))
			}
			same(t)
		})
		t.Run("attack 282: without a token: "+path, func(t *testing.T) {
			if a := b.Do(http.MethodPost, path, v.Encode()); a.Code != http.StatusForbidden && a.Header().Get("Location") != "/account/profile" {
				t.Errorf("POST %s = %d", path, a.Code)
			}
			same(t)
		})
		t.Run("attack 282: with the token of another person's page: "+path, func(t *testing.T) {
			foreign := url.Values{"csrf": {other.Get("/account/profile?edit=details").CSRF()}}
			for k := range v {
				foreign.Set(k, v.Get(k))
			}
			if a := b.Do(http.MethodPost, path, foreign.Encode()); a.Code != http.StatusForbidden &&
				a.Header().Get("Location") != "/account/profile" {
				t.Errorf("POST %s = %d", path, a.Code)
			}
			same(t)
		})
		t.Run("attack 282: from another site: "+path, func(t *testing.T) {
			b.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
			defer func() { b.Header = nil }()
			v := url.Values{"csrf": {b.Get("/account/profile?edit=details").CSRF()}}
			if a := b.Do(http.MethodPost, path, v.Encode()); a.Code != http.StatusForbidden && a.Header().Get("Location") != "/account/profile" {
				t.Errorf("POST %s = %d", path, a.Code)
			}
			same(t)
		})
	}
	form := b.Get("/account/profile?edit=details")
	u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
	u.StepUp.Actions.ChangeEmailAuthenticationLevel, u.StepUp.Actions.ChangePasswordAuthenticationLevel = 2, 2
	for path, fields := range accountForms {
		t.Run("attack 266: at a level too low: "+path, func(t *testing.T) {
			if a := b.Fill(form, path, fields...); a.Code != http.StatusForbidden && a.Code != http.StatusSeeOther ||
				strings.Contains(a.Header().Get("Location"), "done=") {
				t.Errorf("POST %s = %d to %s", path, a.Code, a.Header().Get("Location"))
			}
			if a := get2(b, path); a.Code == http.StatusOK {
				t.Errorf("GET %s = 200", path)
			}
			same(t)
		})
	}
	h.CheckInvariants()
}

// TestChangeLevels: changing an address and changing the password each need the level that is configured for it.
func TestChangeLevels(t *testing.T) {
	t.Parallel()
	_, b, u, _ := dashboard(t)
	u.Attributes.Verification.EmailEnabled = false
	u.StepUp.Actions.ChangeEmailAuthenticationLevel = 2
	if a := contact(b, "add", "new@example.org"); a.Code != http.StatusForbidden {
		t.Errorf("another address with a password where level 2 is demanded = %d", a.Code)
	}
	if a := b.Get("/account/security/password"); a.Code != http.StatusOK {
		t.Errorf("the password page = %d", a.Code)
	}
	u.StepUp.Actions.ChangeEmailAuthenticationLevel, u.StepUp.Actions.ChangePasswordAuthenticationLevel = 1, 2
	if a := b.Get("/account/security/password"); a.Code != http.StatusForbidden {
		t.Errorf("the password page where level 2 is demanded = %d", a.Code)
	}
	wantDone(t, "another address", contact(b, "add", "new@example.org"), "/account/profile?done=added")
}

// TestAccountBack: the account leads back to the page that the person came from, if its URL is whitelisted.
func TestAccountBack(t *testing.T) {
	t.Parallel()
	_, b, u, _ := dashboard(t)
	u.Redirects.URLWhitelist = []settings.WhitelistedURL{{ID: "1", URL: "https://www.example.com/a"}}
	for _, evil := range []string{
		"https://evil.example/", "//evil.example/", "javascript:alert(1)", `/\evil.example`,
		"https://www.example.com.evil/a",
	} {
		t.Run("attack 281: the way back to another site: "+evil, func(t *testing.T) {
			b.Get("/account?redirect=" + url.QueryEscape(evil))
			if a := b.Get("/account"); strings.Contains(a.Body.String(), "evil") || strings.Contains(a.Body.String(), "javascript:") {
				t.Errorf("%s is where the account leads", evil)
			}
		})
	}
	b.Get("/account?redirect=" + url.QueryEscape("https://www.example.com/a/b"))
	if a := b.Get("/account/devices"); !strings.Contains(a.Body.String(), `href="https://www.example.com/a/b"`) {
		t.Errorf("no way back:\n%s", a.Body)
	}
	u.Redirects.URLWhitelist = nil
	if a := b.Get("/account/devices"); strings.Contains(a.Body.String(), "www.example.com") {
		t.Error("it leads to what is no longer whitelisted")
	}
}

func TestVerificationPhone(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	texts := new(notifytest.Texts)
	h.Texts = texts
	h.Start()
	post := func(do, value string) *identitytest.Answer {
		t.Helper()
		return b.Fill(b.Get("/account/profile?edit=details"), "/account/profile/contact", "kind", "phone", "do", do, "value", value)
	}
	u.Attributes.Verification.MobileNumberEnabled = true
	wantDone(t, "while no text message is sent", post("add", "+31 6 11111111"), "/account/profile?done=added")
	u.Features.SMSEnabled = true
	if a := post("add", "06 12345678"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a number without its country = %d", a.Code)
	}
	if a := post("add", "0031 6-11111111"); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account/profile/confirm" {
		t.Errorf("another spelling of a number that is not confirmed = %d", a.Code)
	}
	list := texts.Take()
	if len(list) != 1 || list[0].To != "+31611111111" || list[0].Kind != notify.SMSPhoneCode {
		t.Fatalf("sent: %+v", list)
	}
	wantDone(t, "the code", sendTo(b, "/account/profile/confirm", "code", list[0].Data["code"]), "/account/profile?done=added")
	if got := h.Details(identitytest.Demo).Profile.PhoneNumbers; len(got) != 1 || !got[0].Verified || !got[0].Primary {
		t.Errorf("numbers = %+v", got)
	}
}

// TestAccountPagesAreNotKept: after signing out, neither a cache nor the back button shows a page of the account.
func TestAccountPagesAreNotKept(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	paths := []string{
		"/account", "/account/profile", "/account/security", "/account/security/password", "/account/devices", "/account/applications",
		"/account/activity", "/account/data",
		"/account/data/delete", "/account/data/download",
	}
	for _, path := range paths {
		t.Run("attack 279: "+path, func(t *testing.T) {
			a := get2(b, path)
			if a.Code != http.StatusOK || a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("GET %s = %d, Cache-Control %q, want 200 and no-store", path, a.Code, a.Header().Get("Cache-Control"))
			}
			if a := get2(h.Browser(), path); a.Code != http.StatusSeeOther || a.Header().Get("Cache-Control") != "no-store" ||
				strings.Contains(a.Body.String(), identitytest.Demo) {
				t.Errorf("GET %s without a session = %d, Cache-Control %q", path, a.Code, a.Header().Get("Cache-Control"))
			}
		})
	}
}
