package badgerstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func logsIn(t *testing.T, names ...string) *wal {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := openWAL(dir, func(*os.File) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

// TestNoDescriptors: a process that has run out of file descriptors goes on committing to the log it has, and begins
// the next one with a descriptor that it has kept in reserve, or waits for one.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	w, opened, waits := logsIn(t, "00001.mem"), 0, 0
	w.wait = func(time.Duration) { waits++ } // others give theirs back meanwhile
	w.open = func(name string) (*os.File, error) {
		opened++
		if waits == 0 {
			return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
		}
		return os.Open(name)
	}
	if f, err := w.written(); err != nil || f != w.file || opened != 0 {
		t.Fatalf("a commit without a new log opened %d files: %v", opened, err)
	}
	if err := os.WriteFile(w.path(2), []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := w.written()
	if err != nil || filepath.Base(f.Name()) != "00002.mem" {
		t.Fatalf("the next log: %v, %v", f, err)
	}
	if waits != 1 {
		t.Errorf("%d waits, want one after the reserve was not enough", waits)
	}
	if len(w.spare) != spares {
		t.Errorf("%d descriptors are kept in reserve again, want %d", len(w.spare), spares)
	}
}

// TestDescriptorsNeverComeBack: the writer does not wait for ever.
func TestDescriptorsNeverComeBack(t *testing.T) {
	t.Parallel()
	w, waits := logsIn(t, "00001.mem", "00002.mem"), 0
	if w.fid != 2 {
		t.Fatalf("the newest log is %d, want 2", w.fid)
	}
	w.wait = func(time.Duration) { waits++ }
	w.open = func(name string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	if err := os.WriteFile(w.path(3), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.written(); err == nil || waits == 0 || waits > openTries {
		t.Errorf("after %d waits: %v, want an error", waits, err)
	}
}
