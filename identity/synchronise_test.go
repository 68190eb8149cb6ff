package identity_test

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestSynchroniseIsAChange: what a provider changes at a sign-in is an event like every other change, a sign-in
// without changes makes no event, and an address that the settings refuse is not stored, while the rest is.
func TestSynchroniseIsAChange(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Synchronise = true }))
	u := config.Defaults()
	e.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	e.start()
	e.at("partner")
	si := e.mustEnter(e.browser(), ann())
	updates := func() int { return e.events()["person.PersonUpdatedEvent"] }
	before := updates()
	e.mustEnter(e.browser(), ann())
	if n := updates() - before; n != 0 {
		t.Errorf("%d events of a change, want none: nothing has changed", n)
	}
	u.Features.CustomEmailValidation = unitsOf(t, `{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"partner\\.example"}}}`).Features.CustomEmailValidation
	married := ann()
	married.Email, married.Details = "ann@elsewhere.example", map[string][]string{"lastName": {"Other"}, "email": {"ann@elsewhere.example"}}
	e.clock.Advance(time.Minute)
	e.mustEnter(e.browser(), married)
	p, err := e.Person.Person(t.Context(), si.Subject)
	if err != nil || p.FamilyName != "Other" || p.Email != "ann@partner.example" {
		t.Errorf("Person = %+v, %v, want the new name and the earlier address", p, err)
	}
	if n := updates() - before; n != 1 {
		t.Errorf("%d events of a change, want one", n)
	}
}
