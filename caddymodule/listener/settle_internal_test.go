package listener

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestReloadWaitsNoLongerThanItsRequests: a reload goes on in the moment in which the last request is answered, and
// after a while without it.
func TestReloadWaitsNoLongerThanItsRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answered, want time.Duration }{
		"soon":  {1500 * time.Microsecond, 1500 * time.Microsecond},
		"later": {settle - time.Nanosecond, settle - time.Nanosecond},
		"never": {time.Hour, settle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{quiet: make(chan struct{}, 1)}
				for range 3 { // of an earlier time
					p.busy.Add(1)
					p.answered()
				}
				p.busy.Add(2)
				begin := time.Now()
				time.AfterFunc(time.Microsecond, p.answered)
				time.AfterFunc(tt.answered, p.answered)
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}
