package storage

import "context"

type guardKey struct{}

// Guarded returns a context whose every Update asks check first, in its own transaction, and keeps nothing if that is
// an error, which it returns. So work that only the holder of a lease may do cannot write once the lease is another's,
// however long the process was paused, and whichever code it calls. check is like the function of an Update.
func Guarded(ctx context.Context, check func(Tx) error) context.Context {
	if outer, ok := ctx.Value(guardKey{}).(func(Tx) error); ok {
		inner := check
		check = func(tx Tx) error {
			if err := outer(tx); err != nil {
				return err
			}
			return inner(tx)
		}
	}
	return context.WithValue(ctx, guardKey{}, check)
}

// Guard returns what an engine runs for an Update: fn behind the checks of its context.
func Guard(ctx context.Context, fn func(Tx) error) func(Tx) error {
	check, ok := ctx.Value(guardKey{}).(func(Tx) error)
	if !ok {
		return fn
	}
	return func(tx Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		return fn(tx)
	}
}
