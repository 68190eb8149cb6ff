package caddymodule

import (
	"os"
	"runtime"
	"sync"
)

// spareProcs is how many more processors than the machine's the Go scheduler gets. The storage engine waits for the disk inside the kernel, in syncs and
// in page faults of its memory maps, and holds one all the while: on two processors issuing tokens was a fifth slower, and reads beside it waited
// three times as long.
const spareProcs = 2

// cores returns the processors that this process may use, and lets the scheduler have some more, once, unless the operator has set GOMAXPROCS.
var cores = sync.OnceValue(func() int {
	n := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(n + spareProcs)
	}
	return n
})
