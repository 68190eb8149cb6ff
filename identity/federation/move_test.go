package federation_test

import (
	"cmp"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// newcomerAt is someone that partner names for the first time, with the identifier of an account here.
func newcomerAt(subject, identifier string) *idp.Identity {
	id := &idp.Identity{Subject: subject, Level: 1, Details: map[string][]string{}}
	if identifier != "" {
		id.Details["person_identifier"] = []string{identifier}
	}
	return id
}

func moving(t *testing.T, how federation.Moving) *identitytest.Federated {
	t.Helper()
	return identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Moving = how }))
}

// imported adds a person of another system.
func imported(e *identitytest.Federated, name, external, password string) string {
	e.T.Helper()
	p := ldapmigration.Person{NewPerson: person.NewPerson{Username: name}, ExternalID: external}
	if password != "" {
		p.Password = secret.New(password)
	}
	out, err := e.Migration.Import(e.T.Context(), []ldapmigration.Person{p}, ldapmigration.How{}, audit.Actor{})
	if err != nil || out[0].Status != ldapmigration.Created {
		e.T.Fatalf("%s: %+v, %v", name, out, err)
	}
	return out[0].ID
}

// TestNewcomerIsAskedForTheirAccount: who signs in at a provider for the first time proves the account that they have
// here, or says that they have none.
func TestNewcomerIsAskedForTheirAccount(t *testing.T) {
	t.Parallel()
	e := moving(t, federation.Moving{Ask: true})
	e.At("identity", "partner")
	b := e.Browser()
	asked := b.Come(b.Leave(toPartner(e, b)), e.Partner.Answer(newcomerAt("demo-there", ""), nil))
	if asked.Code != http.StatusOK || !strings.Contains(asked.Body.String(), "for the first time") ||
		!strings.Contains(asked.Body.String(), "have an account here yet") {
		t.Fatalf("the newcomer is not asked: %d\n%s", asked.Code, asked.Body)
	}
	if a := b.Post(asked, "username", identitytest.Demo, "password", "wrong"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password: %d", a.Code)
	}
	a := b.Post(asked, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("the right password: %d\n%s", a.Code, a.Body)
	}
	again := e.Browser()
	p, err := e.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	if end := again.Come(again.Leave(toPartner(e, again)),
		e.Partner.Answer(newcomerAt("demo-there", ""), nil)); end.Body.String() != "signed in as "+p.ID {
		t.Errorf("the next sign-in ends with %s, want the account", end.Body)
	}

	b = e.Browser()
	asked = b.Come(b.Leave(toPartner(e, b)), e.Partner.Answer(newcomerAt("new-there", ""), nil))
	a = b.Post(asked, "new", "1")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("without an account: %d\n%s", a.Code, a.Body)
	}
	if end := b.Get(a.Header().Get("Location")); !strings.HasPrefix(end.Body.String(), "signed in as ") ||
		strings.Contains(end.Body.String(), p.ID) {
		t.Errorf("without an account: %s\n%s", end.URL, end.Body)
	}
}

// toPartner is the address of the sign-in at partner.
func toPartner(e *identitytest.Federated, b *identitytest.Browser) string {
	e.T.Helper()
	form := b.Get("/next")
	return strings.Replace(form.URL, "/sign-in?", "/sign-in/provider?", 1) + "&idp=partner"
}

