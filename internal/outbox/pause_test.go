package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
)

// TestItemsThatHoldUpOthers: what the receiver does not take of a single item is no reason to wait with the next one,
// nor is an outage that is over.
func TestItemsThatHoldUpOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		problem error // with each item before
		pass    time.Duration
	}{
		"attack 5685: items that are refused, or too late": {fmt.Errorf("no such recipient: %w", outbox.ErrRefused), 0},
		"attack 5685: items that are put off":              {fmt.Errorf("the recipient is busy: %w", outbox.ErrAlone), 0},
		"an outage, after which nothing waits":             {errors.New("down"), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newRunning(t)
				sent := make(chan time.Time, 1)
				h.run(func(id string) error {
					if strings.HasPrefix(id, "an earlier") {
						return tt.problem
					}
					sent <- time.Now()
					return nil
				})
				<-time.After(tt.pass)
				h.time = time.Now()
				h.add("the next")
				if took := (<-sent).Sub(h.time); took > time.Second {
					t.Errorf("the next item is sent after %s, want at once", took)
				}
			})
		})
	}
}

// TestOutageIsNotMadeWorse: a receiver that takes nothing is asked with one item at a time, more and more seldom.
func TestOutageIsNotMadeWorse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newRunning(t)
		var tries atomic.Int64
		h.run(func(string) error {
			tries.Add(1)
			return errors.New("down")
		})
		<-time.After(time.Minute)
		if n := tries.Load(); n < 4 || n > 10 {
			t.Errorf("%d tries in a minute, want the 4 of a round and then a few", n)
		}
	})
}

// newRunning has 20 earlier items in a queue whose clock is that of the test's bubble.
func newRunning(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t, outbox.Config{})
	h.Queue = outbox.New(table, h.store, time.Now, outbox.Config{Tries: 3, AtOnce: 4})
	for i := range 20 {
		h.add(fmt.Sprint("an earlier ", i))
	}
	return h
}

// run sends until the test ends.
func (h *harness) run(send func(id string) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx, func(_ context.Context, id, _ string) error { return send(id) })
	}()
	h.Cleanup(func() {
		stop()
		<-done
	})
}
