package outbox_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pausing is a storage of a node that is paused right after its next commit.
type pausing struct {
	storage.Store

	meanwhile func()
}

func (p *pausing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := p.Store.Update(ctx, fn)
	if f := p.meanwhile; f != nil {
		p.meanwhile = nil
		f()
	}
	return err
}

// TestPausedNodeSendsNothing: two nodes share a storage. One claims an item and is paused, so long that the other one
// sends it. When it goes on it neither sends the item again nor removes another's claim.
func TestPausedNodeSendsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{First: 10 * time.Second})
	h.add("1")
	var byPaused []string
	store := &pausing{Store: h.store, meanwhile: func() {
		h.round(0, 0, 1) // claimed
		h.pass(10 * time.Second)
		h.round(1, 0, 0)
	}}
	paused := outbox.New(table, store, h.now, outbox.Config{First: 10 * time.Second})
	round := func() {
		t.Helper()
		sent, failed, err := paused.Round(t.Context(), 100, func(_ context.Context, id, _ string) error {
			byPaused = append(byPaused, id)
			return nil
		})
		if sent != 0 || failed != 0 || err != nil {
			t.Errorf("Round = %d sent, %d failed, %v, want nothing", sent, failed, err)
		}
	}
	round()
	round()
	if len(byPaused) != 0 || !slices.Equal(h.sent, []string{"1"}) {
		t.Errorf("the paused node has sent %v, the other one %v, want that the other one has sent 1 once", byPaused, h.sent)
	}
}
