package secret

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// niceSteps is by how much the threads of workers are nicer than the process. Ten steps leave them a tenth of a
// processor where others want all of it: sign-ins get slower then, and still end. (sched(7))
const niceSteps = 10

// onLowThread runs work on a thread of a lower priority that nothing else uses. A process without privileges cannot
// raise a priority again, so the thread never returns to the Go scheduler: the goroutine stays locked to it, and both
// end together. The Go runtime starts no thread from a locked one, so no other thread inherits the priority.
func onLowThread(work func()) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The first thread does not end with its goroutine, and its priority is what tools show for the process.
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread() // another thread, because this one is taken
			close(locked)
			onLowThread(work)
		}()
		<-locked
		runtime.UnlockOSThread()
		return
	}
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // the system call returns 20 - nice
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-raw+niceSteps, 19)) // where it is forbidden, the usual one does
	}
	work()
}
