package e2e

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestPIN: an application demands a level. A person reaches it with a code from an e-mail, chooses a PIN for the next
// time, forgets it, and chooses another one through a link, on the way to the application.
func TestPIN(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	p, s := openShopEdited(t, func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"pin_enabled":true},"email_notifications":{"step_up_authentication":true,"pin_reset":true},"step_up":{"second_factor":"ON_DEMAND"}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	demand := p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:2"}}.Encode()
	const pin, another, submit = "274905", "830164", "main form button:not([name])"

	b := s.browse(t)
	see := look(b, "pin-")
	b.open(demand)
	b.signIn(person, s.Password)
	see("email-send")
	b.click("button[name=send]")
	see("email")
	header, parts := m.next(t)
	code := regexp.MustCompile(`\b[0-9]{6}\b`).FindString(parts["text/plain"])
	if header.Get("To") != "<"+person+">" || code == "" {
		t.Fatalf("mail = %v %q, want a code", header, parts["text/plain"])
	}
	s.secret("code of an e-mail", code)
	lookAtMail(t, s, "mail-step-up", parts["text/html"])
	b.fill("#code", strings.Repeat("0", 6))
	b.click(submit)
	see("email-wrong")
	b.fill("#code", code)
	b.click(submit)
	b.click("button[value=allow]")
	b.reaches(p.address)
	b.open(s.Issuer + "/account/security/pin")
	see("choose")
	b.fill("#pin", "123456")
	b.fill("#again", "123456")
	b.click(submit)
	see("choose-easy")
	s.secret("PIN", "pin="+pin)
	b.fill("#pin", pin)
	b.fill("#again", pin)
	b.click(submit)
	b.reaches(s.Issuer + "/account/security")

	other := s.browse(t)
	see = look(other, "pin-")
	other.open(demand)
	other.signIn(person, s.Password)
	see("ask")
	for i := range 5 {
		if i == 1 {
			see("wrong")
		}
		other.fill("#code", another)
		other.click(submit)
	}
	see("locked")
	other.click("main a[href*='/pin/forgot']")
	see("forgot")
	other.click(submit)
	see("forgot-sent")
	header, parts = m.next(t)
	if header.Get("Subject") != "Reset your PIN for Gatehouse" {
		t.Errorf("mail = %v", header)
	}
	lookAtMail(t, s, "mail-pin", parts["text/html"])
	link := linkIn(t, s, parts, "/account/security/pin-reset")
	other.open(link)
	see("again")
	s.secret("another PIN", "pin="+another)
	other.fill("#pin", another)
	other.fill("#again", another)
	other.click(submit)
	other.reaches(p.address) // the link and the password prove as much as a PIN does
	other.open(link)
	see("link-used")
}
