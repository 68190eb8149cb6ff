package activation_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestActivatedByToken: activating an account with an action token is like activating it with its link. The person is
// welcomed, and cannot activate it again after an administrator has made it inactive.
func TestActivatedByToken(t *testing.T) {
	t.Parallel()
	h, _, p, link := activatingByEmail(t)
	admin := audit.Actor{ID: "ops"}
	token, err := h.ActionToken.Make(t.Context(), p.ID, actiontoken.NewActionToken{
		Actions: []actiontoken.Action{{Type: actiontoken.ActionActivatePerson}},
	}, admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ActionToken.Process(t.Context(), token.Token, "", admin); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "of the token", h.Notices, "welcome "+identitytest.Newcomer)
	h.Browser().SignIn("ann", identitytest.FreshPassword)

	_, err = h.Person.UpdatePerson(t.Context(), p.ID, person.Edit{By: admin}, func(_ storage.Tx, d *person.Details) error {
		d.State = person.Inactive
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b := h.Browser()
	if a := b.Try("ann", identitytest.FreshPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the right password of a person made inactive = %d to %s, want no way to activate the account", a.Code,
			a.Header().Get("Location"))
	}
	if a := b.Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of the activation = %d", a.Code)
	}
	if h.StateOf(p.ID) != person.Inactive {
		t.Errorf("state = %s", h.StateOf(p.ID))
	}
}
