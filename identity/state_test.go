package identity_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestActivatedByToken: activating an account with an action token is like activating it with its link. The person is
// welcomed, and cannot activate it again after an administrator has made it inactive.
func TestActivatedByToken(t *testing.T) {
	t.Parallel()
	h, _, p, link := activatingByEmail(t)
	admin := event.Actor{ID: "ops"}
	token, err := h.ActionToken.Make(t.Context(), p.ID, actiontoken.NewActionToken{
		Actions: []actiontoken.Action{{Type: actiontoken.ActionActivatePerson}},
	}, admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ActionToken.Process(t.Context(), token.Token, "", admin); err != nil {
		t.Fatal(err)
	}
	heard(t, "of the token", h.notices, "welcome "+newcomer)
	h.browser().signIn("ann", freshPassword)

	_, err = h.Person.UpdatePerson(t.Context(), p.ID, person.Edit{By: admin}, func(_ storage.Tx, d *person.Details) error {
		d.State = person.Inactive
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b := h.browser()
	if a := b.try("ann", freshPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the right password of a person made inactive = %d to %s, want no way to activate the account", a.Code, a.Header().Get("Location"))
	}
	if a := b.get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of the activation = %d", a.Code)
	}
	if h.stateOf(p.ID) != person.Inactive {
		t.Errorf("state = %s", h.stateOf(p.ID))
	}
}
