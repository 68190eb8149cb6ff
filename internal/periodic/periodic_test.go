package periodic_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
)

// TestEvery: an error that lasts is logged once, and again after a success or as another one; nothing is logged of the
// work that the end of the context has stopped.
func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		ctx, cancel := context.WithCancel(t.Context())
		full, gone := errors.New("full"), errors.New("gone")
		results := []error{full, full, nil, full, gone, gone, errors.New("stopped")}
		began, calls := time.Now(), 0
		periodic.Every(ctx, time.Minute, zap.New(core), "not kept; retrying", func() error {
			err := results[calls]
			if calls++; calls == len(results) {
				cancel()
			}
			return err
		})
		if took := time.Since(began); calls != len(results) || took != time.Duration(calls)*time.Minute {
			t.Errorf("%d calls in %s, want %d, one a minute", calls, took, len(results))
		}
		var said []string
		for _, e := range logs.All() {
			said = append(said, e.Message+": "+e.ContextMap()["error"].(string)) //nolint:forcetypeassert // zap.Error writes a text
		}
		if want := []string{"not kept; retrying: full", "not kept; retrying: full", "not kept; retrying: gone"}; !slices.Equal(said, want) {
			t.Errorf("logged %q, want %q", said, want)
		}
	})
}

// TestWrite: what waits is written once in each interval, and once more at the end, when the context is over.
func TestWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		calls := 0
		periodic.Write(ctx, time.Minute, time.Second, func(ctx context.Context) {
			if calls++; ctx.Err() != nil {
				t.Errorf("call %d cannot write: %v", calls, ctx.Err())
			}
		})
		if calls != 3 {
			t.Errorf("%d calls in 150 seconds, want 3", calls)
		}
	})
}
