package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// assured returns how well the identity of a person is assured.
func (h *harness) assured(personID string) assurance.Status {
	h.t.Helper()
	out, err := h.Assurance.Of(h.t.Context(), personID)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// card reports that an identity card of a person was validated.
func (h *harness) card(username string, level int) {
	h.t.Helper()
	p, err := h.Person.Person(h.t.Context(), username)
	if err != nil {
		h.t.Fatal(err)
	}
	r := assurance.Report{Result: assurance.Validated, Document: "idcard", Level: level, ExpiresAt: h.clock.Now().Add(time.Hour)}
	if _, err := h.Assurance.Report(h.t.Context(), p.ID, r, ops); err != nil {
		h.t.Fatal(err)
	}
}

// TestAssuranceBySignIn: a provider that knows its people assures who they are, until it does so at another level, or
// the person unlinks it. What it says counts, not what the person has typed.
func TestAssuranceBySignIn(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Assurance = 2 }))
	e.at("partner")
	si := e.mustEnter(e.browser(), ann())
	have := e.assured(si.Subject)
	if have.Level != 2 || len(have.Evidence) != 1 || have.Evidence[0].Kind != login.EvidenceSignIn || have.Evidence[0].By != "partner" || !have.Evidence[0].Since.Equal(e.clock.Now()) {
		t.Fatalf("after the sign-in: %+v, want level 2 by partner", have)
	}
	before := e.events()["person.IdentityAssuranceChangedEvent"]
	e.clock.Advance(time.Hour)
	e.mustEnter(e.browser(), ann())
	if again := e.assured(si.Subject); !again.Evidence[0].Since.Equal(have.Evidence[0].Since) || e.events()["person.IdentityAssuranceChangedEvent"] != before {
		t.Errorf("another sign-in at the same level: %+v, want no change", again)
	}
	t.Run("attack 773: a profile update, by the person or by an administrator", func(t *testing.T) {
		name := "Somebody Else"
		_, err := e.Person.UpdatePerson(t.Context(), si.Subject, person.Edit{By: event.Actor{ID: si.Subject}}, func(_ storage.Tx, d *person.Details) error {
			d.Profile.Name.FirstName, d.Profile.Name.LastName = name, name
			d.Profile.CustomAttributes = append(d.Profile.CustomAttributes, person.CustomAttribute{Name: "identity_assurance_level", Value: "4"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if now := e.assured(si.Subject); now.Level != 2 || now.Evidence[0].Claims["family_name"] == name {
			t.Errorf("after it: %+v, want level 2 and the names of the provider", now)
		}
	})
	t.Run("attack 774: a provider sends verified_claims and identity_assurance_level as attributes", func(t *testing.T) {
		forged := ann()
		forged.Details = map[string][]string{"lastName": {"Berg"}, "verified_claims": {`{"verification":{"assurance_level":"4"}}`}, "identity_assurance_level": {"4"}}
		got := e.mustEnter(e.browser(), forged)
		if got.Details["verified_claims"] != nil || got.Details["identity_assurance_level"] != nil || got.Details["lastName"] == nil {
			t.Errorf("details = %v", got.Details)
		}
		if now := e.assured(si.Subject); now.Level != 2 || now.Evidence[0].Claims["family_name"] != "Berg" {
			t.Errorf("after it: %+v, want level 2", now)
		}
	})
	if err := e.Person.SetPassword(t.Context(), si.Subject, secret.New(demoPassword), ops); err != nil {
		t.Fatal(err)
	}
	if err := e.Account.Unlink(t.Context(), si.Subject, "partner", ops); err != nil {
		t.Fatal(err)
	}
	if left := e.assured(si.Subject); left.Level != 0 || len(left.Evidence) != 0 {
		t.Errorf("unlinked: %+v, want nothing", left)
	}
}

// TestServiceProviderAssurance: an application that needs to know who somebody is keeps others out, and says why.
func TestServiceProviderAssurance(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 0)
	need := func(client string, level int) {
		u.Organisations = []config.Organisation{{ID: "acme", ServiceProviders: map[string]config.ServiceProvider{client: {ID: client, RequiredIdentityAssuranceLevel: level}}}}
	}
	b := h.browser()
	b.plain()
	enters := func() bool {
		t.Helper()
		return strings.HasPrefix(b.get("/next").Body.String(), "signed in as ")
	}
	if need("other", 4); !enters() {
		t.Error("the demand of another application keeps a person out")
	}
	need("shop", 3)
	if a := b.get("/next"); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "Your identity needs to be confirmed") || !strings.Contains(a.Body.String(), "other=1") {
		t.Errorf("without an identity: %d %s, want a page that says so and leads on", a.Code, a.Body)
	}
	if _, err := h.CheckPassword(t.Context(), "shop", demo, demoPassword, event.Origin{ClientIP: "203.0.113.7"}); err == nil {
		t.Error("the password grant passes by the demand")
	}
	before := h.demand
	h.demand = func(r *http.Request) login.Demand {
		d := before(r)
		d.Passive = true
		return d
	}
	if a := b.get("/next"); !strings.Contains(a.Body.String(), "unmet_authentication_requirements") {
		t.Errorf("a passive request = %d %s, want unmet_authentication_requirements", a.Code, a.Body)
	}
	h.demand = before
	if h.card(demo, 2); enters() {
		t.Error("level 2 is enough for 3")
	}
	if h.card(demo, 3); !enters() {
		t.Error("a person whose identity is assured is kept out")
	}
	h.clock.Advance(61 * time.Minute) // and the session has ended as well
	b = h.browser()
	need("shop", 0)
	b.plain()
	need("shop", 3)
	if enters() {
		t.Error("an identity card that has expired is enough")
	}
	if need("shop", 0); !enters() {
		t.Error("without a demand: kept out")
	}

	t.Run("by SAML", func(t *testing.T) {
		h := serving(t)
		h.serve(wiki(func(p *serviceprovider.Provider) { p.Assurance = 2 }))
		b := h.browser()
		b.signIn(demo, demoPassword)
		if a := b.request(h.authnRequest("_a1"), ""); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "Your identity needs to be confirmed") {
			t.Errorf("without an identity: %d %s", a.Code, a.Body)
		}
		h.card(demo, 2)
		b.request(h.authnRequest("_a2"), "").deliver(t)
	})
}
