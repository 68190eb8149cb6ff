package shared

import (
	"os"
	"runtime"
	"sync"
)

// spareProcs is the number of processors that the Go scheduler gets on top of the machine's. The storage engine waits
// for the disk inside the kernel, in syncs and in page faults of its memory maps, and occupies a processor all that
// time. Without spare ones, issuing tokens on two processors was a fifth slower, and reads at the same time took three
// times as long.
const spareProcs = 2

// cores returns the processors that this process may use, and lets the scheduler have some more, once, unless the
// operator has set GOMAXPROCS.
var cores = sync.OnceValue(func() int {
	n := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(n + spareProcs)
	}
	return n
})
