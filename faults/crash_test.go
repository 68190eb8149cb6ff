package faults

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// killUnderLoad is F1: SIGKILL while requests are in flight, restart, check.
func killUnderLoad(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, workers)
	rnd := random()
	var ready []time.Duration
	n := cycles(2, 20)
	for i := range n {
		s.Begin(t.Context())
		s.For(t.Context(), between(rnd, 400*time.Millisecond, 1500*time.Millisecond))
		s.Halt()
		s.Server.Kill()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		ready = append(ready, s.restart(t))
		s.Check(t.Context(), "after kill -9", i == n-1)
	}
	s.figures(rep)
	rep.add("%d kills, restart to ready p50 %d ms, max %d ms", n, median(ready).Milliseconds(), slices.Max(ready).Milliseconds())
}

// termThenKill is F16: SIGTERM, and SIGKILL while it drains.
func termThenKill(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, workers)
	rnd := random()
	n := cycles(2, 20)
	for i := range n {
		s.Begin(t.Context())
		s.For(t.Context(), between(rnd, 300*time.Millisecond, 800*time.Millisecond))
		if err := s.Server.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		s.For(t.Context(), between(rnd, 0, 60*time.Millisecond))
		s.Halt()
		s.Server.Kill()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		s.restart(t)
		s.Check(t.Context(), "after SIGTERM and SIGKILL", i == n-1)
	}
	s.figures(rep)
	rep.add("%d cycles", n)
}

// powerLoss is F3: the disk keeps only what was synced.
func powerLoss(t *testing.T, rep *report) {
	n := cycles(1, 20)
	s, ready, refused := losePower(t, "", n)
	if refused != nil {
		t.Fatalf("the server does not start after a power loss: %v", refused)
	}
	s.figures(rep)
	rep.add("%d power losses, restart to ready p50 %d ms, max %d ms", n, median(ready).Milliseconds(), slices.Max(ready).Milliseconds())
}

// powerLossControl is F3 with a build that does not sync. If it loses nothing, F3 proves nothing.
func powerLossControl(t *testing.T, rep *report) {
	out := filepath.Join(t.TempDir(), "gatehouse-unsynced")
	if err := Build("..", out, unsynced); err != nil {
		t.Fatal(err)
	}
	s, _, refused := losePower(t, out, 3)
	lost := s.Lost.Load()
	s.mu.Lock()
	s.violations = nil // the control exists to produce them
	s.mu.Unlock()
	switch {
	case refused != nil:
		rep.add("lost so much that the store refuses to open, of %d acked", s.Ledger.Acked.Load())
	case lost > 0:
		rep.add("lost %d of %d acked", lost, s.Ledger.Acked.Load())
	default:
		t.Errorf("a build without syncs lost nothing of %d acknowledged operations: the power loss test proves nothing", s.Ledger.Acked.Load())
	}
}

// losePower freezes the server under load, copies the disk as it is, kills the server and starts it on the copy.
// refused is the error of a server that does not start again.
func losePower(t *testing.T, binary string, n int) (s setup, ready []time.Duration, refused error) {
	dir := t.TempDir()
	img, err := NewImage(dir, 2<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := img.Unmount(); err != nil {
			t.Error(err)
		}
	})
	s = start(t, lab.Config{Binary: binary, Dir: dir, Data: filepath.Join(img.Mount, "data")}, workers)
	// The records of a first start are also durable before the first answer, but only the load counts here.
	rnd := random()
	for i := range n {
		s.Begin(t.Context())
		s.For(t.Context(), between(rnd, 500*time.Millisecond, 2*time.Second))
		if err := s.Server.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		s.Halt()
		crash := filepath.Join(dir, "crash.img")
		if err := img.Copy(crash); err != nil {
			t.Fatal(err)
		}
		s.Server.Kill()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := img.Replace(crash); err != nil {
			t.Fatal(err)
		}
		d, err := s.Server.StartReady(t.Context())
		if err != nil {
			return s, ready, err
		}
		ready = append(ready, d)
		s.Check(t.Context(), "after power loss", i == n-1)
		if binary != "" && s.Lost.Load() > 0 {
			break // the control has shown enough
		}
	}
	return s, ready, nil
}
