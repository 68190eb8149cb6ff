package identity_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// weak are passwords that others try first, for a person called maria@example.com at a site called Acme Portal.
var weak = map[string]string{
	"12345678": person.CommonProblem, "PassWord1": person.CommonProblem, "qwertyuiop": person.CommonProblem,
	"maria@example.com": person.RepeatsProblem, "Maria1999!": person.RepeatsProblem, "acme-portal": person.RepeatsProblem,
	"portal2026": person.RepeatsProblem, "Lopez1234": person.RepeatsProblem, "maria lopez": person.RepeatsProblem,
	"31612345678": person.RepeatsProblem, "P@ssw0rd1": person.CommonProblem, "Welcome01!": person.CommonProblem,
}

// named returns a person of another username with the names of n.
func named(n person.NewPerson, password secret.String) person.NewPerson {
	n.Username, n.Email, n.Password = "maria", "maria@example.com", password
	return n
}

func branded(c *identity.Config) { c.Brand = "Acme Portal" }

// TestCommonPasswords: wherever a password is set, one that others try first is refused, and the refusal says why.
func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, branded)
	known := person.NewPerson{
		Username: "maria@example.com", GivenName: "Maria", FamilyName: "López",
		Profile: &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31612345678", Primary: true}}},
	}
	who := h.Add(known)
	by := audit.Actor{ID: "ops"}
	for password, want := range weak {
		for door, set := range map[string]func(secret.String) error{
			"a new person": func(p secret.String) error {
				_, err := h.Person.AddPerson(t.Context(), named(known, p), by)
				return err
			},
			"the command": func(p secret.String) error { return h.Person.SetPassword(t.Context(), "maria@example.com", p, by) },
			"an update, as SCIM makes it": func(p secret.String) error {
				_, err := h.Person.UpdatePerson(t.Context(), who.ID, person.Edit{By: by, Password: p},
					func(storage.Tx, *person.Details) error { return nil })
				return err
			},
		} {
			invalid := new(person.ValidationError)
			if err := set(secret.New(password)); !errors.As(err, &invalid) || invalid.Field != "password" || invalid.Problem != want {
				t.Errorf("%s: %q = %v, want %q", door, password, err, want)
			}
		}
		result, err := h.Migration.Import(t.Context(),
			[]ldapmigration.Person{{NewPerson: named(known, secret.New(password))}},
			ldapmigration.How{}, by)
		if err != nil || result[0].Status != ldapmigration.Failed {
			t.Errorf("an import: %q = %+v, %v, want failed", password, result, err)
		}
	}
	if err := h.Person.SetPassword(t.Context(), "maria@example.com", secret.New("maria likes sailing"), by); err != nil {
		t.Errorf("a password with more than the name = %v", err)
	}
	off := identitytest.New(t, branded, func(c *identity.Config) { c.CommonPasswords = true })
	off.Add(person.NewPerson{Username: "maria@example.com"})
	for password := range weak {
		if err := off.Person.SetPassword(t.Context(), "maria@example.com", secret.New(password), by); err != nil {
			t.Errorf("switched off: %q = %v", password, err)
		}
	}
}

// TestCommonPasswordOnPages: the page of the own password says which of the reasons it is.
func TestCommonPasswordOnPages(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for password, want := range map[string]string{"12345678": "one of the most common ones", identitytest.Demo: "can’t be your username"} {
		a := b.Post(b.Get("/account/security/password"), "current", identitytest.DemoPassword, "password", password)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), want) {
			t.Errorf("POST of %q = %d, want 422 and %q\n%s", password, a.Code, want, a.Body)
		}
	}
}
