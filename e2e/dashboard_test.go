package e2e

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// sixDigits is a code in a mail.
var sixDigits = regexp.MustCompile(`(?m)^([0-9]{6})\s*$`)

// mailed adds a mail server to a configuration.
func mailed(m *mailServer, caddyfile string) string {
	lines := fmt.Sprintf("\n\t\tmail smtp %s {\n\t\t\tfrom \"The gate <no-reply@example.com>\"\n\t\t\tusername %s\n\t\t\tpassword {env.TEST_SMTP_PASSWORD}\n\t\t}\n\t\tidentity {\n\t\t\tlocales en nl de fr", m.address, m.user)
	caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
	return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
}

// look returns inspect for one tab, with a common prefix of all names.
func look(b *tab, prefix string) func(name string) {
	b.t.Helper()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Fatalf("%v: make install", err)
	}
	return func(name string) {
		b.t.Helper()
		inspect(b, prefix+name, string(axe))
	}
}

// pick chooses an option of a select.
func (b *tab) pick(selector, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), value))
}

// TestDashboard walks through a person's own account: profile, another address, another password, devices,
// applications, activity, and removal.
func TestDashboard(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	p, s := openShopEdited(t, func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"attributes":{"name_visible_on_dashboard":true,"verification":{"email_enabled":true}},`+
			`"features":{"google_authenticator_step_up_authentication_enabled":true,"pin_enabled":true},"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}},`+
			`"redirects":{"url_whitelist":[{"url":"`+p.address+`/"}]},`+
			`"email_notifications":{"account_removed":true,"attributes_update":{"on_email_updated":true,"on_password_updated":true}}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	b := s.browse(t)
	see := look(b, "dashboard-")
	b.open(p.address + "/")
	b.signIn(person, s.Password)
	b.click("button[value=allow]")
	b.reaches(p.address)
	b.open(s.Issuer + "/account?redirect=" + p.address + "/")
	see("overview")
	if !b.has(`nav.menu a[href="` + p.address + `/"]`) {
		t.Error("the account has no link back to where the person came from")
	}

	profileJourney(t, s, b, m, see)
	passwordJourney(t, s, b, m, see)

	b.open(s.Issuer + "/account/applications")
	see("applications")
	b.click("ul.rows form button")
	see("applications-none")
	b.open(s.Issuer + "/account/activity")
	b.until(`document.querySelector("time").title.endsWith(" UTC")`)
	if got := b.text("time"); strings.Contains(got, "UTC") {
		t.Errorf("with scripts a moment is shown as %q, want the reader's zone", got)
	}
	see("activity")
	b.open(s.Issuer + "/account/security")
	see("security")
	b.open(s.Issuer + "/account/data")
	see("data")

	b.click(`a[href="/account/data/delete"]`)
	see("delete")
	b.fill("#password", "not it")
	b.click("main form button:not([type])")
	see("delete-wrong")
	b.fill("#password", s.Password)
	b.click("main form button:not([type])")
	see("deleted")
	if header, _ := m.next(t); header.Get("Subject") != "Your account at Gatehouse was removed" || header.Get("To") != "<new@example.org>" {
		t.Errorf("mail = %v", header)
	}
	b.open(s.Issuer + "/account")
	b.signIn("new@example.org", s.Password)
	if !strings.HasPrefix(b.location(), s.Issuer+"/sign-in") {
		t.Errorf("a sign-in succeeds after the account was removed: %s", b.location())
	}
}

// profileJourney changes the profile and the address.
func profileJourney(t *testing.T, s *server, b *tab, m *mailServer, see func(string)) {
	t.Helper()
	b.click(`nav.menu a[href="/account/profile"]`)
	see("profile")
	b.click(`section a[href$="edit=more"]`)
	see("profile-more")
	b.fill("#given_name", "Demo <b>")
	b.fill("#family_name", "Person")
	b.pick("#gender", "U")
	b.click(`section[aria-labelledby=who] form button`)
	see("profile-saved")
	if got := b.text("section[aria-labelledby=who] dl"); !strings.Contains(got, "Demo <b>") || !strings.Contains(got, "Other") {
		t.Errorf("the profile shows %q", got)
	}
	b.click(`section a[href$="edit=address"]`)
	b.pick("#country", "NL")
	b.fill("#house_number", "12a")
	b.click(`section[aria-labelledby=post] form button`)
	see("profile-wrong")
	b.until(`document.activeElement?.id === "house_number"`)
	if at := eval[float64](b, `document.activeElement.getBoundingClientRect().bottom`); at < 0 || at > 800 {
		t.Errorf("the field with the problem is at %g, out of sight", at)
	}
	b.do(chromedp.Click(chromedp.CSS(`.notice.bad a[href="#house_number"]`)))
	b.until(`document.activeElement?.id === "house_number" || location.hash === "#house_number"`)

	b.open(s.Issuer + "/account/profile?edit=email")
	b.fill("#email", "new@example.org")
	b.click(`section[aria-labelledby=emails] > form button`)
	b.reaches(s.Issuer + "/account/profile/confirm")
	see("confirm")
	header, parts := m.next(t)
	code := sixDigits.FindStringSubmatch(parts["text/plain"])
	if header.Get("To") != "<new@example.org>" || code == nil {
		t.Fatalf("mail = %v %q", header, parts["text/plain"])
	}
	lookAtMail(t, s, "mail-address-code", parts["text/html"])
	b.fill("#code", code[1])
	b.click("main form button:not([type])")
	see("profile-added")
	b.click(`section[aria-labelledby=emails] li:nth-child(2) form button`)
	if header, _ := m.next(t); header.Get("To") != "<"+person+">" {
		t.Errorf("the notice about the new address went to %s, want the old one", header.Get("To"))
	}
	if got := b.text(`section[aria-labelledby=emails] li:nth-child(2)`); !strings.Contains(got, "new@example.org") ||
		!strings.Contains(got, "Primary") {
		t.Errorf("the addresses say %q", got)
	}
}

// passwordJourney changes the password, and ends the sign-in of another browser.
func passwordJourney(t *testing.T, s *server, b *tab, m *mailServer, see func(string)) {
	t.Helper()
	other := s.browse(t)
	other.open(s.Issuer + "/account")
	other.signIn("new@example.org", s.Password)
	b.open(s.Issuer + "/account/devices")
	see("devices")
	b.click("ul.rows form button")
	see("devices-ended")
	other.open(s.Issuer + "/account")
	if !strings.HasPrefix(other.location(), s.Issuer+"/sign-in") {
		t.Errorf("the other browser is at %s, want the sign-in page", other.location())
	}
	other.signIn("new@example.org", s.Password)

	b.open(s.Issuer + "/account/security/password")
	see("password")
	b.fill("#current", "wrong")
	b.fill("#password", random(12))
	b.click("main form button:not([type])")
	see("password-wrong")
	next := random(12)
	s.secret("new password", next)
	b.fill("#current", s.Password)
	b.fill("#password", next)
	b.click("main form button:not([type])")
	see("password-saved")
	if header, _ := m.next(t); header.Get("Subject") != "Your password at Gatehouse has changed" {
		t.Errorf("mail = %v", header)
	}
	s.Password = next
	other.open(s.Issuer + "/account")
	if !strings.HasPrefix(other.location(), s.Issuer+"/sign-in") {
		t.Errorf("after the change of the password the other browser is at %s", other.location())
	}
}

// TestDashboardInEveryLanguage looks at the pages with the longest words.
func TestDashboardInEveryLanguage(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	s := startEdited(t, "http://localhost:9/callback", func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password,
		"SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	b := s.browse(t)
	b.open(s.Issuer + "/account")
	b.signIn(person, s.Password)
	for _, language := range []string{"nl", "de", "fr"} {
		b.open(s.Issuer + "/account/profile?edit=details")
		b.pick("#locale", language)
		b.click(`section[aria-labelledby=who] form button`)
		see := look(b, language+"-dashboard-")
		see("profile")
		b.open(s.Issuer + "/account/profile?edit=address")
		see("profile-address")
		for _, path := range []string{"devices", "activity", "data", "security/password"} {
			b.open(s.Issuer + "/account/" + path)
			if got := eval[string](b, `document.documentElement.lang`); got != language {
				t.Errorf("%s is in %q, want %q", path, got, language)
			}
			see(strings.ReplaceAll(path, "/", "-"))
		}
	}
}

// TestDashboardAccounts links an account at a provider, signs in with it, and unlinks it.
func TestDashboardAccounts(t *testing.T) {
	t.Parallel()
	o := reserveOIDCProvider(t)
	_, s := openShopEdited(t, func(c string) string {
		return strings.Replace(o.with(c), "apis introspection", "apis introspection configuration", 1)
	})
	o.serve(s)
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	b := s.browse(t)
	see := look(b, "dashboard-")
	b.open(s.Issuer + "/account/security/accounts")
	b.signIn(person, s.Password)
	see("accounts")
	b.click("section[aria-labelledby=more] li:first-child button")
	b.reaches(o.URL)
	o.signIn(b, "demo")
	b.reaches(s.Issuer + "/account/security/accounts?done=connected")
	see("accounts-connected")
	b.open(s.Issuer + "/account/security")
	see("security-accounts")
	b.open(s.Issuer + "/account/security/accounts")
	b.click("section ul.rows button")
	b.reaches(s.Issuer + "/account/security/accounts?done=disconnected")
}
