package event_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// TestVerifyNamesEachChainOnce: a chain is verified once, even when the engine reads its name a second time.
func TestVerifyNamesEachChainOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add(created, "p1", "admin")
	list, err := event.Verify(t.Context(), storagetest.Twice(h.store))
	if err != nil || len(list) != 1 {
		t.Errorf("Verify names %d chains, %v, want 1", len(list), err)
	}
}
