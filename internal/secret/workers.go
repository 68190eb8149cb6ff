package secret

import (
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret/argon2id"
)

// workerIdle is the time that a worker keeps its thread and its memory without work.
const workerIdle = 5 * time.Second

// workers compute slow hashes on threads of a lower priority, so a flood of sign-ins leaves the processors to requests
// that take microseconds. There are as many as computations run at once: the queue of the hasher bounds them. A worker
// without work ends, and its thread with it.
type workers struct {
	keep uint32        // KiB that a worker keeps from one computation to the next
	idle time.Duration // that a worker lives without work

	mu   sync.Mutex // guards free
	free []*worker  // the one that worked last is at the end
}

type worker struct {
	of     *workers
	jobs   chan job
	memory argon2id.Memory
}

type job struct {
	run      func(*argon2id.Memory)
	finished chan<- any // the value of a panic, or nil
}

func newWorkers(keep uint32) *workers { return &workers{keep: keep, idle: workerIdle} }

// do runs a computation on a worker and waits for it. run starts no goroutines: they would have the usual priority.
func (w *workers) do(run func(*argon2id.Memory)) {
	finished := make(chan any, 1)
	w.take().jobs <- job{run, finished}
	if p := <-finished; p != nil {
		panic(p)
	}
}

// take returns a worker that only the caller gives work to.
func (w *workers) take() *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		last := w.free[n-1]
		w.free = w.free[:n-1]
		return last
	}
	k := &worker{of: w, jobs: make(chan job)}
	go onLowThread(k.work)
	return k
}

// give makes a worker available again.
func (w *workers) give(k *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, k)
}

// leave takes a worker out of those that are free. It returns false if the worker is about to get work.
func (w *workers) leave(k *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.free, k)
	if i < 0 {
		return false
	}
	w.free = slices.Delete(w.free, i, i+1)
	return true
}

func (k *worker) work() {
	timer := time.NewTimer(k.of.idle)
	defer timer.Stop()
	for {
		select {
		case j := <-k.jobs:
			p := k.run(j)
			if k.memory.KiB() > int(k.of.keep) { // of an imported hash that costs more than ours
				k.memory = argon2id.Memory{}
			}
			k.of.give(k) // before the answer: the next computation finds this worker, and its memory
			j.finished <- p
			timer.Reset(k.of.idle)
		case <-timer.C:
			if k.of.leave(k) {
				return
			}
			timer.Reset(k.of.idle)
		}
	}
}

// run returns the value of a panic, for the goroutine that waits.
func (k *worker) run(j job) (p any) {
	defer func() { p = recover() }()
	j.run(&k.memory)
	return nil
}
