package audit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// search returns the ids of all parts of a search, one after the other.
func (h *harness) search(s audit.Search) (ids []string) {
	h.Helper()
	for {
		var found []audit.Numbered
		var next audit.Cursor
		h.must(h.store.View(context.Background(), func(tx storage.Tx) (err error) {
			found, next, err = s.Find(tx)
			return err
		}))
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		if len(next) == 0 || s.Following && len(found) == 0 {
			return ids
		}
		s.Behind = next
	}
}

// TestSearchOfAPerson: a search for a person finds, in every part and direction, what a search of the whole chain finds
// of them, from wherever it begins.
func TestSearchOfAPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var all []audit.Event
	for n := range 60 {
		person, actor := []string{"ada", "bob", "ada", ""}[n%4], []string{"ops", "ada", "", "shop", "bob"}[n%5]
		all = append(all, h.add(created, person, actor, func(e *audit.Event) {
			if n%7 == 0 && person != "" {
				e.Partition = "acme"
			}
		}))
	}
	for _, partition := range []string{"", "acme"} {
		for _, actor := range []string{"", "ops", "ada"} {
			for _, following := range []bool{false, true} {
				for behind := range uint64(30) {
					s := audit.Search{Partition: audit.DefaultPartition, Person: "ada", Actor: actor, Following: following, Limit: 3}
					if behind > 0 {
						s.Behind = audit.Cursor{behind}
					}
					if partition != "" {
						s.Partition = partition
					}
					var want []string
					number := uint64(0)
					for _, e := range all {
						if e.Partition != s.Partition && (e.Partition != "" || s.Partition != audit.DefaultPartition) {
							continue
						}
						number++
						inRange := behind == 0 || following && number > behind || !following && number < behind
						if inRange && e.PersonID == "ada" && (actor == "" || e.Actor == actor) {
							want = append(want, e.ID)
						}
					}
					if !following {
						slices.Reverse(want)
					}
					if got := h.search(s); !slices.Equal(got, want) {
						t.Errorf("%+v = %v, want %v", s, got, want)
					}
				}
			}
		}
	}
}

// TestSearchOfAPersonBehindManyOthers: what happened to a person long ago is in the first part of the search, however
// much has happened to others since.
func TestSearchOfAPersonBehindManyOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.add(created, "ada", "ops")
	for part := range 21 {
		h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
			for n := range 1000 {
				e := audit.Event{ID: fmt.Sprint(part, "-", n), Type: created.Type, PersonID: "bob", Occurred: h.time}
				if err := h.rec.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	s := audit.Search{Partition: audit.DefaultPartition, Person: "ada", Limit: 10}
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		found, next, err := s.Find(tx)
		if len(found) != 1 || found[0].ID != first.ID || len(next) != 0 {
			t.Errorf("the first part has %d events and goes on at %v, want the one of ada and the end", len(found), next)
		}
		return err
	}))
}
