package saml

import (
	"context"
	"testing"
	"time"
)

func TestUntilStep(t *testing.T) {
	t.Parallel()
	for spent, want := range map[time.Duration]time.Duration{
		-time.Hour: evenStep, 0: evenStep, time.Microsecond: evenStep - time.Microsecond, evenStep - 1: 1, evenStep: evenStep,
		3*evenStep + 20*time.Millisecond: evenStep - 20*time.Millisecond,
	} {
		if got := untilStep(spent); got != want {
			t.Errorf("untilStep(%s) = %s, want %s", spent, got, want)
		}
	}
	// A caller who has left is not waited for; otherwise this test would not end.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pause(ctx, time.Hour)
	pause(t.Context(), time.Nanosecond)
}
