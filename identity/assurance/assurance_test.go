package assurance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// assured returns how well the identity of a person is assured.
func assured(h *identitytest.Harness, personID string) assurance.Status {
	h.T.Helper()
	out, err := h.Assurance.Of(h.T.Context(), personID)
	if err != nil {
		h.T.Fatal(err)
	}
	return out
}

// card reports that an identity card of a person was validated.
func card(h *identitytest.Harness, username string, level int) {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), username)
	if err != nil {
		h.T.Fatal(err)
	}
	r := assurance.Report{Result: assurance.Validated, Document: "idcard", Level: level, ExpiresAt: h.Clock.Now().Add(time.Hour)}
	if _, err := h.Assurance.Report(h.T.Context(), p.ID, r, identitytest.Ops); err != nil {
		h.T.Fatal(err)
	}
}

// TestAssuranceBySignIn: a provider that knows its people assures who they are, until it does so at another level, or
// the person unlinks it. What it says counts, not what the person has typed.
func TestAssuranceBySignIn(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Assurance = 2 }))
	e.At("partner")
	si := e.MustEnter(e.Browser(), identitytest.Ann())
	have := assured(e.Harness, si.Subject)
	if have.Level != 2 || len(have.Evidence) != 1 || have.Evidence[0].Kind != authn.EvidenceSignIn || have.Evidence[0].By != "partner" ||
		!have.Evidence[0].Since.Equal(e.Clock.Now()) {
		t.Fatalf("after the sign-in: %+v, want level 2 by partner", have)
	}
	before := e.Events()["person.IdentityAssuranceChangedEvent"]
	e.Clock.Advance(time.Hour)
	e.MustEnter(e.Browser(), identitytest.Ann())
	if again := assured(e.Harness, si.Subject); !again.Evidence[0].Since.Equal(have.Evidence[0].Since) ||
		e.Events()["person.IdentityAssuranceChangedEvent"] != before {
		t.Errorf("another sign-in at the same level: %+v, want no change", again)
	}
	t.Run("attack 773: a profile update, by the person or by an administrator", func(t *testing.T) {
		name := "Somebody Else"
		_, err := e.Person.UpdatePerson(t.Context(), si.Subject, person.Edit{By: audit.Actor{ID: si.Subject}},
			func(_ storage.Tx, d *person.Details) error {
				d.Profile.Name.FirstName, d.Profile.Name.LastName = name, name
				d.Profile.CustomAttributes = append(d.Profile.CustomAttributes, person.CustomAttribute{Name: "identity_assurance_level", Value: "4"})
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if now := assured(e.Harness, si.Subject); now.Level != 2 || now.Evidence[0].Claims["family_name"] == name {
			t.Errorf("after it: %+v, want level 2 and the names of the provider", now)
		}
	})
	t.Run("attack 774: a provider sends verified_claims and identity_assurance_level as attributes", func(t *testing.T) {
		forged := identitytest.Ann()
		forged.Details = map[string][]string{
			"lastName": {"Berg"}, "verified_claims": {`{"verification":{"assurance_level":"4"}}`},
			"identity_assurance_level": {"4"},
		}
		got := e.MustEnter(e.Browser(), forged)
		if got.Details["verified_claims"] != nil || got.Details["identity_assurance_level"] != nil || got.Details["lastName"] == nil {
			t.Errorf("details = %v", got.Details)
		}
		if now := assured(e.Harness, si.Subject); now.Level != 2 || now.Evidence[0].Claims["family_name"] != "Berg" {
			t.Errorf("after it: %+v, want level 2", now)
		}
	})
	if err := e.Person.SetPassword(t.Context(), si.Subject, secret.New(identitytest.DemoPassword), identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	if err := e.Account.Unlink(t.Context(), si.Subject, "partner", identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	if left := assured(e.Harness, si.Subject); left.Level != 0 || len(left.Evidence) != 0 {
		t.Errorf("unlinked: %+v, want nothing", left)
	}
}

// TestServiceProviderAssurance: an application that needs to know who someone is keeps others out, and says why.
func TestServiceProviderAssurance(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 0)
	need := func(client string, level int) {
		u.Organisations = []settings.Organisation{{
			ID:               "acme",
			ServiceProviders: map[string]settings.ServiceProvider{client: {ID: client, RequiredIdentityAssuranceLevel: level}},
		}}
	}
	b := h.Browser()
	b.Plain()
	enters := func() bool {
		t.Helper()
		return strings.HasPrefix(b.Get("/next").Body.String(), "signed in as ")
	}
	if need("other", 4); !enters() {
		t.Error("the demand of another application keeps a person out")
	}
	need("shop", 3)
	if a := b.Get("/next"); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "Your identity needs to be confirmed") ||
		!strings.Contains(a.Body.String(), "other=1") {
		t.Errorf("without an identity: %d %s, want a page that says so and leads on", a.Code, a.Body)
	}
	if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword,
		audit.Origin{ClientIP: "203.0.113.7"}); err == nil {
		t.Error("the password grant passes by the demand")
	}
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.Passive = true
		return d
	}
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), "unmet_authentication_requirements") {
		t.Errorf("a passive request = %d %s, want unmet_authentication_requirements", a.Code, a.Body)
	}
	h.Demand = before
	if card(h, identitytest.Demo, 2); enters() {
		t.Error("level 2 is enough for 3")
	}
	if card(h, identitytest.Demo, 3); !enters() {
		t.Error("a person whose identity is assured is kept out")
	}
	h.Clock.Advance(61 * time.Minute) // and the session has ended as well
	b = h.Browser()
	need("shop", 0)
	b.Plain()
	need("shop", 3)
	if enters() {
		t.Error("an identity card that has expired is enough")
	}
	if need("shop", 0); !enters() {
		t.Error("without a demand: kept out")
	}

	t.Run("by SAML", func(t *testing.T) {
		h := identitytest.NewServing(t)
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) { p.Assurance = 2 }))
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		if a := b.Request(h.AuthnRequest("_a1"), ""); a.Code != http.StatusForbidden ||
			!strings.Contains(a.Body.String(), "Your identity needs to be confirmed") {
			t.Errorf("without an identity: %d %s", a.Code, a.Body)
		}
		card(h, identitytest.Demo, 2)
		b.Request(h.AuthnRequest("_a2"), "").Deliver(t)
	})
}
