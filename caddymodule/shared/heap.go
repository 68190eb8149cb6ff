package shared

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync"
)

// Go's rule for the garbage collector is that the heap may grow to twice its live size. Here that is wrong at both
// ends. With few records almost nothing is live, so the collector runs many times a second for a few megabytes. With a
// million tokens it lets the garbage grow as large as all memory of the storage engine. So a small heap grows to
// smallHeap before it is collected, and a large one by growth percent only.
//
// This replaces GOGC for the whole process, other Caddy modules included; an operator who sets GOGC keeps Go's rule.
// The memory and latency figures in the documents were measured with it.
const (
	smallHeap = 64 << 20 // bytes
	growth    = 40       // percent
)

// paceCollector makes each collection set the size of heap at which the next one starts, unless the operator has set
// GOGC. A memory limit (GOMEMLIMIT) holds all the same.
var paceCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		new(collection).watch()
	}
})

// collection is an unreachable object: its finalizer runs after each collection, and registers itself again.
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

// collectorPercent returns by how much a heap may grow above its live size, in percent and steps of ten.
func collectorPercent(live uint64) int {
	live = max(live, 8<<20)
	if live >= smallHeap {
		return growth
	}
	return max(growth, int((smallHeap-live)*10/live)*10)
}
