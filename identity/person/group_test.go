package person_test

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestMembersGetTheNewNameOfTheirGroup: every member of a renamed group has the new name, even when the engine runs the
// transaction of the change a second time.
func TestMembersGetTheNewNameOfTheirGroup(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	var members []string
	for _, name := range []string{"anna", "bert"} {
		p, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: name, Password: secret.New("sail-1-x")}, identitytest.Admin)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, p.ID)
	}
	g, err := h.Person.AddGroup(t.Context(), person.GroupChange{Name: "crew", Add: members}, identitytest.Admin)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Person.UpdateGroup(t.Context(), g.ID, identitytest.Admin, func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
		c.Name = "team"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anna", "bert"} {
		p, err := h.Person.Person(t.Context(), name)
		if err != nil || !slices.Equal(p.Groups, []string{"team"}) {
			t.Errorf("groups of %s = %q, %v, want team", name, p.Groups, err)
		}
	}
}
