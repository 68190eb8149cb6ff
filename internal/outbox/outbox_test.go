package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var table = storage.NewTable[outbox.Record[string]]("test_outbox")

type harness struct {
	testing.TB
	*outbox.Queue[string]
	store storage.Store
	logs  *observer.ObservedLogs

	mu   sync.Mutex // guards what follows
	time time.Time
	sent []string
	fail error
}

func newHarness(t testing.TB, c outbox.Config) *harness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	h := &harness{TB: t, store: store, time: time.Now().Truncate(time.Second)}
	core, logs := observer.New(zap.InfoLevel)
	h.logs, c.Log = logs, zap.New(core)
	h.Queue = outbox.New(table, store, h.now, c)
	return h
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

func (h *harness) add(ids ...string) {
	h.Helper()
	err := h.store.Update(context.Background(), func(tx storage.Tx) error {
		for _, id := range ids {
			if err := h.Add(tx, id, h.now(), "value of "+id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) send(_ context.Context, id, v string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v != "value of "+id {
		h.Errorf("send(%s) is given %q", id, v)
	}
	if h.fail != nil {
		return h.fail
	}
	h.sent = append(h.sent, id)
	return nil
}

// round runs one round and compares its figures with the expected ones.
func (h *harness) round(sent, failed, waiting int) {
	h.Helper()
	s, f, err := h.Round(context.Background(), 100, h.send)
	n, errCount := h.Waiting(context.Background(), 1000)
	if err := errors.Join(err, errCount); err != nil {
		h.Fatal(err)
	}
	if s != sent || f != failed || n != waiting {
		h.Errorf("Round = %d sent, %d failed, %d waiting, want %d, %d, %d", s, f, n, sent, failed, waiting)
	}
}

func TestSentOnceAndDeleted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{Lane: "a"})
	h.round(0, 0, 0)
	h.add("1", "2", "3")
	h.round(3, 0, 0)
	h.round(0, 0, 0)
	if slices.Sort(h.sent); !slices.Equal(h.sent, []string{"1", "2", "3"}) {
		t.Errorf("sent %v, want each once", h.sent)
	}
}

func TestNothingOfAFailedTransaction(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		if err := h.Add(tx, "1", h.now(), "value of 1"); err != nil {
			return err
		}
		return storage.ErrExists
	})
	if !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	h.round(0, 0, 0)
}

func TestTriedAgainWithGrowingWaits(t *testing.T) {
	t.Parallel()
	tried := 0
	h := newHarness(t, outbox.Config{First: 10 * time.Second, Most: 30 * time.Second, Tries: 5, Tried: func(error) { tried++ }})
	h.add("1")
	h.fail = errors.New("no")
	for _, wait := range []time.Duration{10, 20, 30, 30} {
		h.round(0, 1, 1)
		h.pass(wait*time.Second - time.Millisecond)
		h.round(0, 0, 1) // not yet
		h.pass(time.Millisecond)
	}
	h.round(0, 1, 0) // the fifth try was the last
	if n := h.logs.FilterMessage("not taken; given up").Len(); n != 1 || tried != 5 {
		t.Errorf("%d log lines about giving up, %d tries counted, want 1 and 5", n, tried)
	}
}

func TestOldItemsAreGivenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{MaxAge: time.Hour})
	h.fail = errors.New("no")
	h.add("1")
	h.pass(time.Hour)
	h.round(0, 1, 0)
}

func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	h.add("1")
	h.fail = fmt.Errorf("gone: %w", outbox.ErrRefused)
	h.round(0, 1, 0)
}

func TestALaneHasItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{Lane: "a"})
	other := outbox.New(table, h.store, h.now, outbox.Config{Lane: "b"})
	h.add("1")
	if sent, failed, err := other.Round(t.Context(), 10, h.send); sent != 0 || failed != 0 || err != nil {
		t.Errorf("Round of another lane = %d, %d, %v, want nothing", sent, failed, err)
	}
	h.round(1, 0, 0)
}

// TestWorkersShare runs many workers on one queue: each item is sent once.
func TestWorkersShare(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	const items, workers = 200, 20
	for i := range items {
		h.add(fmt.Sprintf("%03d", i))
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				sent, _, err := h.Round(context.Background(), 3, h.send)
				if err != nil {
					t.Error(err)
				}
				if sent == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(h.sent)
	if len(h.sent) != items || len(slices.Compact(h.sent)) != items {
		t.Errorf("%d sent, want %d, each once", len(h.sent), items)
	}
}

// TestRun sees new items, continues after a failure, and ends.
func TestRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{Every: time.Millisecond, AtOnce: 2})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 10)
	done := make(chan struct{})
	failed := false
	go func() {
		defer close(done)
		h.Run(ctx, func(_ context.Context, id, _ string) error {
			if id == "bad" && !failed {
				failed = true
				h.pass(time.Hour) // its next try is due
				return errors.New("no")
			}
			got <- id
			return nil
		})
	}()
	h.add("1", "2", "3")
	for range 3 {
		<-got
	}
	h.add("bad")
	if id := <-got; id != "bad" {
		t.Errorf("sent %s, want bad", id)
	}
	cancel()
	<-done
}

// looking tells of the looks of Run into a store.
type looking struct {
	storage.Store
	looks chan struct{}
}

func (l *looking) View(ctx context.Context, fn func(storage.Tx) error) error {
	select {
	case l.looks <- struct{}{}:
	default:
	}
	return l.Store.View(ctx, fn)
}

// TestAddedItemIsSentSoon: an item does not wait until Run looks by itself, even if its transaction takes a while.
func TestAddedItemIsSentSoon(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{})
	store := &looking{h.store, make(chan struct{})}
	q := outbox.New(table, store, h.now, outbox.Config{Every: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	got, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		q.Run(ctx, func(_ context.Context, id, _ string) error { got <- id; return nil })
	}()
	// The slow one is first: after another, Run could not look before that is settled, and there is one writer.
	for i, looks := range []int{3, 0, 0} {
		id := string(rune('a' + i))
		err := h.store.Update(ctx, func(tx storage.Tx) error {
			err := q.Add(tx, id, h.now(), "v")
			for range looks { // Run looks, and finds nothing yet
				<-store.looks
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := <-got; s != id {
			t.Errorf("Run sent %q, want %q", s, id)
		}
	}
	stop()
	<-done
}
