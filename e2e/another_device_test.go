package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestAnotherDevice: a person who is signed in makes a link and opens it on another device. There a confirmation signs
// the person in, once.
func TestAnotherDevice(t *testing.T) {
	t.Parallel()
	_, s := openShopEdited(t, func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "identity {", "identity {\n\t\t\tlocales en nl de fr", 1)
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"action_token":{"login":{"enabled":true,"ttl":600,"ui_generation_enabled":true}}}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	b := s.browse(t)
	see := look(b, "another-device-")
	b.open(s.Issuer + "/account/devices")
	b.signIn(person, s.Password)
	see("devices")
	b.click(`section[aria-labelledby=another] a`)
	b.reaches(s.Issuer + "/account/devices/sign-in")
	see("make")
	link := makeLink(t, s, b)
	see("link")

	// A preview of the link, as a chat application makes one, does not use it up.
	if a := s.fetch("", link); a.status != http.StatusOK {
		t.Errorf("a preview of the link = %d", a.status)
	}
	phone := s.browse(t)
	phone.open(link)
	if at := phone.location(); at != s.Issuer+"/sign-in/token" {
		t.Errorf("the link leads to %s, want a page whose address does not have the token", at)
	}
	look(phone, "another-device-")("asked")
	phone.click("main form button:not([type])")
	phone.reaches(s.Issuer + "/account")
	if got := phone.text("main"); !strings.Contains(got, person) {
		t.Errorf("the other device shows %q, want the account", got)
	}
	late := s.browse(t)
	if status := late.open(link); status != http.StatusBadRequest {
		t.Errorf("the link the second time = %d, want 400", status)
	}
	b.open(s.Issuer + "/account/devices")
	if !b.has(`ul.rows li:nth-child(2) form`) {
		t.Error("the other device is not among the devices")
	}

	// A person who is signed in to another account is asked before anything changes.
	password := random(12)
	s.secret("password of ann", password)
	s.must(password+"\n", "person", "add", "ann@example.com", "--name", "Ann")
	ann := s.browse(t)
	ann.open(s.Issuer + "/account")
	ann.signIn("ann@example.com", password)
	b.open(s.Issuer + "/account/devices/sign-in")
	ann.open(makeLink(t, s, b))
	look(ann, "another-device-")("other-person")
	ann.click("main form a.button")
	ann.reaches(s.Issuer + "/account")
	if got := ann.text("main"); !strings.Contains(got, "ann@example.com") {
		t.Errorf("after Cancel the browser shows %q, want the account of before", got)
	}

	for _, language := range []string{"nl", "de", "fr"} {
		b.open(s.Issuer + "/language?to=" + language + "&back=/account/devices/sign-in")
		see := look(b, language+"-another-device-")
		see("make")
		other := s.browse(t)
		other.open(s.Issuer + "/language?to=" + language + "&back=/sign-in")
		address := makeLink(t, s, b)
		see("link")
		other.open(address)
		look(other, language+"-another-device-")("asked")
	}
}

// makeLink presses the button, and returns the link that the page shows.
func makeLink(t *testing.T, s *server, b *tab) string {
	t.Helper()
	b.click("main form button:not([type])")
	link := b.text("p.secret code")
	u, err := url.Parse(link)
	if err != nil || !strings.HasPrefix(link, s.Issuer+"/sign-in/token?token=") {
		t.Fatalf("the page shows the link %q", link)
	}
	s.secret("token of the link", u.Query().Get("token"))
	return link
}
