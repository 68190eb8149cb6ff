package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// linkIn returns the one link with this path in the text of a mail.
func linkIn(t *testing.T, s *server, parts map[string]string, path string) string {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(s.Issuer+path) + `\?token=(ghml_[A-Za-z0-9_-]+)\s`).FindStringSubmatch(parts["text/plain"])
	if found == nil {
		t.Fatalf("no link to %s in %q", path, parts["text/plain"])
	}
	s.secret("token of a link", found[1])
	return strings.TrimSpace(found[0])
}

// TestReset: mail in the Caddyfile is all that it takes. On the way to an application, a person who has forgotten the
// password requests a link, receives it from a real mail server, chooses another password, and continues to the
// application.
func TestReset(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	p, s := openShopEdited(t, func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	fresh := random(12)
	s.secret("new password", fresh)
	elsewhere := s.browse(t)
	elsewhere.open(s.Issuer + "/account")
	elsewhere.signIn(person, s.Password)
	elsewhere.reaches(s.Issuer + "/account")

	b := s.browse(t)
	see := look(b, "reset-")
	b.open(p.address + "/")
	b.signIn(person, "not the password")
	see("sign-in")
	b.click(`main a[href^="/forgot"]`)
	// a page gets the focus when it is first drawn, after it has loaded
	b.until(`document.activeElement.id === "username"`)
	see("forgot")
	b.fill("#username", person)
	b.click("main form button:not([type])")
	see("sent")
	header, parts := m.next(t)
	if header.Get("To") != "<"+person+">" || header.Get("Subject") != "Reset your password for Gatehouse" {
		t.Errorf("mail = %v", header)
	}
	lookAtMail(t, s, "mail-reset", parts["text/html"])
	link := linkIn(t, s, parts, "/reset")

	// A mail scanner opens the link before the person does.
	resp, err := s.client().Get(link)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	b.open(link)
	if at := b.location(); at != s.Issuer+"/reset" {
		t.Errorf("the link leads to %s", at)
	}
	see("new-password")
	b.fill("#password", "short")
	b.click("main form button:not([type])")
	see("new-password-wrong")
	b.fill("#password", fresh)
	b.click("main form button:not([type])")
	see("done")
	if header, _ := m.next(t); header.Get("Subject") != "Your password at Gatehouse has changed" {
		t.Errorf("mail = %v", header)
	}
	b.click("main .buttons a")
	b.fill("#password", fresh)
	b.click("main form button:not([type])")
	b.click("button[value=allow]")
	b.reaches(p.address)
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("the application says %q", got)
	}

	elsewhere.open(s.Issuer + "/account")
	if !strings.HasPrefix(elsewhere.location(), s.Issuer+"/sign-in") {
		t.Errorf("another browser is still signed in, at %s", elsewhere.location())
	}
	b.open(link)
	see("used")
	b.click("main .buttons a")
	b.reaches(s.Issuer + "/forgot")
}
