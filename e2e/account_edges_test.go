package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestSeveralAddresses: a person adds postal addresses, changes one, and makes it the primary one.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	_, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "identity {", "identity {\n\t\t\tlocales en nl de fr", 1)
	})
	b := s.browse(t)
	see := look(b, "addresses-")
	b.open(s.Issuer + "/account/profile?edit=address")
	b.signIn(person, s.Password)
	b.fill("#street", "Main Street")
	b.fill("#house_number", "12")
	b.fill("#city", "Utrecht")
	b.click(`section[aria-labelledby=post] form button`)
	see("one")
	b.click(`section[aria-labelledby=posts] > a.button`)
	see("new")
	b.click("main form button:not([type])")
	see("empty")
	b.fill("#street", "Long Office Street of the Company")
	b.fill("#house_number", "345")
	b.fill("#postal_code", "1234 AB")
	b.fill("#city", "Amsterdam")
	b.pick("#country", "NL")
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/account/profile?done=saved")
	see("two")
	b.click(`section[aria-labelledby=posts] li a`)
	b.fill("#house_number", "7")
	see("change")
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/account/profile?done=saved")
	b.click(`section[aria-labelledby=posts] li form:first-of-type button`)
	b.reaches(s.Issuer + "/account/profile?done=primary")
	if got := b.text(`section[aria-labelledby=post] li`); !strings.Contains(got, "Long Office Street of the Company") {
		t.Errorf("the primary address is %q", got)
	}
	if got := b.text(`section[aria-labelledby=posts] li`); !strings.Contains(got, "Main Street 12, Utrecht") {
		t.Errorf("the other address is %q", got)
	}
	for _, language := range []string{"nl", "de", "fr"} {
		b.open(s.Issuer + "/language?to=" + language + "&back=/account/profile")
		look(b, language+"-addresses-")("two")
	}
	b.click(`section[aria-labelledby=posts] li form:last-of-type button`)
	b.reaches(s.Issuer + "/account/profile?done=removed")
}

// TestTypedContact: an address that was typed before a step-up is still in the field after it.
func TestTypedContact(t *testing.T) {
	t.Parallel()
	_, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"pin_enabled":true},"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true,"change_email_authentication_level":2},"second_factor":"ON_DEMAND"}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	pin := "8" + "27164"
	first := s.browse(t)
	first.open(s.Issuer + "/account/security/pin")
	first.signIn(person, s.Password)
	first.fill("#pin", pin)
	first.fill("#again", pin)
	first.click("main form button:not([type])")

	b := s.browse(t)
	b.open(s.Issuer + "/account/profile?edit=email")
	b.signIn(person, s.Password)
	b.fill("#email", "typed@example.org")
	b.click(`section[aria-labelledby=emails] > form button`)
	b.reaches(s.Issuer + "/step-up")
	b.fill("#code", pin)
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/account/profile")
	if got := eval[string](b, `document.querySelector("#email").value`); got != "typed@example.org" {
		t.Errorf("after the step-up the field holds %q", got)
	}
	b.until(`document.activeElement?.id === "email"`)
	b.click(`section[aria-labelledby=emails] > form button`)
	b.reaches(s.Issuer + "/account/profile?done=added")
	if got := b.text(`section[aria-labelledby=emails] ul`); !strings.Contains(got, "typed@example.org") {
		t.Errorf("the addresses are %q", got)
	}
}
