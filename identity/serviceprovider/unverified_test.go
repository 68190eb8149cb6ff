package serviceprovider_test

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestUnverifiedAddressInAssertions: an address that anybody can add to their account reaches no service provider,
// unless the operator has said so for that attribute.
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
			h := identitytest.NewServing(t, identitytest.Wiki(func(p *serviceprovider.Provider) {
				p.Attributes = []serviceprovider.Attribute{{Source: "mail", Unverified: c.unverified}, {Source: "name"}}
			}))
			_, err := h.Person.UpdatePerson(t.Context(), h.IDOf(identitytest.Demo), person.Edit{By: audit.Actor{ID: "ops"}, Verified: true},
				func(_ storage.Tx, d *person.Details) error {
					d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: c.verified, Value: victim}}
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			got := attributes(b.Request(h.AuthnRequest("_u1"), "").Deliver(t))
			if !slices.Equal(got["mail"], c.want) || len(got["name"]) != 1 {
				t.Errorf("attributes = %v, want mail %v", got, c.want)
			}
		})
	}
}
