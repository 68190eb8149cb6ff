// Package periodic repeats work in the background.
package periodic

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// Every calls do once in each interval until ctx ends, first after one interval. An error that lasts is logged once,
// under the message failed.
func Every(ctx context.Context, interval time.Duration, log *zap.Logger, failed string, do func() error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	trouble := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := do()
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != trouble {
			log.Error(failed, zap.Error(err))
		}
		trouble = text
	}
}

// Write calls flush once in each interval until ctx ends, and then once more, which may take so long.
func Write(ctx context.Context, interval, last time.Duration, flush func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
			defer cancel()
			flush(ctx)
			return
		case <-tick.C:
			flush(ctx)
		}
	}
}
