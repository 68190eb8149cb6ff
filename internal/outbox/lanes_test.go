package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// receivers take items of lanes, except those that are down.
type receivers struct {
	mu    sync.Mutex // guards what follows
	taken []string
	tried map[string]int
	down  map[string]bool
}

func (r *receivers) take(_ context.Context, lane, id string, v string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried == nil {
		r.tried = map[string]int{}
	}
	r.tried[lane]++
	if r.down[lane] {
		return errors.New("down")
	}
	r.taken = append(r.taken, lane+" "+id+" "+v)
	return nil
}

func TestLanes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	lanes := outbox.NewLanes(table, h.store, h.now, outbox.Config{AtOnce: 2, Tries: 3}, 2)
	names := []string{"a", "b", "down", "odd \x00 \x00\x01 name", "\xff"}
	at := h.now()
	if err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		for _, name := range names {
			for i := range 5 {
				if err := lanes.Add(tx, name, fmt.Sprint(i), at, "v"); err != nil {
					return err
				}
			}
		}
		return lanes.Add(tx, "later", "0", at.Add(time.Minute), "v")
	}); err != nil {
		t.Fatal(err)
	}
	r := &receivers{down: map[string]bool{"down": true}}
	send := func() {
		t.Helper()
		if err := lanes.Send(t.Context(), r.take); err != nil {
			t.Fatalf("Send = %v", err)
		}
	}
	send()
	var want []string
	for _, name := range names {
		if name != "down" {
			for i := range 5 {
				want = append(want, fmt.Sprintf("%s %d v", name, i))
			}
		}
	}
	slices.Sort(r.taken)
	slices.Sort(want)
	if !slices.Equal(r.taken, want) {
		t.Errorf("taken = %q, want %q", r.taken, want)
	}
	if r.tried["down"] != 2 {
		t.Errorf("a receiver that is down was tried with %d items, want the 2 of one round", r.tried["down"])
	}
	h.pass(time.Minute)
	send()
	if got := r.tried["later"]; got != 1 {
		t.Errorf("an item that has become due was tried %d times, want once", got)
	}
	r.down = nil
	for range 4 {
		h.pass(time.Hour)
		send()
	}
	r.taken = slices.DeleteFunc(r.taken, func(s string) bool { return s[:4] != "down" })
	if len(r.taken) != 5 {
		t.Errorf("after the receiver has come back it took %q, want all 5", r.taken)
	}
}

func TestLanesRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	lanes := outbox.NewLanes(table, h.store, h.now, outbox.Config{Every: time.Hour}, 2)
	ctx, stop := context.WithCancel(t.Context())
	got, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		lanes.Run(ctx, func(_ context.Context, lane, id, v string) error {
			got <- lane + id + v
			return nil
		})
	}()
	for range 3 {
		if err := h.store.Update(ctx, func(tx storage.Tx) error { return lanes.Add(tx, "l", "i", h.now(), "v") }); err != nil {
			t.Fatal(err)
		}
		lanes.Wake()
		if s := <-got; s != "liv" {
			t.Errorf("Run sent %q", s)
		}
	}
	stop()
	<-done
}

func TestLanesFailure(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	lanes := outbox.NewLanes(table, h.store, h.now, outbox.Config{}, 2)
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lanes.Send(t.Context(), (&receivers{}).take); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Send without storage = %v, want %v", err, storage.ErrUnavailable)
	}
}
