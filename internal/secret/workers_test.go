package secret

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret/argon2id"
)

// TestWorkersAreAsManyAsComputations: a worker that has finished takes the next computation with its memory, and more
// than run at once are never started.
func TestWorkersAreAsManyAsComputations(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 64, Iterations: 1, Concurrency: 2})
	h.workers.idle = time.Hour
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := h.Waste(t.Context(), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(h.workers.free); n < 1 || n > 2 {
		t.Errorf("%d workers after 50 computations, 2 at once, want at most 2", n)
	}
	for _, k := range h.workers.free {
		if k.memory.KiB() != 64 {
			t.Errorf("a worker keeps %d KiB, want 64", k.memory.KiB())
		}
	}
}

// TestCostlyImportedHashLeavesNoMemoryBehind: what an imported hash needs beyond our own cost is given back at once.
func TestCostlyImportedHashLeavesNoMemoryBehind(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1})
	h.workers.idle = time.Hour
	phc, err := NewHasher(HashCost{MemoryKiB: 1 << 10, Iterations: 1}).Hash(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if ok, stale, err := h.Verify(t.Context(), phc, "x"); !ok || !stale || err != nil {
		t.Fatalf("Verify = %t, %t, %v, want true, true", ok, stale, err)
	}
	if kept := h.workers.free[0].memory.KiB(); kept != 0 {
		t.Errorf("%d KiB are kept, want 0", kept)
	}
}

// TestWorkerEndsWithoutWork: neither thread nor memory stay after the last sign-in.
func TestWorkerEndsWithoutWork(t *testing.T) {
	t.Parallel()
	h := NewHasher(cheap)
	h.workers.idle = time.Millisecond
	ended := make(chan struct{})
	k := &worker{of: h.workers, jobs: make(chan job)}
	h.workers.give(k)
	go func() {
		k.work()
		close(ended)
	}()
	if err := h.Waste(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	<-ended
	await(func() bool {
		h.workers.mu.Lock()
		defer h.workers.mu.Unlock()
		return len(h.workers.free) == 0
	})
	if err := h.Waste(t.Context(), "x"); err != nil {
		t.Errorf("Waste after that: %v, want a new worker", err)
	}
}

// TestCanceledComputationStops: a computation whose context ends gives its slot back without a result.
func TestCanceledComputationStops(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1})
	ctx := &countedContext{Context: t.Context(), live: 4}
	phc := "$argon2id$v=19$m=65536,t=16,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	if ok, stale, err := h.Verify(ctx, phc, "x"); ok || stale || !errors.Is(err, context.Canceled) {
		t.Errorf("Verify whose caller goes during it = %t, %t, %v, want context.Canceled", ok, stale, err)
	}
	if h.queue.taken != 0 {
		t.Errorf("%d slots are taken after it, want 0", h.queue.taken)
	}
}

// countedContext ends after it was asked so many times.
type countedContext struct {
	context.Context
	live int
}

func (c *countedContext) Err() error {
	if c.live--; c.live < 0 {
		return context.Canceled
	}
	return nil
}

// TestPanicOfAComputationReachesItsCaller: it ends one request and not the process, as a panic of a handler does.
func TestPanicOfAComputationReachesItsCaller(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1})
	func() {
		defer func() {
			if p := recover(); p != "broken" {
				t.Errorf("recovered %v, want broken", p)
			}
		}()
		_ = h.compute(t.Context(), func(*argon2id.Memory) { panic("broken") })
	}()
	if err := h.Waste(t.Context(), "x"); err != nil || h.queue.taken != 0 {
		t.Errorf("Waste after a panic: %v, %d slots taken, want nil, 0", err, h.queue.taken)
	}
}
