package person_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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

// innerCall is the key under which a context has its value in one of two calls.
type innerCall struct{}

// pausingStore calls a function before each Update, with the context of the Update.
type pausingStore struct {
	storage.Store
	before func(ctx context.Context)
}

// Update is Store.Update of this store.
func (s *pausingStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	s.before(ctx)
	return s.Store.Update(ctx, fn)
}

// TestChangesOfAGroupAtOnce: while a call renames or removes a group, another one renames it, and its members do not
// have that name yet when the first one goes on. No member keeps an old name, and others can take the old names.
func TestChangesOfAGroupAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		members      int
		outer, inner string // the new name; empty: the group is removed
		at           int    // the Update of the outer call before which the inner one changes the group
		want         []string
	}{
		{"renamed and renamed", 2, "troop", "team", 2, []string{"troop"}},
		{"removed and renamed", 2, "", "team", 2, nil},
		{"renamed in chunks and renamed", 250, "team", "troop", 4, []string{"troop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			for i := range c.members {
				add(h, fmt.Sprint("member", i), "crew")
			}
			id := groupID(h, "crew")
			changed := false
			call := func(ctx context.Context, name string) error {
				if name == "" {
					return h.Person.RemoveGroup(ctx, id, identitytest.Admin, nil)
				}
				_, err := h.Person.UpdateGroup(ctx, id, identitytest.Admin, func(_ storage.Tx, _ person.Group, to *person.GroupChange) error {
					to.Name, changed = name, changed || ctx.Value(innerCall{}) != nil
					return nil
				})
				return err
			}
			before, updates, paused := h.Store.Store, 0, false
			innerPaused, outerEnded, innerEnded := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			h.Store.Store = &pausingStore{before, func(ctx context.Context) {
				switch inner := ctx.Value(innerCall{}) != nil; {
				case inner && changed && !paused:
					paused = true
					close(innerPaused)
					<-outerEnded
				case !inner:
					if updates++; updates == c.at {
						go func() { innerEnded <- call(context.WithValue(t.Context(), innerCall{}, true), c.inner) }()
						<-innerPaused
					}
				}
			}}
			if err := call(t.Context(), c.outer); err != nil {
				t.Error(err)
			}
			close(outerEnded)
			if err := <-innerEnded; err != nil && !errors.Is(err, person.ErrNoGroup) {
				t.Error(err)
			}
			h.Store.Store = before
			for i := range c.members {
				if got := groupsOf(h, fmt.Sprint("member", i)); !slices.Equal(got, c.want) {
					t.Fatalf("groups of member %d = %q, want %q", i, got, c.want)
				}
			}
			for _, name := range []string{"crew", "team", "troop"} {
				if slices.Contains(c.want, name) {
					continue
				}
				if _, err := h.Person.AddGroup(t.Context(), person.GroupChange{Name: name}, identitytest.Admin); err != nil {
					t.Errorf("a new group %s: %v", name, err)
				}
			}
		})
	}
}

// renamedInPart renames the group crew to team. The storage takes no writes before all members have the new name. It
// returns one who has it.
func renamedInPart(h *identitytest.Harness) person.NewPerson {
	h.T.Helper()
	const members = 250
	for i := range members {
		add(h, fmt.Sprint("member", i), "crew")
	}
	id := groupID(h, "crew")
	restore := h.HangUpBefore(3, func() { h.Store.ReadOnly.Store(true) })
	_, err := h.Person.UpdateGroup(h.T.Context(), id, identitytest.Admin, func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
		c.Name = "team"
		return nil
	})
	if !errors.Is(err, storage.ErrFull) {
		h.T.Fatal(err)
	}
	restore()
	h.Store.ReadOnly.Store(false)
	for i := range members {
		if name := fmt.Sprint("member", i); slices.Equal(groupsOf(h, name), []string{"team"}) {
			return person.NewPerson{Username: name}
		}
	}
	h.T.Fatal("no member has the new name")
	return person.NewPerson{}
}

// TestGroupChangeWithoutItsCaller: a caller hangs up while the members of a group follow its change, or the storage
// takes no more writes. The change comes to its end all the same.
func TestGroupChangeWithoutItsCaller(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		removed bool
		failed  bool // the storage
		want    []string
	}{
		{"renamed", false, false, []string{"team"}},
		{"removed", true, false, nil},
		{"renamed on a full storage", false, true, []string{"team"}},
		{"removed on a full storage", true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			const members = 250
			for i := range members {
				add(h, fmt.Sprint("member", i), "crew")
			}
			id := groupID(h, "crew")
			ctx, hangUp := context.WithCancel(t.Context())
			restore := h.HangUpBefore(3, func() {
				if c.failed {
					h.Store.ReadOnly.Store(true)
				} else {
					hangUp()
				}
			})
			var err error
			if c.removed {
				err = h.Person.RemoveGroup(ctx, id, identitytest.Admin, nil)
			} else {
				_, err = h.Person.UpdateGroup(ctx, id, identitytest.Admin, func(_ storage.Tx, _ person.Group, to *person.GroupChange) error {
					to.Name = "team"
					return nil
				})
			}
			if (err != nil) != c.failed {
				t.Error(err)
			}
			restore()
			h.Store.ReadOnly.Store(false)
			h.Clock.Advance(time.Hour)
			for _, want := range []int{1, 0} {
				if !c.failed {
					want = 0
				}
				if n, err := h.Person.FinishGroups(t.Context()); n != want || err != nil {
					t.Errorf("%d groups finished, %v, want %d", n, err, want)
				}
			}
			for i := range members {
				if got := groupsOf(h, fmt.Sprint("member", i)); !slices.Equal(got, c.want) {
					t.Fatalf("groups of member %d = %q, want %q", i, got, c.want)
				}
			}
			if _, err := h.Person.AddGroup(t.Context(), person.GroupChange{Name: "crew"}, identitytest.Admin); err != nil {
				t.Errorf("a new group of the old name: %v", err)
			}
		})
	}
}

// add adds a person who is in these groups.
func add(h *identitytest.Harness, username string, groups ...string) {
	h.T.Helper()
	if _, err := h.Person.AddPerson(h.T.Context(), person.NewPerson{Username: username, Groups: groups}, identitytest.Admin); err != nil {
		h.T.Fatal(err)
	}
}

// groupID returns the id of a group of the default partition.
func groupID(h *identitytest.Harness, name string) (id string) {
	h.T.Helper()
	err := h.Store.View(h.T.Context(), func(tx storage.Tx) (err error) {
		id, err = h.Person.GroupID(tx, "", name)
		return err
	})
	if err != nil || id == "" {
		h.T.Fatalf("group %s = %q, %v", name, id, err)
	}
	return id
}
