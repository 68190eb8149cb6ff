package identity_test

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestUnverifiedAddressInAssertions: an address that anybody can add to their account reaches no service provider, unless
// the operator has said so for that attribute.
func TestUnverifiedAddressInAssertions(t *testing.T) {
	t.Parallel()
	const victim = "boss@example.com"
	for name, c := range map[string]struct {
		unverified, verified bool
		want                 []string
	}{
		"unverified":                    {false, false, nil},
		"unverified, and that is said":  {true, false, []string{victim}},
		"verified":                      {false, true, []string{victim}},
		"verified, and nothing is said": {true, true, []string{victim}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serving(t, wiki(func(p *serviceprovider.Provider) {
				p.Attributes = []serviceprovider.Attribute{{Source: "mail", Unverified: c.unverified}, {Source: "name"}}
			}))
			_, err := h.Person.UpdatePerson(t.Context(), h.idOf(demo), person.Edit{By: event.Actor{ID: "ops"}, Verified: true}, func(_ storage.Tx, d *person.Details) error {
				d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: c.verified, Value: victim}}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			b := h.browser()
			b.signIn(demo, demoPassword)
			got := b.request(h.authnRequest("_u1"), "").deliver(t).attributes()
			if !slices.Equal(got["mail"], c.want) || len(got["name"]) != 1 {
				t.Errorf("attributes = %v, want mail %v", got, c.want)
			}
		})
	}
}

// TestUnverifiedAddressInDetails: what a provider says of an address that it has not verified is no detail of a sign-in.
func TestUnverifiedAddressInDetails(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	id := ann()
	id.EmailVerified = false
	id.Details["email"], id.Details["contact"] = []string{id.Email}, []string{id.Email}
	id.Details["phone_number"], id.Details["phone_number_verified"] = []string{"+31201234567"}, []string{"false"}
	d := e.mustEnter(e.browser(), id).Details
	if len(d["email"]) > 0 || len(d["phone_number"]) > 0 || !slices.Equal(d["email_verified"], []string{"false"}) || !slices.Equal(d["contact"], []string{id.Email}) {
		t.Errorf("details = %v, want no address and no number but the contact", d)
	}
}
