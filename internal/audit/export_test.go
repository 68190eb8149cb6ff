package audit

import (
	"context"
	"time"
)

// ListAll lists what Run would list.
func (k *Keeper) ListAll(ctx context.Context, pause time.Duration) error {
	return k.listAll(ctx, pause)
}