// TestNewcomerIsNamedByTheProvider: the identifier that the provider says leads to the account, with and without its
// password.
func TestNewcomerIsNamedByTheProvider(t *testing.T) {
	t.Parallel()
	arrive := func(e *identitytest.Federated, id *idp.Identity) *identitytest.Answer {
		b := e.Browser()
		return b.Come(b.Leave("/next"), e.Partner.Answer(id, nil))
	}
	isAsked := func(a *identitytest.Answer) bool { return strings.Contains(a.Body.String(), "for the first time") }
	t.Run("without a password", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Trust: true})
		e.At("partner")
		id := imported(e, "ida", "E-17", "")
		if a := arrive(e, newcomerAt("ida-there", "E-17")); a.Body.String() != "signed in as "+id {
			t.Errorf("the external id: %s\n%s", a.URL, a.Body)
		}
		other := imported(e, "ivo", "", "")
		if a := arrive(e, newcomerAt("ivo-there", other)); a.Body.String() != "signed in as "+other {
			t.Errorf("the id: %s\n%s", a.URL, a.Body)
		}
		if a := arrive(e, newcomerAt("somebody", "E-99")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("an identifier that nobody has: %s\n%s", a.URL, a.Body)
		}
	})
	t.Run("attack 707: a provider names an account that is in use", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Trust: true})
		e.At("identity", "partner")
		imported(e, "ida", "E-17", "ida's own password")
		first := imported(e, "ivo", "E-18", "")
		reach := func(subject, identifier string) *identitytest.Answer {
			b := e.Browser()
			return b.Come(b.Leave(toPartner(e, b)), e.Partner.Answer(newcomerAt(subject, identifier), nil))
		}
		if a := reach("mallory-1", "E-17"); !isAsked(a) {
			t.Errorf("an account with a password: %s\n%s", a.URL, a.Body)
		}
		if a := reach("ivo-there", "E-18"); a.Body.String() != "signed in as "+first {
			t.Fatalf("the first one: %s\n%s", a.URL, a.Body)
		}
		if a := reach("mallory-2", "E-18"); !isAsked(a) {
			t.Errorf("an account that is linked: %s\n%s", a.URL, a.Body)
		}
		imported(e, "twin", "E-20", "")
		imported(e, "twin2", "E-20", "")
		if a := reach("mallory-3", "E-20"); isAsked(a) || strings.Contains(a.Body.String(), first) {
			t.Errorf("an identifier of two: %s\n%s", a.URL, a.Body)
		}
		blocked := imported(e, "block", "E-21", "")
		if err := e.Person.SetState(t.Context(), blocked, person.Blocked, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		if a := reach("mallory-4", "E-21"); a.Code != http.StatusForbidden {
			t.Errorf("a blocked account: %d %s\n%s", a.Code, a.URL, a.Body)
		}
	})
	t.Run("attack 3313: an API client names its own employee, before the account gets a role", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Trust: true})
		e.At("identity", "partner")
		client := audit.Actor{Name: "the mailing list", BelowRoles: true}
		written := imported(e, "ida", "E-17", "")
		update := person.Edit{By: client}
		if _, err := e.Person.UpdatePerson(t.Context(), written, update, func(_ storage.Tx, d *person.Details) error {
			d.Directory.ExternalID = "M-1"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		made, err := e.Person.CreatePerson(t.Context(),
			person.NewPerson{Username: "ivo", Directory: &person.Directory{ExternalID: "M-2"}}, client)
		if err != nil {
			t.Fatal(err)
		}
		kept := imported(e, "iris", "E-19", "")
		if _, err := e.Person.UpdatePerson(t.Context(), kept, update, func(_ storage.Tx, d *person.Details) error {
			d.Directory.Title = "Buyer"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, id, identifier string
			planted              int
		}{
			{"written", written, "M-1", 1},
			{"made", made.ID, "M-2", 1},
			{"kept", kept, "E-19", 0},
			{"named by its id", imported(e, "ines", "", ""), "", 0},
		} {
			b := e.Browser()
			if a := b.Come(b.Leave(toPartner(e, b)),
				e.Partner.Answer(newcomerAt("at-"+c.id, cmp.Or(c.identifier, c.id)), nil)); a.Body.String() != "signed in as "+c.id {
				t.Fatalf("%s: %s\n%s", c.name, a.URL, a.Body)
			}
			var planted []person.Planted
			if err := e.Store.View(t.Context(), func(tx storage.Tx) (err error) {
				planted, err = person.PlantedFor(tx, c.id)
				return err
			}); err != nil || len(planted) != c.planted {
				t.Errorf("%s: %v, %v, want %d ways in that someone else has prepared", c.name, planted, err, c.planted)
			}
		}
	})
	t.Run("with its password alone", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Named: true})
		e.At("identity", "partner")
		imported(e, "ida", "E-17", "")
		b := e.Browser()
		if a := b.Come(b.Leave(toPartner(e, b)), e.Partner.Answer(newcomerAt("ida-there", "E-17"), nil)); !isAsked(a) {
			t.Errorf("an account that nobody uses yet: %s\n%s", a.URL, a.Body)
		}
		b = e.Browser()
		if a := b.Come(b.Leave(toPartner(e, b)), e.Partner.Answer(newcomerAt("nameless", ""), nil)); !strings.HasPrefix(a.Body.String(),
			"signed in as ") {
			t.Errorf("a newcomer without an identifier is not let in with a new account: %s\n%s", a.URL, a.Body)
		}
	})
}
