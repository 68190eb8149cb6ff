package eventtest_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
)

// read returns the ids that a search finds in parts of three, and where it goes on.
func (h *nodes) read(s audit.Search) (ids []string, next audit.Cursor) {
	h.Helper()
	s.Partition, s.Limit = audit.DefaultPartition, 3
	for {
		var found []audit.Numbered
		h.view(func(tx storage.Tx) (err error) {
			found, next, err = s.Find(tx)
			return err
		})
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		if len(found) < s.Limit {
			return ids, next
		}
		text, err := audit.ParseCursor(next.String()) // as the API hands it out and takes it
		h.must(err)
		s.Behind = text
	}
}

// TestEventsOfAllNodesInOneList: lists have the events of all nodes in the order of their times, forwards and back, of
// one person and of all, whatever part is asked for.
func TestEventsOfAllNodesInOneList(t *testing.T) {
	onBoth(t, func(h *nodes) {
		var all, ofAnn []string
		for n := range 31 {
			person := []string{"ann", "bob", ""}[n*n%3]
			id := h.add([]int{0, 0, 1, 2, 1}[n%5], person)
			if all = append(all, id); person == "ann" {
				ofAnn = append(ofAnn, id)
			}
			if n == 20 {
				h.seal()
			}
		}
		for _, person := range []string{"", "ann"} {
			want := all
			if person != "" {
				want = ofAnn
			}
			if got, _ := h.read(audit.Search{Person: person, Following: true}); !slices.Equal(got, want) {
				h.Errorf("forwards, of %q: %v, want %v", person, got, want)
			}
			want = slices.Clone(want)
			slices.Reverse(want)
			if got, next := h.read(audit.Search{Person: person}); !slices.Equal(got, want) || len(next) > 0 {
				h.Errorf("back, of %q: %v and on from %v, want %v", person, got, next, want)
			}
		}
		h.view(func(tx storage.Tx) error {
			page, total, err := audit.Find(tx, audit.Query{Person: "ann", Limit: 4})
			if err != nil || total != len(ofAnn) || len(page) != 4 || page[0].ID != ofAnn[len(ofAnn)-1] {
				h.Errorf("Find = %d events, total %d, %v, want the last of %d", len(page), total, err, len(ofAnn))
			}
			newest, err := audit.Newest(tx)
			if !newest.Equal(h.time.Add(-time.Second)) {
				h.Errorf("Newest = %v, %v, want %v", newest, err, h.time.Add(-time.Second))
			}
			return nil
		})
	})
}

// TestAReaderMissesNoEventThatComesLate: someone follows the events. A node whose transaction took long, or whose clock
// is behind, stores an event that is older than those that were read already: it is still found, once.
func TestAReaderMissesNoEventThatComesLate(t *testing.T) {
	t.Parallel()
	for _, person := range []string{"", "ann"} {
		t.Run("of "+person, func(t *testing.T) {
			onBoth(t, func(h *nodes) {
				h.add(0, "ann")
				h.add(1, "ann")
				s := audit.Search{Partition: audit.DefaultPartition, Person: person, Following: true}
				var from audit.Cursor
				h.view(func(tx storage.Tx) (err error) {
					from, err = s.Last(tx)
					return err
				})
				late, err := h.rec[1].New(created, audit.Self)
				h.must(err)
				late.PersonID = "ann"
				var got []string
				follow := func(want ...string) {
					h.Helper()
					s.Behind = from
					if got, from = h.read(s); !slices.Equal(got, want) {
						h.Errorf("%v are new, want %v", got, want)
					}
				}
				follow()
				h.time = h.time.Add(time.Minute)
				first := h.add(0, "ann")
				follow(first)
				second := h.add(2, "ann") // a node that has not been heard of before
				h.update(func(tx storage.Tx) error { return h.rec[1].Append(tx, late) })
				if person == "" { // by time
					follow(late.ID, second)
				} else { // as they were stored
					follow(second, late.ID)
				}
				follow()
			})
		})
	}
}

// TestCursorsOfBefore: a number that was handed out while there was one chain leads to the same place now: what came
// later is behind it for who follows, and is not there for who reads back.
func TestCursorsOfBefore(t *testing.T) {
	onBoth(t, func(h *nodes) {
		var old, young []string
		for range 4 {
			old = append(old, h.add(0, "ann"))
		}
		for n := range 4 {
			young = append(young, h.add(n%3, "ann"))
		}
		back := []string{old[1], old[0]}
		for _, person := range []string{"", "ann"} {
			cursor, err := audit.ParseCursor("3")
			h.must(err)
			if got, _ := h.read(audit.Search{Person: person, Behind: cursor}); !slices.Equal(got, back) {
				h.Errorf("back from 3, of %q: %v, want %v", person, got, back)
			}
			want := append([]string{old[3]}, young...)
			if got, _ := h.read(audit.Search{Person: person, Behind: cursor, Following: true}); !slices.Equal(got, want) {
				h.Errorf("on from 3, of %q: %v, want %v", person, got, want)
			}
		}
	})
}

