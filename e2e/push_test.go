package e2e

import (
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestPushStepUp: a person sets up a phone, and uses it to approve the request of another browser; the next request is
// declined.
func TestPushStepUp(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	pushes := newHook(t)
	key := random(32)
	p, s := openShopEdited(t, func(caddyfile string) string {
		lines := "\n\t\tpush webhook " + pushes.URL + "/send {\n\t\t\tsecret " + key + "\n\t\t}\n\t\tidentity {"
		return strings.Replace(caddyfile, "\n\t\tidentity {", lines, 1)
	})
	s.secret("key of the hook", key)
	s.imports(t, `{"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`)
	demand := p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:3"}}.Encode()
	// still stops a page that reloads itself, so it can be examined.
	still := func(b *tab) { eval[bool](b, "window.stop(), true") }

	desk := s.browse(t)
	desk.open(s.Issuer + "/account/security/push")
	desk.signIn(person, s.Password)
	still(desk)
	inspect(desk, "push-add", string(axe))
	link := desk.text("p.secret code")
	phone := s.browse(t)
	phone.open(link)
	phone.reaches(s.Issuer + "/push/enrol")
	inspect(phone, "push-enrol", string(axe))
	phone.click("main form button")
	inspect(phone, "push-enrolled", string(axe))
	number := phone.text("p.number b")
	desk.open(s.Issuer + "/account/security/push")
	inspect(desk, "push-found", string(axe))
	desk.fill("#number", number)
	desk.click("main form button")
	desk.reaches(s.Issuer + "/account/security")
	inspect(desk, "security-push", string(axe))

	b := s.browse(t)
	b.open(demand)
	b.signIn(person, s.Password)
	inspect(b, "push-send", string(axe))
	if shown := b.text("main"); !strings.Contains(shown, "The shop") || !strings.Contains(shown, person) || !b.has(".who a") {
		t.Errorf("the page does not say for which application and account it asks: %s", shown)
	}
	b.click("main form button")
	number = b.text("p.number b")
	got := pushes.next(t)
	if got.body["device"] == "" || got.body["person"] == "" || !strings.HasPrefix(got.body["approve_url"], s.Issuer+"/push/approve?id=") ||
		got.body["title"] == "" || got.header.Get("webhook-signature") == "" {
		t.Errorf("posted: %+v", got)
	}
	phone.open(got.body["approve_url"])
	inspect(phone, "push-approve", string(axe))
	phone.fill("#number", number)
	phone.click("main form button:not([name])")
	inspect(phone, "push-approved", string(axe))
	// the page continues automatically
	b.until("location.href.startsWith(" + quote(s.Issuer+"/oauth") + ") || location.href.startsWith(" + quote(p.address) + ")")

	other := s.browse(t)
	other.open(demand)
	other.signIn(person, s.Password)
	other.click("main form button")
	still(other)
	inspect(other, "push-wait", string(axe))
	phone.open(pushes.next(t).body["approve_url"])
	phone.click("main form button[name=deny]")
	inspect(phone, "push-denied", string(axe))
	if !phone.has(`main a[href="/account/security/password"]`) {
		t.Error("the page after a denial does not lead to a new password")
	}
	other.open(other.location())
	inspect(other, "push-refused", string(axe))
}
