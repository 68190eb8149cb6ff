package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const watermark = 128 << 20

// diskFull is F5: the disk fills under load, stays full, and is emptied.
func diskFull(t *testing.T, rep *report) {
	dir := t.TempDir()
	img, err := NewImage(dir, 900<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := img.Unmount(); err != nil {
			t.Error(err)
		}
	})
	s := start(t, lab.Config{Dir: dir, Data: filepath.Join(img.Mount, "data")}, 16)
	ctx := t.Context()
	good := s.Server.Issue(ctx).Text("access_token")
	s.Begin(ctx)
	s.For(ctx, time.Second)

	var full atomic.Int64 // when the watermark was passed, in nanoseconds since 1970
	filled := make(chan error, 1)
	go func() {
		filled <- img.Fill(func(free int64) {
			if free < watermark {
				full.CompareAndSwap(0, time.Now().UnixNano())
			}
		})
	}()
	// Writes are refused within a second of the watermark.
	var refused time.Time
	if _, ok := eventually(ctx, 20*time.Second, func() bool {
		a := s.Server.Issue(ctx)
		if a.Status == http.StatusServiceUnavailable {
			refused = time.Now()
		}
		return !refused.IsZero() || !s.Server.Alive()
	}); !ok || refused.IsZero() {
		t.Fatalf("no write was refused on the full disk (free %d MiB, alive %t)", img.Free()>>20, s.Server.Alive())
	}
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	late := max(0, refused.Sub(time.Unix(0, full.Load())))
	if late > time.Second {
		t.Errorf("the first 503 came %v after the watermark was passed, want 1 s", late)
	}
	reads, unread := s.whileFull(t, good)
	if !s.Server.Alive() {
		t.Fatal("the process died on the full disk")
	}
	if s.Server.Healthy(ctx) {
		t.Error("/healthz says 200 on a full disk")
	}
	// It recovers by itself.
	if err := img.Empty(); err != nil {
		t.Fatal(err)
	}
	back, ok := eventually(ctx, 20*time.Second, func() bool { return s.Server.Issue(ctx).Status == http.StatusOK })
	if !ok {
		t.Fatalf("no write succeeds 20 s after space was freed")
	}
	s.For(ctx, 500*time.Millisecond)
	s.Halt()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Check(ctx, "after the full disk", true)
	s.figures(rep)
	rep.add("first 503 after %d ms, %d reads on the full disk, %d failed, recovered after %d ms", late.Milliseconds(), reads,
		unread, back.Milliseconds())
	startOnFullDisk(t, s, img, good, rep)
}

// whileFull sends reads and writes for two seconds: every write gets 503 within a second, every read gets the right
// answer.
func (s setup) whileFull(t *testing.T, good string) (reads, failed int) {
	t.Helper()
	ctx := t.Context()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if a := s.Server.Issue(ctx); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || a.Took > time.Second {
			t.Errorf("Issue on the full disk = %d after %v, Retry-After %q, want 503 within 1 s: %v", a.Status, a.Took,
				a.Header.Get("Retry-After"), a.Err)
		}
		if a := s.Server.Revoke(ctx, lab.MachineID, good); a.Status != http.StatusServiceUnavailable {
			t.Errorf("Revoke on the full disk = %d, want 503", a.Status)
		}
		reads += 2
		if active, told := s.Server.Introspect(ctx, good).Active(); !told || !active {
			failed++
			t.Errorf("Introspect on the full disk: active %t, told %t", active, told)
		}
		if a := s.Server.Call(ctx, good); a.Status != http.StatusOK {
			failed++
			t.Errorf("protect on the full disk = %d", a.Status)
		}
		if t.Failed() {
			break
		}
	}
	return reads, failed
}

// startOnFullDisk: the server starts, answers reads, refuses writes, and takes them once there is space.
func startOnFullDisk(t *testing.T, s setup, img *Image, good string, rep *report) {
	ctx := t.Context()
	if err := s.Server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, gone := s.Server.WaitExit(20 * time.Second); !gone {
		t.Fatal("the server does not end on SIGTERM")
	}
	if err := img.Fill(func(int64) {}); err != nil {
		t.Fatal(err)
	}
	before := len(s.Server.LogText())
	if err := s.Server.Start(); err != nil {
		t.Fatal(err)
	}
	start, ok := eventually(ctx, 20*time.Second, func() bool {
		active, told := s.Server.Introspect(ctx, good).Active()
		return told && active
	})
	if !ok {
		t.Fatalf("a start on the full disk serves no reads:\n%s", s.Server.LogTail(15))
	}
	if low := strings.ToLower(s.Server.LogText()[before:]); !strings.Contains(low, "free space") {
		t.Errorf("a start on the full disk does not say so: %.500s", low)
	}
	reads, unread := s.whileFull(t, good)
	if s.Server.Healthy(ctx) {
		t.Error("/healthz says 200 on a full disk")
	}
	if err := img.Empty(); err != nil {
		t.Fatal(err)
	}
	back, ok := eventually(ctx, 20*time.Second, func() bool { return s.Server.Issue(ctx).Status == http.StatusOK })
	if !ok {
		t.Fatal("no write succeeds 20 s after space was freed")
	}
	rep.add("started on the full disk after %d ms, %d reads, %d failed, recovered after %d ms", start.Milliseconds(), reads,
		unread, back.Milliseconds())
}

// directoryRemoved is F6: the storage directory is emptied while the server runs. Nothing is acknowledged into files
// without a name, health says why, and SIGTERM ends the process.
func directoryRemoved(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, 1)
	ctx := t.Context()
	if a := s.Server.Issue(ctx); a.Status != http.StatusOK {
		t.Fatalf("Issue = %d: %v", a.Status, a.Err)
	}
	entries, err := os.ReadDir(s.Server.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.Server.Data, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if a := s.Server.Issue(ctx); a.Status != http.StatusServiceUnavailable {
			t.Errorf("Issue without a storage directory = %d, want 503: %v", a.Status, a.Err)
		}
	}
	if a := s.Server.Get(ctx, s.Server.Issuer()+"/healthz"); a.Status != http.StatusServiceUnavailable ||
		!strings.Contains(string(a.Body), "removed") {
		t.Errorf("/healthz = %d %s, want 503 with the reason", a.Status, a.Body)
	}
	begin := time.Now()
	if err := s.Server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, gone := s.Server.WaitExit(30 * time.Second); !gone {
		t.Fatal("the server does not end on SIGTERM")
	}
	rep.add("ended %d ms after SIGTERM", time.Since(begin).Milliseconds())
}