// TestHandlersHearOfEventsInOrder: what Caddy's events app is told comes in the order of time, whatever node it is
// from.
func TestHandlersHearOfEventsInOrder(t *testing.T) {
	onBoth(t, func(h *nodes) {
		var told, want []string
		defer h.keep.Use(audit.Settings{Tell: func(e audit.Event) { told = append(told, e.ID) }})()
		for range 2 {
			for n := range 10 {
				want = append(want, h.add(n*n%3, "ann"))
			}
			h.seal()
		}
		if !slices.Equal(told, want) {
			h.Errorf("told %v, want %v", told, want)
		}
	})
}

// TestEventsOfAllNodesEnd: the retention is that of all nodes, also of one that is gone, and lists stay whole.
func TestEventsOfAllNodesEnd(t *testing.T) {
	onBoth(t, func(h *nodes) {
		for n := range 9 {
			h.add(n%3, "ann")
		}
		h.seal()
		h.seal()
		h.time = h.time.Add(time.Hour)
		last := h.add(0, "ann")
		h.seal()
		h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: 30 * time.Minute}})
		if n, err := h.keep.Collect(context.Background()); n != 9 || err != nil {
			h.Errorf("Collect = %d, %v, want the 9 old ones", n, err)
		}
		if got, _ := h.read(audit.Search{Person: "ann"}); !slices.Equal(got, []string{last}) {
			h.Errorf("left: %v, want %s", got, last)
		}
		h.add(1, "ann")
		h.seal()
		h.seal()
		if wrong, _ := h.verify(); len(wrong) > 0 {
			h.Errorf("Verify finds %q", wrong)
		}
	})
}

// BenchmarkTwoNodes has two nodes write events, 32 writers on each, about people that are known: in one chain, and each
// in its own.
func BenchmarkTwoNodes(b *testing.B) {
	for name, kind := range map[string]audit.Type{"tokens": issued, "persons": created} {
		for chains, apart := range map[string]bool{"one chain": false, "a chain each": true} {
			b.Run(name+", "+chains, func(b *testing.B) { twoNodes(b, kind, apart) })
		}
	}
}

const (
	people = 20_000
	// stride is between one person and the next, so those of one moment were not added together.
	stride = 7919
	// unstride undoes it.
	unstride = 17679
)

func twoNodes(b *testing.B, kind audit.Type, apart bool) {
	schema := newSchema()
	stores := [2]*pgstore.Store{database(b, schema), database(b, schema)}
	var recs [2]*audit.Recorder
	for lane := range recs {
		recs[lane] = &audit.Recorder{Random: rand.Reader, Now: time.Now}
		if apart {
			recs[lane].Lane = func() int { return lane }
		}
	}
	appendOne := func(tx storage.Tx, node, n int) error {
		e, err := recs[node].New(kind, audit.Self)
		if !kind.Brief {
			sum := sha256.Sum256(fmt.Append(nil, n*stride%people))
			e.PersonID = hex.EncodeToString(sum[:16])
		}
		return errors.Join(err, recs[node].Append(tx, e))
	}
	for n := 0; n < people; n += 500 {
		err := stores[0].Update(b.Context(), func(tx storage.Tx) error {
			for i := range 500 {
				if err := appendOne(tx, i%2, (n+i)*unstride); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	var again, commits [2]uint64
	count := func() (a, c uint64) {
		for _, s := range stores {
			is := s.Stats()
			a, c = a+is.Retries["update"], c+is.Commits
		}
		return a, c
	}
	again[0], commits[0] = count()
	var all sync.WaitGroup
	var done, refused atomic.Int64
	b.ResetTimer()
	for node, s := range stores {
		for range 32 {
			all.Go(func() {
				for {
					n := int(done.Add(1))
					if n > b.N {
						return
					}
					err := s.Update(context.Background(), func(tx storage.Tx) error { return appendOne(tx, node, n) })
					if errors.Is(err, storage.ErrUnavailable) { // after ten tries
						refused.Add(1)
					} else if err != nil {
						b.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	b.StopTimer()
	again[1], commits[1] = count()
	b.ReportMetric(100*float64(again[1]-again[0])/float64(again[1]-again[0]+commits[1]-commits[0]), "%again")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
