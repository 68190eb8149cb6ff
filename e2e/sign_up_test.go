package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestSignUp: on the way to an application, a person makes an account, confirms the address with the code from a real
// mail, and arrives. With an address that has an account already the pages are the same, and the owner gets a mail. A
// person that an administrator has added activates the account through a link, another one at the first sign-in.
func TestSignUp(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	p, s := openShopEdited(t, func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	configure := func(units string) {
		t.Helper()
		if status, answer := s.configure(http.MethodPost, "/api/v2/config", units); status != http.StatusNoContent {
			t.Fatalf("configure: %d %s", status, answer)
		}
	}
	configure(`{"features":{"sign_up_enabled":true},"email_notifications":{"welcome":{"on_web_enabled":true}},` +
		`"attributes":{"verification":{"email_enabled":true},"sign_up_form_fields":{"mobile_number_enabled":true},"person_creation_mandatory_fields":{"first_name_required":true,"last_name_required":true}}}`)
	password := random(12)
	s.secret("password of the new person", password)

	b := s.browse(t)
	see := look(b, "sign-up-")
	b.open(p.address + "/")
	see("sign-in")
	b.click(`main a[href^="/sign-up"]`)
	see("form")
	fill := func(b *tab, email string) {
		b.fill("#email", email)
		b.fill("#given_name", "Nel")
		b.fill("#family_name", "New")
		b.fill("#password", password)
	}
	fill(b, "nel@example.com")
	b.fill("#phone", "0612345678")
	b.click("main form button:not([type])")
	see("form-wrong")
	b.fill("#phone", "+31 6 1234 5678")
	b.fill("#password", password)
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/sign-up/confirm")
	see("code")
	header, parts := m.next(t)
	code := sixDigits.FindStringSubmatch(parts["text/plain"])
	if header.Get("To") != "<nel@example.com>" || code == nil {
		t.Fatalf("mail = %v %q", header, parts["text/plain"])
	}
	lookAtMail(t, s, "mail-sign-up-code", parts["text/html"])
	b.fill("#code", "000000")
	b.click("main form button:not([type])")
	see("code-wrong")
	b.fill("#code", code[1])
	b.click("main form button:not([type])")
	b.click("button[value=allow]")
	b.reaches(p.address)
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("the application says %q", got)
	}
	if header, _ := m.next(t); header.Get("Subject") != "Welcome to Gatehouse" {
		t.Errorf("mail = %v", header)
	}

	again := s.browse(t)
	again.open(s.Issuer + "/sign-up")
	fill(again, "Nel@example.com")
	again.click("main form button:not([type])")
	again.reaches(s.Issuer + "/sign-up/confirm")
	if header, parts := m.next(t); header.Get("Subject") != "You already have an account at Gatehouse" ||
		!strings.Contains(parts["text/plain"], "nel@example.com") {
		t.Errorf("mail = %v %q", header, parts["text/plain"])
	}

	activationJourney(t, s, m, configure)
}

// activationJourney is about persons that an administrator adds.
func activationJourney(t *testing.T, s *server, m *mailServer, configure func(string)) {
	t.Helper()
	configure(`{"features":{"person_activation":{"enabled":true,"type":"EMAIL"}},"attributes":{"person_creation_mandatory_fields":{"first_name_required":false,"last_name_required":false}}}`)
	password := random(12)
	s.secret("password of ann", password)
	s.must(password+"\n", "person", "add", "ann@example.com")
	_, parts := m.next(t)
	linkIn(t, s, parts, "/activate")
	lookAtMail(t, s, "mail-activation", parts["text/html"])

	b := s.browse(t)
	see := look(b, "activate-")
	b.open(s.Issuer + "/account")
	b.signIn("ann@example.com", password)
	see("wait")
	b.click("main form button:not([type])")
	see("wait-sent")
	_, parts = m.next(t)
	b.open(linkIn(t, s, parts, "/activate"))
	see("link")
	b.click("main form button:not([type])")
	see("done")
	b.click("main .buttons a")
	b.signIn("ann@example.com", password)
	b.reaches(s.Issuer + "/account")

	configure(`{"features":{"person_activation":{"activation_during_first_authentication_enabled":true}}}`)
	s.must(password+"\n", "person", "add", "bob@example.com")
	m.next(t)
	c := s.browse(t)
	see = look(c, "activate-")
	c.open(s.Issuer + "/account")
	c.signIn("bob@example.com", password)
	see("send")
	c.click("main form button:not([type])")
	see("code")
	_, parts = m.next(t)
	code := sixDigits.FindStringSubmatch(parts["text/plain"])
	if code == nil {
		t.Fatalf("mail = %q", parts["text/plain"])
	}
	c.fill("#code", code[1])
	c.click("main form button:not([type])")
	c.reaches(s.Issuer + "/account")
}
