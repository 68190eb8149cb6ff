package person_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestNamesOutside: no two persons or groups of different partitions have one name at an application, and the names by
// which it knows groups lead back to them.
func TestNamesOutside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		on                  bool
		partition, username string
		groups              []string
		want                string
	}{
		{false, "", "anna", []string{"crew", `acme\crew`}, `anna [crew acme\crew]`},
		{true, "", "anna", []string{"crew"}, `anna [crew]`},
		{true, "acme", "anna", []string{"crew"}, `acme\anna [acme\crew]`},
		{true, "", "anna", []string{"crew", `acme\crew`}, `anna [crew default\acme\crew]`},
		{true, "", `acme\anna`, []string{"crew"}, `default\acme\anna [crew]`},
		{true, "acme", "anna", []string{`globex\crew`}, `acme\anna [acme\globex\crew]`},
	} {
		h := identitytest.New(t, func(c *identity.Config) { c.Partitions.On = tt.on })
		err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
			r := person.Record{Partition: tt.partition, Username: tt.username, Groups: tt.groups}
			return person.Records.Put(tx, "p", r, time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range tt.groups {
			g := person.GroupChange{Name: name, Partition: tt.partition, Permissions: []string{fmt.Sprint("of-group-", i)}}
			if _, err := h.Person.AddGroup(t.Context(), g, identitytest.Admin); err != nil {
				t.Fatal(err)
			}
		}
		err = h.Store.View(t.Context(), func(tx storage.Tx) error {
			sub, err := h.Person.Get(tx, "p")
			if got := fmt.Sprint(sub.Username, " ", sub.Groups); err != nil || got != tt.want {
				t.Errorf("Get = %s, %v, want %s", got, err, tt.want)
			}
			permissions, err := h.Person.Permissions(tx, tt.partition, sub.Groups)
			for i, g := range sub.Groups {
				if got, want := permissions[g], fmt.Sprint("of-group-", i); err != nil || len(got) != 1 || got[0] != want {
					t.Errorf("Permissions of %s = %q, %v, want %s", g, got, err, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
