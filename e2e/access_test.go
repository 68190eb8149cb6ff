package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// TestRequestAccess: a person who is refused asks for access, an operator refuses, then grants it by command, and takes
// it back.
func TestRequestAccess(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	s := startEdited(t, "", func(caddyfile string) string {
		lines := fmt.Sprintf("\n\t\tmail smtp %s {\n\t\t\tfrom \"The gate <no-reply@example.com>\"\n\t\t\tusername %s\n\t\t\tpassword {env.TEST_SMTP_PASSWORD}\n\t\t}\n\t\tidentity {\n\t\t\taccess_mail desk@example.com", m.address, m.user)
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
		return strings.Replace(caddyfile, "		login\n	}\n", "		login\n		groups editors\n		request_access on\n	}\n", 1)
	}, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	told := func(to string, words ...string) {
		t.Helper()
		header, parts := m.next(t)
		if header.Get("To") != "<"+to+">" {
			t.Errorf("a mail to %s, want one to %s", header.Get("To"), to)
		}
		for _, w := range words {
			if !strings.Contains(strings.Join(strings.Fields(header.Get("Subject")+" "+parts["text/plain"]), " "), w) {
				t.Errorf("the mail to %s is %s\n%s\nwant %q in it", to, header.Get("Subject"), parts["text/plain"], w)
			}
		}
	}
	b := s.browse(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	target := s.Wiki + "/plans?a=1"
	b.open(target)
	if status := b.signIn(person, s.Password); status != http.StatusForbidden {
		t.Fatalf("a person without the group gets %d", status)
	}
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	see := look(b, "access-")
	see("refused")
	b.click("main a.button")
	see("ask")
	b.fill("[name=reason]", "I write the <minutes> & plans")
	b.click("main form button")
	if text := b.text("main"); !strings.Contains(text, "You’ve asked for access") {
		t.Fatalf("after asking at %s: %s", b.location(), text)
	}
	see("asked")
	told("desk@example.com", person+" asks for access to "+strings.TrimPrefix(s.Wiki, "http://"), "Reason: I write the <minutes> & plans")
	if out := s.must("", "access", "list", "--open"); !strings.Contains(out, person) ||
		!strings.Contains(out, "I write the <minutes> & plans") {
		t.Errorf("access list = %s", out)
	}
	s.must("", "access", "refuse", person, s.Wiki, "--note", "Ask your <b>team lead</b> first.")
	told(person, "an administrator turned down your request", "Note from the administrator: Ask your <b>team lead</b> first.")
	if b.open(target); !strings.Contains(b.text("main"), "Ask your <b>team lead</b> first.") {
		t.Errorf("after a refusal: %s", b.text("main"))
	}
	see("turned-down")
	s.must("", "access", "grant", person, s.Wiki, "--for", "1h", "--uses", "2")
	told(person, "You have access to", "an administrator gave you access")
	if status := b.open(target); status != http.StatusOK || b.seen().User != person {
		t.Errorf("after the grant the site answers %d: %s", status, b.text("main"))
	}
	s.must("", "access", "revoke", person, s.Wiki)
	if status := b.open(target); status != http.StatusForbidden {
		t.Errorf("after the revocation the site answers %d", status)
	}
	if out := s.must("", "events", "list", "--json"); !strings.Contains(out, "access.AccessGrantedEvent") ||
		!strings.Contains(out, "access.AccessRevokedEvent") {
		t.Errorf("events of grants are missing: %s", out)
	}
	for _, wrong := range [][]string{
		{"grant", person, s.Wiki},
		{"grant", person, "https://nowhere.example", "--for", "1h"},
		{"grant", "nobody@example.com", s.Wiki, "--for", "1h"},
		{"grant", person, s.Wiki, "--for", "soon"},
		{"refuse", person, s.Wiki},
	} {
		if out, err := s.gatehouse("", append([]string{"gatehouse", "--address", s.Admin, "access"}, wrong...)...); err == nil {
			t.Errorf("access %s = %s, want an error", strings.Join(wrong, " "), out)
		}
	}
}
