package shared

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Check returns why a node cannot serve from its store and write to it. nil: it can. That a node was silent for long is
// said only where the store itself gives no reason for it.
func Check(ctx context.Context, node *cluster.Node, store storage.Store) error {
	silent := node.Check()
	if silent != nil && !errors.Is(silent, cluster.ErrSilent) {
		return silent
	}
	var err error
	if c, ok := store.(storage.Checker); ok {
		err = c.Check(ctx)
	} else {
		err = store.View(ctx, func(storage.Tx) error { return nil })
	}
	if err == nil {
		err = silent
	}
	return err
}
