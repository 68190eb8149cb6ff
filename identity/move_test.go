package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/migration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// newcomerAt is somebody whom partner names for the first time, with the identifier of an account here.
func newcomerAt(subject, identifier string) *idp.Identity {
	id := &idp.Identity{Subject: subject, Level: 1, Details: map[string][]string{}}
	if identifier != "" {
		id.Details["person_identifier"] = []string{identifier}
	}
	return id
}

func moving(t *testing.T, how federation.Moving) *elsewhere {
	t.Helper()
	return newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Moving = how }))
}

// imported adds a person of another system.
func (e *elsewhere) imported(name, external, password string) string {
	e.t.Helper()
	p := migration.Person{NewPerson: person.NewPerson{Username: name}, ExternalID: external}
	if password != "" {
		p.Password = secret.New(password)
	}
	out, err := e.Migration.Import(e.t.Context(), []migration.Person{p}, migration.How{}, event.Actor{})
	if err != nil || out[0].Status != migration.Created {
		e.t.Fatalf("%s: %+v, %v", name, out, err)
	}
	return out[0].ID
}

// TestNewcomerIsAskedForTheirAccount: who signs in at a provider for the first time proves the account that they have
// here, or says that they have none.
func TestNewcomerIsAskedForTheirAccount(t *testing.T) {
	t.Parallel()
	e := moving(t, federation.Moving{Ask: true})
	e.at("identity", "partner")
	b := e.browser()
	asked := b.come(b.leave(e.toPartner(b)), e.partner.Answer(newcomerAt("demo-there", ""), nil))
	if asked.Code != http.StatusOK || !strings.Contains(asked.Body.String(), "for the first time") || !strings.Contains(asked.Body.String(), "have an account here yet") {
		t.Fatalf("the newcomer is not asked: %d\n%s", asked.Code, asked.Body)
	}
	if a := b.post(asked, "username", demo, "password", "wrong"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password: %d", a.Code)
	}
	a := b.post(asked, "username", demo, "password", demoPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("the right password: %d\n%s", a.Code, a.Body)
	}
	again := e.browser()
	p, err := e.Person.Person(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	if end := again.come(again.leave(e.toPartner(again)), e.partner.Answer(newcomerAt("demo-there", ""), nil)); end.Body.String() != "signed in as "+p.ID {
		t.Errorf("the next sign-in ends with %s, want the account", end.Body)
	}

	b = e.browser()
	asked = b.come(b.leave(e.toPartner(b)), e.partner.Answer(newcomerAt("new-there", ""), nil))
	a = b.post(asked, "new", "1")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("without an account: %d\n%s", a.Code, a.Body)
	}
	if end := b.get(a.Header().Get("Location")); !strings.HasPrefix(end.Body.String(), "signed in as ") || strings.Contains(end.Body.String(), p.ID) {
		t.Errorf("without an account: %s\n%s", end.url, end.Body)
	}
}

// toPartner is the address of the sign-in at partner.
func (e *elsewhere) toPartner(b *browser) string {
	e.t.Helper()
	form := b.get("/next")
	return strings.Replace(form.url, "/sign-in?", "/sign-in/provider?", 1) + "&idp=partner"
}

// TestNewcomerIsNamedByTheProvider: the identifier that the provider says leads to the account, with and without its
// password.
func TestNewcomerIsNamedByTheProvider(t *testing.T) {
	t.Parallel()
	arrive := func(e *elsewhere, id *idp.Identity) *answer {
		b := e.browser()
		return b.come(b.leave("/next"), e.partner.Answer(id, nil))
	}
	isAsked := func(a *answer) bool { return strings.Contains(a.Body.String(), "for the first time") }
	t.Run("without a password", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Trust: true})
		e.at("partner")
		id := e.imported("ida", "E-17", "")
		if a := arrive(e, newcomerAt("ida-there", "E-17")); a.Body.String() != "signed in as "+id {
			t.Errorf("the external id: %s\n%s", a.url, a.Body)
		}
		other := e.imported("ivo", "", "")
		if a := arrive(e, newcomerAt("ivo-there", other)); a.Body.String() != "signed in as "+other {
			t.Errorf("the id: %s\n%s", a.url, a.Body)
		}
		if a := arrive(e, newcomerAt("somebody", "E-99")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("an identifier that nobody has: %s\n%s", a.url, a.Body)
		}
	})
	t.Run("attack 707: a provider names an account that is in use", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Trust: true})
		e.at("identity", "partner")
		e.imported("ida", "E-17", "ida's own password")
		first := e.imported("ivo", "E-18", "")
		reach := func(subject, identifier string) *answer {
			b := e.browser()
			return b.come(b.leave(e.toPartner(b)), e.partner.Answer(newcomerAt(subject, identifier), nil))
		}
		if a := reach("mallory-1", "E-17"); !isAsked(a) {
			t.Errorf("an account with a password: %s\n%s", a.url, a.Body)
		}
		if a := reach("ivo-there", "E-18"); a.Body.String() != "signed in as "+first {
			t.Fatalf("the first one: %s\n%s", a.url, a.Body)
		}
		if a := reach("mallory-2", "E-18"); !isAsked(a) {
			t.Errorf("an account that is linked: %s\n%s", a.url, a.Body)
		}
		e.imported("twin", "E-20", "")
		e.imported("twin2", "E-20", "")
		if a := reach("mallory-3", "E-20"); isAsked(a) || strings.Contains(a.Body.String(), first) {
			t.Errorf("an identifier of two: %s\n%s", a.url, a.Body)
		}
		blocked := e.imported("block", "E-21", "")
		if err := e.Person.SetState(t.Context(), blocked, person.Blocked, event.Actor{}); err != nil {
			t.Fatal(err)
		}
		if a := reach("mallory-4", "E-21"); a.Code != http.StatusForbidden {
			t.Errorf("a blocked account: %d %s\n%s", a.Code, a.url, a.Body)
		}
	})
	t.Run("with its password alone", func(t *testing.T) {
		t.Parallel()
		e := moving(t, federation.Moving{Ask: true, Named: true})
		e.at("identity", "partner")
		e.imported("ida", "E-17", "")
		b := e.browser()
		if a := b.come(b.leave(e.toPartner(b)), e.partner.Answer(newcomerAt("ida-there", "E-17"), nil)); !isAsked(a) {
			t.Errorf("an account that nobody uses yet: %s\n%s", a.url, a.Body)
		}
		b = e.browser()
		if a := b.come(b.leave(e.toPartner(b)), e.partner.Answer(newcomerAt("nameless", ""), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("a newcomer without an identifier is not let in with a new account: %s\n%s", a.url, a.Body)
		}
	})
}
