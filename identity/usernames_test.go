package identity_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func emailUsernames(c *identity.Config) { c.EmailUsernames = true }

// TestSignInAsksForAnAddress: where usernames are addresses, the sign-in page says so in every language, and phones
// show the keyboard for addresses. Elsewhere it asks for a username.
func TestSignInAsksForAnAddress(t *testing.T) {
	t.Parallel()
	plain := newHarness(t)
	if body := plain.browser().get("/next").Body.String(); !strings.Contains(body, ">Username</label>") || strings.Contains(body, `type="email"`) || strings.Contains(body, "novalidate") {
		t.Errorf("a service with any usernames:\n%s", body)
	}
	h := newHarness(t, emailUsernames, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	h.notices = new(notifytest.Notices)
	u := config.Defaults()
	u.Features.PasswordResetEnabled = true
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.start()
	for lang, want := range map[string][2]string{
		"en": {"E-mail address", "Enter your e-mail address."}, "nl": {"E-mailadres", "Vul je e-mailadres in."},
		"de": {"E-Mail-Adresse", "Geben Sie Ihre E-Mail-Adresse ein."}, "fr": {"Adresse e-mail", "Saisissez votre adresse e-mail."},
	} {
		label, missing := want[0], want[1]
		t.Run(lang, func(t *testing.T) {
			b := h.browser()
			b.header = http.Header{"Accept-Language": {lang}}
			form := b.get("/next")
			for _, want := range []string{
				`<label for="username">` + label + `</label>`, `type="email" id="username" name="username"`, `autocomplete="username"`, `inputmode="email"`, " novalidate>",
			} {
				if body := form.Body.String(); !strings.Contains(body, want) {
					t.Errorf("the sign-in page has no %s:\n%s", want, body)
				}
			}
			b.header.Set("Sec-Fetch-Site", "same-origin")
			if body := b.post(form, "username", "", "password", "x").Body.String(); !strings.Contains(body, missing) {
				t.Errorf("nothing typed:\n%s", body)
			}
		})
	}
	b := h.browser()
	b.get("/next")
	if body := b.get("/forgot").Body.String(); !strings.Contains(body, `<label for="username">E-mail address</label>`) || !strings.Contains(body, "Enter your e-mail address, and") {
		t.Errorf("the page for a forgotten password:\n%s", body)
	}
}

// TestUsernamesAreAddresses: nobody gets a username that is no address, and who has one signs in as before.
func TestUsernamesAreAddresses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(person.NewPerson{Username: "oldname", Password: secret.New(demoPassword)})
	h.cfg.EmailUsernames = true
	h.start()
	h.browser().signIn("oldname", demoPassword)

	invalid := new(person.ValidationError)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "ada"}, ops); !errors.As(err, &invalid) || invalid.Field != "username" {
		t.Errorf("AddPerson(ada) = %v, want a *ValidationError of username", err)
	}
	h.add(person.NewPerson{Username: "ada@example.com", Password: secret.New(demoPassword)})
	rename := func(of, to string) error {
		_, err := h.Person.UpdatePerson(t.Context(), h.details(of).ID, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
			d.Username, d.Profile.Name.FirstName = to, "Ada"
			return nil
		})
		return err
	}
	if err := rename("ada@example.com", "ada"); !errors.As(err, &invalid) {
		t.Errorf("renamed to ada: %v, want a *ValidationError", err)
	}
	if err := rename("oldname", "oldname"); err != nil {
		t.Errorf("another change of a person with an older username: %v", err)
	}
	if err := rename("ada@example.com", "ada.lovelace@example.com"); err != nil {
		t.Errorf("renamed to another address: %v", err)
	}
}

// TestRegistrationByAddress: who comes from a provider chooses a password alone, and signs in with the address.
func TestRegistrationByAddress(t *testing.T) {
	t.Parallel()
	x := newRegistering(t, emailUsernames)
	b := x.browser()
	form := x.arrive(b, ann())
	if body := form.Body.String(); strings.Contains(body, `name="username"`) || strings.Contains(body, "Choose a username") {
		t.Errorf("the page asks for a username:\n%s", body)
	}
	if a := b.post(form, "password", freshPassword, "username", "admin"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d:\n%s", a.Code, a.Body)
	}
	x.at("identity", "partner")
	x.browser().signIn("ann@partner.example", freshPassword)
}
