package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestRegistration: a person arrives from a provider of the API for the first time, chooses a username and a password
// and fills in the operator's fields. Another person must confirm the address before that. Later they are asked for
// newly required fields.
func TestRegistration(t *testing.T) {
	t.Parallel()
	m := newMailServer(t)
	o := reserveOIDCProvider(t)
	p, s := openShopEdited(t, func(c string) string {
		return strings.Replace(mailed(m, c), "\n\t\tidentity {", "\n\t\toutbound {\n\t\t\tallow 127.0.0.0/8 ::1/128\n\t\t}\n\t\tidentity {", 1)
	}, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	o.serve(s)
	configure := func(units string) {
		t.Helper()
		if status, answer := s.configure(http.MethodPost, "/api/v2/config", units); status != http.StatusNoContent {
			t.Fatalf("configure: %d %s", status, answer)
		}
	}
	fields := `"custom_attribute_fields":[{"id":"team","name":"Which team do you play for?","type":"TEXT"},{"id":"shoe_size","name":"Shoe size","type":"NUMBER"},{"id":"news","name":"Send me the newsletter","type":"CHECKBOX"}]`
	configure(`{"attributes":{"verification":{"email_enabled":true},"person_creation_mandatory_fields":{"first_name_required":true,"last_name_required":true}},"features":{"sign_up_enabled":true},` +
		`"login_methods":{"login_methods":[{"id":"identity","name":"Password","type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":1,` + fields + `},` +
		`{"id":"basic","name":"The corporation","type":"OPEN_ID_CONNECT","enabled":true,"force_creating_username_and_password_during_sign_up":true,` + fields + `,` +
		`"open_id_connect_attributes":{"client_id":"basic","client_secret":"` + o.secret + `","issuer":"` + o.URL + `","discovery_url":"` +
		o.URL + `/.well-known/openid-configuration","scopes":["openid","profile","email"]}}]}}`)
	password := random(12)
	s.secret("password of alice", password)

	b := s.browse(t)
	see := look(b, "registration-")
	arrive := func(b *tab, who string) {
		t.Helper()
		b.open(p.address + "/")
		b.choose("basic")
		o.signIn(b, who)
		b.reaches(s.Issuer + "/sign-in/register?")
	}
	fill := func(b *tab, username string) {
		t.Helper()
		b.fill("#username", username)
		b.fill("#given_name", "Alice")
		b.fill("#family_name", "Example")
		b.fill(`[name="custom.team"]`, "Reds")
		b.fill(`[name="custom.shoe_size"]`, "43,5")
		b.fill("#password", password)
	}
	arrive(b, "alice")
	see("form")
	fill(b, person)
	b.click("main form button:not([type])")
	b.until(`document.querySelector("main .error")`)
	see("form-taken")
	fill(b, "alice")
	b.do(chromedp.Click(chromedp.CSS(`[name="custom.news"]`)))
	b.click("main form button:not([type])")
	b.until(`document.querySelector("button[value=allow]")`)
	b.click("button[value=allow]")
	b.reaches(p.address)
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("the application says %q", got)
	}
	b.open(s.Issuer + "/account/profile")
	see("profile")
	if got := eval[string](b, `document.querySelector("[name='custom.shoe_size']").value`); got != "43.5" {
		t.Errorf("the shoe size is %q", got)
	}

	c := s.browse(t)
	see = look(c, "registration-")
	arrive(c, "mallory")
	fill(c, "mallory")
	c.click("main form button:not([type])")
	c.reaches(s.Issuer + "/sign-in/register/confirm?")
	see("code")
	header, parts := m.next(t)
	code := sixDigits.FindStringSubmatch(parts["text/plain"])
	if header.Get("To") != "<mallory@example.org>" || code == nil {
		t.Fatalf("mail = %v %q", header, parts["text/plain"])
	}
	c.fill("#code", code[1])
	c.click("main form button:not([type])")
	c.until(`document.querySelector("button[value=allow]")`)

	d := s.browse(t)
	see = look(d, "registration-")
	d.open(s.Issuer + "/sign-up")
	see("sign-up")
	extraJourney(t, s, p, password, configure)
}

// extraJourney asks alice for her birthday after she has signed in again.
func extraJourney(t *testing.T, s *server, p *shop, password string, configure func(string)) {
	t.Helper()
	configure(`{"features":{"post_login_extra_registration_after_second_login":true},"profile":{"required_attributes_validation_rules":[{"any_of":["BIRTH_DATE","PHONE"]}]}}`)
	b := s.browse(t)
	see := look(b, "complete-")
	b.open(p.address + "/")
	b.signIn("alice", password)
	b.reaches(s.Issuer + "/sign-in/complete?")
	see("form")
	b.click("main form button:not([type])")
	b.until(`document.querySelector("main .error")`)
	see("form-wrong")
	b.click(`main .links a`)
	b.reaches(p.address)
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("not now: the application says %q", got)
	}
	b.forget()
	b.open(p.address + "/")
	b.signIn("alice", password)
	b.reaches(s.Issuer + "/sign-in/complete?")
	b.fill("#phone", "+31 6 1234 5678")
	b.click("main form button:not([type])")
	b.reaches(p.address)
	b.forget()
	b.open(s.Issuer + "/account")
	b.signIn("alice", password)
	b.reaches(s.Issuer + "/account")
}
