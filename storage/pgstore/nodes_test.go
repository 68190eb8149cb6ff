package pgstore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestTwoNodes: what two processes do to the same records at the same time is as if they had taken turns.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	h, schema := newStores(server.URL(pgtest.Database)), newSchema()
	nodes := []storage.Store{h.open(t, schema), h.open(t, schema)}
	if err := nodes[0].Update(t.Context(),
		func(tx storage.Tx) error { return tx.Put([]byte("n"), make([]byte, 8), time.Time{}) }); err != nil {
		t.Fatal(err)
	}
	const each, rounds = 4, 15
	var all sync.WaitGroup
	var counted, spent, seated atomic.Int64
	used, full := errors.New("used"), errors.New("full")
	for _, s := range nodes {
		for i := range each {
			all.Go(func() {
				for round := range rounds {
					if err := s.Update(t.Context(), count); err == nil {
						counted.Add(1)
					} else if !errors.Is(err, storage.ErrUnavailable) {
						t.Errorf("count = %v", err)
					}
					err := s.Update(t.Context(), func(tx storage.Tx) error { // a code is spent once
						if err := tx.Create(fmt.Appendf(nil, "code/%d", round), nil, time.Time{}); err != nil {
							return used
						}
						return nil
					})
					if err == nil {
						spent.Add(1)
					}
					err = s.Update(t.Context(), func(tx storage.Tx) error { // three seats, counted by a scan
						n := 0
						for _, err := range tx.Scan(storage.Range{Prefix: fmt.Appendf(nil, "seat/%02d/", round)}) {
							if err != nil {
								return err
							}
							n++
						}
						if n == 3 {
							return full
						}
						return tx.Create(fmt.Appendf(nil, "seat/%02d/%d/%p", round, i, s), nil, time.Time{})
					})
					if err == nil {
						seated.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	for _, s := range nodes {
		if n := counted.Load(); int64(number(t, s)) != n { //nolint:gosec // small
			t.Errorf("%d counts were answered, and the count is %d", n, number(t, s))
		}
	}
	// A conflict that never ends is an answer too, of nothing done; so there can be fewer, and never more.
	if n := spent.Load(); n > rounds {
		t.Errorf("%d codes were spent %d times", rounds, n)
	}
	if n := seated.Load(); n > 3*rounds {
		t.Errorf("%d seats were taken of %d", n, 3*rounds)
	}
	if counted.Load() == 0 || spent.Load() == 0 || seated.Load() == 0 {
		t.Error("nothing has succeeded")
	}
}

// TestWhatWasAnsweredIsSeen: attack: a revocation was answered by one node, and another node, which is busy, decides by
// the records of a moment before.
func TestWhatWasAnsweredIsSeen(t *testing.T) {
	t.Parallel()
	h, schema := newStores(server.URL(pgtest.Database)), newSchema()
	here, there := h.open(t, schema), h.open(t, schema)
	key := []byte("revoked")
	began, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	all.Go(func() {
		err := there.Update(t.Context(), func(tx storage.Tx) error {
			if _, err := tx.Get([]byte("other")); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			once.Do(func() { close(began) })
			<-goOn
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-began
	if err := here.Update(t.Context(), func(tx storage.Tx) error { return tx.Create(key, nil, time.Time{}) }); err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		err := there.Update(t.Context(), func(tx storage.Tx) error {
			_, err := tx.Get(key)
			return err
		})
		if err != nil {
			t.Errorf("what another node has answered before = %v", err)
		}
	})
	for h.bare[there].Waiting() == 0 {
		runtime.Gosched()
	}
	close(goOn)
	all.Wait()
}

// number returns the count.
func number(t *testing.T, s storage.Store) (n uint64) {
	t.Helper()
	err := s.View(t.Context(), func(tx storage.Tx) error {
		v, err := tx.Get([]byte("n"))
		if err == nil {
			n = binary.BigEndian.Uint64(v)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return n
}
