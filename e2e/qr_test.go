package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// TestQRSignIn: a browser shows a code; the phone scans it, confirms by a PIN, types the number, and the browser goes
// on to the application by itself. The next code is denied.
func TestQRSignIn(t *testing.T) {
	t.Parallel()
	p, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "identity {",
			"identity {\n\t\t\tlocales en nl de fr\n\t\t\tphone_sign_in on\n\t\t\tpin on\n\t\t\tset_up_on_demand on", 1)
	})
	s.imports(t, `{"login_methods":{"mobile_login":{"allowed_login_attempts":3,"step_up_type":"PIN","step_up_message":"Your PIN, please.","login_message":"Never approve for somebody who calls you."}}}`)
	// still stops a page that reloads itself, so it can be examined.
	still := func(b *tab) { eval[bool](b, "window.stop(), true") }
	scan := func(b *tab) (link, number string) {
		t.Helper()
		b.click(`main a[href*="/sign-in/phone"]`)
		link, number = b.text("p.secret code"), b.text("p.number b")
		m := regexp.MustCompile(`^` + regexp.QuoteMeta(s.Issuer) + `/phone\?token=(ghqc_\S+)$`).FindStringSubmatch(link)
		if m == nil || len(number) != 2 {
			t.Fatalf("the page shows %q and %q", link, number)
		}
		s.secret("token of the code", m[1])
		return link, number
	}

	pin := "827164"
	phone := s.browse(t)
	see := look(phone, "qr-phone-")
	phone.open(s.Issuer + "/account/security/pin")
	phone.signIn(person, s.Password)
	phone.fill("#pin", pin)
	phone.fill("#again", pin)
	phone.click("main form button:not([type])")
	phone.reaches(s.Issuer + "/account/security")

	b := s.browse(t)
	b.open(p.address + "/")
	look(b, "qr-")("sign-in")
	link, number := scan(b)
	phone.open(link)
	if at := phone.location(); strings.Contains(at, "token") {
		t.Errorf("the address on the phone has the token: %s", at)
	}
	shown := phone.text("main")
	for _, want := range []string{"The shop", "127.0.0.1", "Chrome", "Your PIN, please."} {
		if !strings.Contains(shown, want) {
			t.Errorf("the phone does not say %q: %s", want, shown)
		}
	}
	see("confirm")
	phone.click("main form button:not([name])")
	phone.fill("#code", pin)
	phone.click("main form button:not([type]):not([name])")
	phone.reaches(s.Issuer + "/phone?id=")
	see("approve")
	wrong := "10"
	if number == wrong {
		wrong = "11"
	}
	phone.fill("#number", wrong)
	phone.click("main form button:not([name])")
	see("wrong")
	phone.fill("#number", number)
	phone.click("main form button:not([name])")
	see("approved")
	// The page continues by itself, to the question of the application.
	b.until("location.href.startsWith(" + quote(s.Issuer+"/oauth") + ") || location.href.startsWith(" + quote(p.address) + ")")

	for _, language := range []string{"en", "nl", "de", "fr"} {
		other := s.browse(t)
		other.open(s.Issuer + "/language?to=" + language + "&back=/sign-in")
		link, _ := scan(other)
		still(other)
		look(other, language+"-qr-")("code")
		if language != "en" {
			continue
		}
		phone.open(link)
		phone.click("main form button[name=deny]")
		see("denied")
		other.open(other.location())
		look(other, "qr-")("refused")
		if other.has("p.number") {
			t.Error("the browser still shows a code")
		}
	}
}
