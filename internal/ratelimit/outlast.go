package ratelimit

import (
	"context"
	"time"
)

// Handling is the maximum time that the handling of a request goes on after its caller has left.
const Handling = 30 * time.Second

// Outlast returns a context that goes on when the caller of a request leaves, and ends after Handling. Code that counts
// an attempt uses it: what follows from the attempt, and its event, must not depend on whether the caller waits.
func Outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Handling)
}
