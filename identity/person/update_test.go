package person_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestUpdateInTransaction: a change of a person within another transaction is validated like every other change, and
// has its event, its notice and its hooks.
func TestUpdateInTransaction(t *testing.T) {
	t.Parallel()
	h, u, notices := identitytest.NewWithSignUp(t)
	u.EmailNotifications.AttributesUpdate.OnEmailUpdated = true
	u.Features.CustomEmailValidation = identitytest.UnitsOf(t,
		`{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"example\\.com"}}}`).Features.CustomEmailValidation
	p := h.Add(person.NewPerson{Username: "ann@example.com"})
	t.Cleanup(h.CheckInvariants)
	var followed string
	h.Person.OnChange(func(_ storage.Tx, id string, before, after *person.Profile) error {
		followed = id + " " + before.PrimaryEmail().Value + " " + after.PrimaryEmail().Value
		return nil
	})
	apply := func(address string) error {
		up, err := h.Person.NewUpdate(t.Context(), person.Edit{By: audit.Actor{ID: "ops"}, Verified: true})
		if err != nil {
			t.Fatal(err)
		}
		return h.Store.Update(t.Context(), func(tx storage.Tx) error {
			_, err := up.Apply(tx, p.ID, func(_ storage.Tx, d *person.Details) error {
				d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: true, Value: address}}
				return nil
			})
			return err
		})
	}
	notices.Take()
	if check := &u.Features.CustomEmailValidation; !check.Check("ann@EXAMPLE.com") || check.Check("ann@EXAMPLE.com.evil") {
		t.Error("the domain of an address is not compared without regard to case")
	}
	if err := apply("ann@elsewhere.example"); !errors.As(err, new(*person.ValidationError)) {
		t.Errorf("an address that is not accepted: %v, want a *ValidationError", err)
	}
	if n := h.Events()["person.PersonUpdatedEvent"]; n != 0 || followed != "" {
		t.Errorf("a refused change has %d events and the hook %q", n, followed)
	}
	if err := apply("other@example.com"); err != nil {
		t.Fatal(err)
	}
	if want := p.ID + " ann@example.com other@example.com"; followed != want {
		t.Errorf("hook = %q, want %q", followed, want)
	}
	if n := h.Events()["person.PersonUpdatedEvent"]; n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	identitytest.WantNotices(t, "of the change", notices, string(notify.EmailUpdated)+" ann@example.com")
	err := h.Person.View(t.Context(), func(tx storage.Tx) error {
		for address, want := range map[string][]string{"ann@example.com": nil, "other@example.com": {p.ID}} {
			if ids, err := h.Person.ByEmail(tx, audit.DefaultPartition, address); err != nil || !slices.Equal(ids, want) {
				t.Errorf("ByEmail(%s) = %v, %v, want %v", address, ids, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
