package storagetest

import (
	"context"
	"sync/atomic"

	"github.com/gatehouse-id/gatehouse/storage"
)

// An Interrupter is a store under which a caller hangs up: HangUp is called as soon as the After-th Update has
// returned. A test gives it the cancel function of a request's context, and looks at what the request has left behind.
type Interrupter struct {
	storage.Store

	After  int64 // 0: never
	HangUp func()

	updates atomic.Int64
}

// Update is Store.Update.
func (s *Interrupter) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if ctx.Err() == nil && s.updates.Add(1) == s.After {
		s.HangUp()
	}
	return err
}

// Updates returns how many transactions there were that could write.
func (s *Interrupter) Updates() int64 { return s.updates.Load() }
