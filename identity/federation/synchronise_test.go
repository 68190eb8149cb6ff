package federation_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestSynchroniseIsAChange: what a provider changes at a sign-in is an event like every other change, a sign-in
// without changes makes no event, and an address that the settings refuse is not stored, while the rest is.
// TestCustomAttributesOfAMethod: what the operator maps to a custom attribute is stored with a newcomer, and written
// again where the method synchronises.
func TestCustomAttributesOfAMethod(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, true} {
		e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) {
			p.Custom, p.Synchronise = []string{"department", "not a name!", "room"}, follows
		}))
		e.At("partner")
		custom := func(personID string) (out []person.CustomAttribute) {
			err := e.Store.View(t.Context(), func(tx storage.Tx) error {
				prof, err := e.Person.Profile(tx, personID)
				out = prof.CustomAttributes
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		id := identitytest.Ann()
		id.Details["department"], id.Details["not a name!"], id.Details["other"] = []string{"Sales"}, []string{"x"}, []string{"y"}
		si := e.MustEnter(e.Browser(), id)
		if got := custom(si.Subject); !slices.Equal(got, []person.CustomAttribute{{Name: "department", Value: "Sales"}}) {
			t.Errorf("of a newcomer: %v, want the department alone", got)
		}
		id = identitytest.Ann()
		id.Details["department"] = []string{"Finance"}
		e.Clock.Advance(time.Minute)
		e.MustEnter(e.Browser(), id)
		want := map[bool]string{false: "Sales", true: "Finance"}[follows]
		if got := custom(si.Subject); len(got) != 1 || got[0].Value != want {
			t.Errorf("synchronised %t: %v, want %s", follows, got, want)
		}
	}
}

// TestExcludedAttributes: a detail that the operator excludes is no one's, neither of the sign-in nor of the profile.
func TestExcludedAttributes(t *testing.T) {
	t.Parallel()
	for _, excluded := range []bool{false, true} {
		e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) {
			if p.Custom = []string{"room"}; excluded {
				p.Excluded = []string{"room", "lastName"}
			}
		}))
		e.At("partner")
		id := holding()
		id.Details["room"] = []string{"12"}
		si := e.MustEnter(e.Browser(), id)
		p, err := e.Person.Person(t.Context(), si.Subject)
		if err != nil {
			t.Fatal(err)
		}
		right := func(details map[string][]string) bool {
			return (details["room"] == nil) == excluded && (details["lastName"] == nil) == excluded && details["firstName"] != nil
		}
		if !right(si.Details) || (p.FamilyName == "") != excluded {
			t.Errorf("excluded %t: details %v, family name %q", excluded, si.Details, p.FamilyName)
		}
		e.Partner.OnRefresh(func(context.Context, []byte) (*idp.Identity, error) {
			again := holding()
			again.Details["room"] = []string{"13"}
			return again, nil
		})
		t.Run(fmt.Sprintf("attack 1299: excluded %t, asked again", excluded), func(t *testing.T) {
			got, err := e.Federation.RefreshDetails(t.Context(), si.Subject, si.SessionID, "partner")
			if err != nil || !right(got) {
				t.Errorf("RefreshDetails = %v, %v", got, err)
			}
		})
	}
}

func TestSynchroniseIsAChange(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Synchronise = true }))
	u := settings.Defaults()
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Start()
	e.At("partner")
	si := e.MustEnter(e.Browser(), identitytest.Ann())
	updates := func() int { return e.Events()["person.PersonUpdatedEvent"] }
	before := updates()
	e.MustEnter(e.Browser(), identitytest.Ann())
	if n := updates() - before; n != 0 {
		t.Errorf("%d events of a change, want none: nothing has changed", n)
	}
	u.Features.CustomEmailValidation = identitytest.UnitsOf(t,
		`{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"partner\\.example"}}}`).Features.CustomEmailValidation
	married := identitytest.Ann()
	married.Email, married.Details = "ann@elsewhere.example", map[string][]string{"lastName": {"Other"}, "email": {"ann@elsewhere.example"}}
	e.Clock.Advance(time.Minute)
	e.MustEnter(e.Browser(), married)
	p, err := e.Person.Person(t.Context(), si.Subject)
	if err != nil || p.FamilyName != "Other" || p.Email != "ann@partner.example" {
		t.Errorf("Person = %+v, %v, want the new name and the earlier address", p, err)
	}
	if n := updates() - before; n != 1 {
		t.Errorf("%d events of a change, want one", n)
	}
}
