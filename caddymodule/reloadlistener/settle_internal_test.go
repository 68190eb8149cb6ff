package reloadlistener

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
		"later": {settleRequests - time.Nanosecond, settleRequests - time.Nanosecond},
		"never": {time.Hour, settleRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{arriving: newGauge(), requests: newGauge()}
				for range 3 { // of an earlier time
					p.requests.add()
					p.requests.done()
				}
				p.requests.add()
				p.requests.add()
				begin := time.Now()
				time.AfterFunc(time.Microsecond, p.requests.done)
				time.AfterFunc(tt.answered, p.requests.done)
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestReloadWaitsForWhatArrives: a request that is read slowly is answered, and one that never ends does not hold a
// reload up for long.
func TestReloadWaitsForWhatArrives(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ read, want time.Duration }{
		"slow":  {settleArriving - time.Nanosecond, settleArriving - time.Nanosecond + settleRequests},
		"never": {time.Hour, settleArriving},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{arriving: newGauge(), requests: newGauge()}
				c := &conn{place: p}
				c.count(arriving)
				begin := time.Now()
				time.AfterFunc(tt.read, func() { c.count(request) })
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}
