package signup_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func emailUsernames(c *identity.Config) { c.EmailUsernames = true }

// TestSignInAsksForAnAddress: where usernames are addresses, the sign-in page says so in every language, and phones
// show the keyboard for addresses. Elsewhere it asks for a username.
func TestSignInAsksForAnAddress(t *testing.T) {
	t.Parallel()
	plain := identitytest.New(t)
	if body := plain.Browser().Get("/next").Body.String(); !strings.Contains(body, ">Username</label>") ||
		strings.Contains(body, `type="email"`) || strings.Contains(body, "novalidate") {
		t.Errorf("a service with any usernames:\n%s", body)
	}
	h := identitytest.New(t, emailUsernames, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	h.Notices = new(notifytest.Notices)
	u := settings.Defaults()
	u.Features.PasswordResetEnabled = true
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Start()
	for lang, want := range map[string][2]string{
		"en": {"E-mail address", "Enter your e-mail address."}, "nl": {"E-mailadres", "Vul je e-mailadres in."},
		"de": {"E-Mail-Adresse", "Geben Sie Ihre E-Mail-Adresse ein."}, "fr": {"Adresse e-mail", "Saisissez votre adresse e-mail."},
	} {
		label, missing := want[0], want[1]
		t.Run(lang, func(t *testing.T) {
			b := h.Browser()
			b.Header = http.Header{"Accept-Language": {lang}}
			form := b.Get("/next")
			for _, want := range []string{
				`<label for="username">` + label + `</label>`, `type="email" id="username" name="username"`, `autocomplete="username"`,
				`inputmode="email"`, " novalidate>",
			} {
				if body := form.Body.String(); !strings.Contains(body, want) {
					t.Errorf("the sign-in page has no %s:\n%s", want, body)
				}
			}
			b.Header.Set("Sec-Fetch-Site", "same-origin")
			if body := b.Post(form, "username", "", "password", "x").Body.String(); !strings.Contains(body, missing) {
				t.Errorf("nothing typed:\n%s", body)
			}
		})
	}
	b := h.Browser()
	b.Get("/next")
	if body := b.Get("/forgot").Body.String(); !strings.Contains(body, `<label for="username">E-mail address</label>`) ||
		!strings.Contains(body, "Enter your e-mail address, and") {
		t.Errorf("the page for a forgotten password:\n%s", body)
	}
}

// TestUsernamesAreAddresses: no one gets a username that is no address, and who has one signs in as before.
func TestUsernamesAreAddresses(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	h.Add(person.NewPerson{Username: "oldname", Password: secret.New(identitytest.DemoPassword)})
	h.Config.EmailUsernames = true
	h.Start()
	h.Browser().SignIn("oldname", identitytest.DemoPassword)

	invalid := new(person.ValidationError)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "ada"}, identitytest.Ops); !errors.As(err, &invalid) ||
		invalid.Field != "username" {
		t.Errorf("AddPerson(ada) = %v, want a *ValidationError of username", err)
	}
	invited := invitation.NewInvitation{Username: "ada", Email: "ada@example.com"}
	if _, err := h.Invitation.Invite(t.Context(), invited, identitytest.Ops); !errors.As(err, &invalid) || invalid.Field != "username" {
		t.Errorf("Invite(ada) = %v, want a *ValidationError of username", err)
	}
	h.Add(person.NewPerson{Username: "ada@example.com", Password: secret.New(identitytest.DemoPassword)})
	rename := func(of, to string) error {
		_, err := h.Person.UpdatePerson(t.Context(), h.Details(of).ID, person.Edit{By: identitytest.Ops},
			func(_ storage.Tx, d *person.Details) error {
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
	x := identitytest.NewRegistering(t, emailUsernames)
	b := x.Browser()
	form := x.Arrive(b, identitytest.Ann())
	if body := form.Body.String(); strings.Contains(body, `name="username"`) || strings.Contains(body, "Choose a username") {
		t.Errorf("the page asks for a username:\n%s", body)
	}
	if a := b.Post(form, "password", identitytest.FreshPassword, "username", "admin"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d:\n%s", a.Code, a.Body)
	}
	x.At("identity", "partner")
	x.Browser().SignIn("ann@partner.example", identitytest.FreshPassword)
}
