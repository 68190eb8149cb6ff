package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// TestRequestAccess: a person who is refused asks for access, an operator refuses, then grants it by command, and takes
// it back.
func TestRequestAccess(t *testing.T) {
	t.Parallel()
	s := startEdited(t, "", func(caddyfile string) string {
		return strings.Replace(caddyfile, "		login\n	}\n", "		login\n		groups editors\n		request_access on\n	}\n", 1)
	})
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
	if out := s.must("", "access", "list", "--open"); !strings.Contains(out, person) || !strings.Contains(out, "I write the <minutes> & plans") {
		t.Errorf("access list = %s", out)
	}
	s.must("", "access", "refuse", person, s.Wiki, "--note", "Ask your <b>team lead</b> first.")
	if b.open(target); !strings.Contains(b.text("main"), "Ask your <b>team lead</b> first.") {
		t.Errorf("after a refusal: %s", b.text("main"))
	}
	see("turned-down")
	s.must("", "access", "grant", person, s.Wiki, "--for", "1h", "--uses", "2")
	if status := b.open(target); status != http.StatusOK || b.seen().User != person {
		t.Errorf("after the grant the site answers %d: %s", status, b.text("main"))
	}
	s.must("", "access", "revoke", person, s.Wiki)
	if status := b.open(target); status != http.StatusForbidden {
		t.Errorf("after the revocation the site answers %d", status)
	}
	if out := s.must("", "events", "list", "--json"); !strings.Contains(out, "access.AccessGrantedEvent") || !strings.Contains(out, "access.AccessRevokedEvent") {
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
