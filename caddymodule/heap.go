package caddymodule

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync"
)

// The collector's own rule, a heap of twice what lives, is wrong at both ends here. With few records next to nothing lives, so it collects many times a
// second for a few megabytes; with a million tokens it lets the garbage grow as large as all that the engine keeps in memory. So a small heap may grow to
// smallHeap before it is collected, and a large one by growth percent only.
const (
	smallHeap = 64 << 20 // bytes
	growth    = 40       // percent
)

// paceCollector lets each collection set when the next one comes, once in a process and unless the operator has set GOGC. A memory limit (GOMEMLIMIT) holds
// all the same.
var paceCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		new(collection).watch()
	}
})

// collection is garbage from the start: its finalizer runs after each collection.
type collection struct{ percent int }

func (c *collection) watch() {
	runtime.SetFinalizer(c, func(c *collection) {
		live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
		runtimemetrics.Read(live)
		if live[0].Value.Kind() == runtimemetrics.KindUint64 {
			if p := collectorPercent(live[0].Value.Uint64()); p != c.percent {
				c.percent = p
				debug.SetGCPercent(p)
			}
		}
		c.watch()
	})
}

// collectorPercent returns by how much a heap may grow over what lives in it, in percent and steps of ten.
func collectorPercent(live uint64) int {
	live = max(live, 8<<20)
	if live >= smallHeap {
		return growth
	}
	return max(growth, int((smallHeap-live)*10/live)*10)
}
