package caddymodule

import (
	"context"

	"github.com/gatehouse-id/gatehouse/caddymodule/core"
)

// OpenStores counts the stores that are open in this process, and the configurations that use them.
func OpenStores() (open, users int) {
	core.Stores.Range(func(key, _ any) bool {
		open++
		n, _ := core.Stores.References(key)
		users += n
		return true
	})
	return open, users
}

// CollectEvents seals and collects the events of every open store now, and returns how many were collected.
func CollectEvents(ctx context.Context) (removed int, err error) {
	core.Stores.Range(func(_, value any) bool {
		k := value.(*core.OpenStore).Keeper
		var n int
		if err = k.Seal(ctx); err == nil {
			n, err = k.Collect(ctx)
		}
		removed += n
		return err == nil
	})
	return removed, err
}
