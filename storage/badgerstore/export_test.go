package badgerstore

import "context"

// Sweep removes the records whose expiry has passed.
func (l *Lasting) Sweep(ctx context.Context) (int, error) { return l.store.Sweep(ctx) }
