package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatehouse-id/gatehouse/internal/secret/argon2id"
)

// niceOf returns how nice a thread of this process is, as the kernel tells.
func niceOf(t *testing.T, tid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", tid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	nice, err := strconv.Atoi(f[16]) // field 19 (proc_pid_stat(5)); the first two are cut off
	if err != nil {
		t.Fatal(err)
	}
	return nice
}

// TestSignInsAreComputedAtLowerPriority: introspection keeps its processors during a flood of sign-ins.
func TestSignInsAreComputedAtLowerPriority(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 3})
	usual := niceOf(t, os.Getpid())
	var all sync.WaitGroup
	var together sync.WaitGroup
	together.Add(3)
	for range 3 {
		all.Go(func() {
			err := h.compute(t.Context(), func(*argon2id.Memory) {
				together.Done()
				together.Wait() // three threads at once
				if tid := unix.Gettid(); tid == os.Getpid() || niceOf(t, tid) != min(usual+niceSteps, 19) {
					t.Errorf("thread %d of process %d has nice %d, want another thread with %d", tid, os.Getpid(), niceOf(t, tid), usual+niceSteps)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if nice := niceOf(t, os.Getpid()); nice != usual {
		t.Errorf("the process has nice %d after that, want %d", nice, usual)
	}
}

// TestNothingElseRunsAtLowerPriority: the threads of workers serve no other goroutine, neither while workers wait nor
// after they have ended.
func TestNothingElseRunsAtLowerPriority(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 4})
	h.workers.idle = time.Millisecond
	usual := niceOf(t, os.Getpid())
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 20 {
				if err := h.Waste(t.Context(), "x"); err != nil {
					t.Error(err)
				}
				// A thread that ends is still listed for a moment, so each goroutine asks about its own.
				nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
				if err != nil || 20-nice != usual {
					t.Errorf("a goroutine outside runs with nice %d, %v, want %d", 20-nice, err, usual)
				}
			}
		})
	}
	all.Wait()
	await(func() bool { // every worker ends
		h.workers.mu.Lock()
		defer h.workers.mu.Unlock()
		return len(h.workers.free) == 0
	})
}

// TestThreadEndsWithItsWorker: the thread is not handed to other goroutines, which would be slow for ever.
func TestThreadEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	h := NewHasher(HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 1})
	h.workers.idle = time.Millisecond
	var tid int
	if err := h.compute(t.Context(), func(*argon2id.Memory) { tid = unix.Gettid() }); err != nil {
		t.Fatal(err)
	}
	await(func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return errors.Is(err, fs.ErrNotExist)
	})
}
