package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestChoosing looks at the pages on the way to an identity provider. It uses only what works without scripts.
func TestChoosing(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	dead := freePorts(t, 1)[0]
	p, s := openShopEdited(t, func(caddyfile string) string {
		providers := fmt.Sprintf(`
		idp partner oidc {
			issuer http://localhost:%d
			client_id gatehouse
			name Partner account
			timeout 1s
		}
		idp corp oidc {
			issuer http://localhost:%d
			client_id gatehouse
			name Corp
			domains corp.example
			timeout 1s
		}
		client shop {
			idps identity partner corp`, dead, dead)
		return strings.Replace(caddyfile, "client shop {", strings.TrimSpace(providers), 1)
	})
	b := s.browse(t)
	look := func(name string) {
		t.Helper()
		inspect(b, name, string(axe))
	}
	b.open(p.address + "/")
	look("providers")
	if text := b.text("main"); !strings.Contains(text, "Continue with Partner account") || !strings.Contains(text, "Continue with Corp") {
		t.Errorf("the sign-in page says %q", text)
	}
	b.click(`a[href*="idp=partner"]`)
	look("provider-down")
	if text := b.text("main"); !strings.Contains(text, "Partner account isn’t responding") {
		t.Errorf("a provider that is down: %q", text)
	}
	b.click(`a[href*="choose=1"]`)
	b.fill("#username", "ann@corp.example")
	b.click("main form button:not([type])")
	b.until(`document.body.textContent.includes("Corp isn’t responding")`)
	if text := b.text("main"); !strings.Contains(text, "Corp isn’t responding") {
		t.Errorf("the domain of a provider that is down led to %q", text)
	}
	b.click(`a[href*="choose=1"]`)
	look("providers-password")
	b.signIn(person, s.Password)
	if !strings.Contains(b.text("main"), "Allow") && !strings.HasPrefix(b.location(), p.address) {
		t.Errorf("after the password at %s: %q", b.location(), b.text("main"))
	}
}
