package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestSearchByLists: a search by type, client, address and time finds, page by page, what looking through all events
// finds, whatever of them is sealed, listed, collected or was written before there were lists, on several nodes.
func TestSearchByLists(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "all", "some"} {
		t.Run("unlisted: "+before, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			lane := 0
			h.rec.Lane = func() int { return lane }
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
			var all []audit.Event
			fill := func(n int) {
				h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
					for range n {
						lane = random.IntN(2)
						e := audit.Event{
							ID:       fmt.Sprint("e", len(all)),
							Type:     []string{"login.PersonSignedInEvent", "login.SignInFailedEvent", "person.PersonCreatedEvent"}[random.IntN(3)],
							ClientID: []string{"", "shop", "wiki"}[random.IntN(3)], ClientIP: fmt.Sprint("192.0.2.", random.IntN(5)), Occurred: h.time,
						}
						if random.IntN(300) == 0 {
							e.ClientIP, e.Ref = "2001:db8::1", "r-17"
						}
						all = append(all, e)
						h.time = h.time.Add(time.Second)
						if err := h.rec.Append(tx, e); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, n := range []int{1200, 3, 700, 1, 1} {
				fill(n)
				h.must(h.keep.Seal(t.Context()))
			}
			if before != "" {
				h.unlist(before == "all")
			}
			fill(50)
			h.must(h.keep.Seal(t.Context()))
			fill(20)
			check := func(when string) {
				t.Helper()
				start := all[0].Occurred
				h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
					found, _, err := audit.Search{Partition: audit.DefaultPartition, Limit: 100}.Find(tx)
					for _, n := range found {
						if e, err := audit.EventAt(tx, "", n.Place()); err != nil || e.ID != n.ID {
							t.Errorf("the event at %s is %q, %v, want %q", n.Place(), e.ID, err, n.ID)
						}
					}
					return err
				}))
				for _, s := range []audit.Search{
					{Types: []string{"login"}},
					{Types: []string{"LOGIN.SignIn", "person."}},
					{Types: []string{"nothing"}},
					{Client: "shop"},
					{Address: "192.0.2.3"},
					{Address: "2001:db8::1"},
					{Ref: "r-17"},
					{Ref: "r-18"},
					{Client: "wiki", Address: "2001:db8::1"},
					{Types: []string{"login.PersonSignedInEvent"}, Client: "shop", Address: "192.0.2.1"},
					{Client: "shop", Until: start.Add(500 * time.Second)},
					{Client: "shop", Since: start.Add(900 * time.Second)},
					{Until: start.Add(300 * time.Second)},
					{Types: []string{"person"}, Since: start.Add(400 * time.Second), Until: start.Add(700 * time.Second)},
				} {
					s.Partition, s.Limit = audit.DefaultPartition, 37
					var want []string
					for _, e := range all {
						if (s.Ref == "" || e.Ref == s.Ref) && (s.Client == "" || e.ClientID == s.Client) && (s.Address == "" || e.ClientIP == s.Address) &&
							(s.Since.IsZero() || !e.Occurred.Before(s.Since)) && (s.Until.IsZero() || e.Occurred.Before(s.Until)) &&
							(len(s.Types) == 0 || slices.ContainsFunc(s.Types,
								func(p string) bool { return strings.HasPrefix(strings.ToLower(e.Type), strings.ToLower(p)) })) {
							want = append(want, e.ID)
						}
					}
					slices.Reverse(want)
					if got := h.search(s); !slices.Equal(got, want) {
						t.Errorf("%s, %+v: %d events, want %d", when, s, len(got), len(want))
					}
				}
			}
			check("at first")
			ctx, cancel := context.WithCancel(t.Context())
			h.must(h.keep.ListAll(ctx, 0))
			cancel()
			check("all listed")
			h.must(h.keep.Seal(t.Context()))
			release := h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: h.time.Sub(all[1000].Occurred)}})
			_, err := h.keep.Collect(t.Context())
			h.must(err)
			release()
			left := h.search(audit.Search{Partition: audit.DefaultPartition, Limit: 1000})
			all = slices.DeleteFunc(all, func(e audit.Event) bool { return !slices.Contains(left, e.ID) })
			check("collected")
			h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: time.Nanosecond}})
			h.time = h.time.Add(time.Hour)
			_, err = h.keep.Collect(t.Context())
			h.must(err)
			h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
				for rec, err := range tx.Scan(storage.Range{Prefix: []byte("event_posting/")}) {
					h.must(err)
					t.Errorf("%q is left of the lists of collected events", rec.Key)
				}
				return nil
			}))
		})
	}
}

// unlist makes the events so far those of a version without lists: all, or those of the chains' first blocks.
func (h *harness) unlist(whole bool) {
	h.Helper()
	h.must(h.store.Update(context.Background(), func(tx storage.Tx) error {
		var keys [][]byte
		for _, prefix := range []string{"event_posting/", "event_listing/"} {
			for rec, err := range tx.Scan(storage.Range{Prefix: []byte(prefix)}) {
				if err != nil {
					return err
				}
				if prefix == "event_listing/" || whole {
					keys = append(keys, slices.Clone(rec.Key))
				}
			}
		}
		for _, k := range keys {
			if err := tx.Delete(k); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestSearchGoesOn: a search for what hardly ever meets reads a bounded part of the lists, and comes to its end.
func TestSearchGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const rounds = 3000
	want := ""
	for part := range 6 {
		h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
			for n := range rounds {
				e := audit.Event{ID: fmt.Sprint(part, "-", n), Type: created.Type, Occurred: h.time, ClientID: "shop", ClientIP: fmt.Sprint(n % 40)}
				if part == 0 && n == 7 {
					e.ClientIP, want = "rare", e.ID
				}
				if err := h.rec.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		}))
		h.must(h.keep.Seal(t.Context()))
	}
	if got := h.search(audit.Search{Partition: audit.DefaultPartition, Client: "shop", Address: "rare", Limit: 5}); !slices.Equal(got,
		[]string{want}) {
		t.Errorf("found %v, want %s", got, want)
	}
}

// TestSearchOfManyNodes: a search for many types reads something of each node, so it comes to its end, however many
// nodes there are.
func TestSearchOfManyNodes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	lane := 0
	h.rec.Lane = func() int { return lane }
	const nodes, types, blocks = 12, 60, 33
	want := 0
	for range blocks {
		h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
			for lane = range nodes {
				for n := range types {
					want++
					if err := h.rec.Append(tx, audit.Event{ID: fmt.Sprint("e", want), Type: fmt.Sprint("kind.", n), Occurred: h.time}); err != nil {
						return err
					}
				}
			}
			return nil
		}))
		h.time = h.time.Add(time.Second)
		h.must(h.keep.Seal(t.Context()))
	}
	s, got := audit.Search{Partition: audit.DefaultPartition, Types: []string{"kind"}, Limit: 1000}, 0
	for range want {
		var found []audit.Numbered
		h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
			found, s.Behind, err = s.Find(tx)
			return err
		}))
		if got += len(found); len(s.Behind) == 0 {
			break
		}
	}
	if got != want {
		t.Errorf("found %d events, want %d", got, want)
	}
}
