package backup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var by = audit.Actor{ID: "admin", Name: "Ann"}

// engine is a store whose backups write what a test wants.
type engine struct {
	storage.Store

	write    func(ctx context.Context, w io.Writer) error
	readOnly atomic.Bool
}

func (e *engine) Backup(ctx context.Context, w io.Writer) error { return e.write(ctx, w) }

func (e *engine) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if e.readOnly.Load() {
		return storage.ErrUnavailable
	}
	return e.Store.Update(ctx, fn)
}

func newService(t *testing.T, write func(context.Context, io.Writer) error) *backup.Service {
	t.Helper()
	raw, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	if write == nil {
		write = raw.Backup
	}
	return &backup.Service{
		Store: &engine{Store: raw, write: write}, Recorder: &audit.Recorder{Random: rand.Reader, Now: time.Now},
		Dir:  filepath.Join(t.TempDir(), "backups"),
		Host: "node-1", Log: zap.NewNop(),
	}
}

// list returns the backups at a time from now.
func list(t *testing.T, s *backup.Service, in time.Duration) (out []backup.Backup) {
	t.Helper()
	err := s.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		out, err = s.List(tx, 10, s.Recorder.Now().Add(in))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// files returns the files of the directory, half-written ones included.
func files(t *testing.T, s *backup.Service) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestBackupThatBreaksOff: a file that is not whole is not left behind, and the list says why.
func TestBackupThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write func(*backup.Service) func(context.Context, io.Writer) error
		want  string
	}{
		"the engine fails": {func(*backup.Service) func(context.Context, io.Writer) error {
			return func(context.Context, io.Writer) error { return errors.New("record 7 is damaged") }
		}, "record 7 is damaged"},
		"the configuration ends": {func(s *backup.Service) func(context.Context, io.Writer) error {
			return func(ctx context.Context, _ io.Writer) error {
				go s.Close() //nolint:errcheck // the test closes it, too
				<-ctx.Done()
				return ctx.Err()
			}
		}, "canceled"},
		"the disk becomes full": {func(s *backup.Service) func(context.Context, io.Writer) error {
			return func(_ context.Context, w io.Writer) error {
				s.Room = nil // of the next one; this one keeps its own
				for range 100 {
					if _, err := w.Write(make([]byte, 1<<20)); err != nil {
						return err
					}
				}
				return nil
			}
		}, "not enough room"},
		"it reads back as something else": {func(*backup.Service) func(context.Context, io.Writer) error {
			return func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, "no backup at all")
				return err
			}
		}, "not a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, nil)
			s.Store.(*engine).write = tt.write(s)
			asked := 0
			if strings.Contains(name, "full") {
				s.Room = func() bool { asked++; return asked == 1 }
			}
			if err := s.Start(t.Context(), by); err != nil {
				t.Fatal(err)
			}
			s.Wait()
			if got := list(t, s, 0); len(got) != 1 || got[0].State != backup.Failed || !strings.Contains(got[0].Problem, tt.want) {
				t.Errorf("backups = %+v, want one that failed: %s", got, tt.want)
			}
			if got := files(t, s); tt.want != "not a backup" && len(got) > 0 {
				t.Errorf("files are left behind: %q", got)
			}
		})
	}
}

// TestOneBackupAtATime: a second one does not begin, also not on another server; one whose server was ended is said to
// have failed and keeps no one off.
func TestOneBackupAtATime(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{})
	s := newService(t, nil)
	s.Store.(*engine).write = func(context.Context, io.Writer) error {
		close(begun)
		<-release
		return errors.New("enough")
	}
	if err := s.Start(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	<-begun
	other := &backup.Service{Store: s.Store, Recorder: s.Recorder, Dir: s.Dir, Host: "node-2", Log: s.Log}
	for name, o := range map[string]*backup.Service{"this server": s, "another server": other} {
		if err := o.Start(t.Context(), by); !errors.Is(err, backup.ErrRunning) {
			t.Errorf("%s: a second backup = %v, want %v", name, err, backup.ErrRunning)
		}
	}
	if got := list(t, s, 0); len(got) != 1 || got[0].State != backup.Running {
		t.Errorf("backups = %+v, want one that is under way", got)
	}
	if got := list(t, s, 2*time.Minute); len(got) != 1 || got[0].State != backup.Failed || !strings.Contains(got[0].Problem, "node-1") {
		t.Errorf("backups in two minutes = %+v, want one of which nothing was heard", got)
	}
	close(release)
	s.Wait()
}

// TestCopyIsNoted: a copy that someone else keeps is complete once they say so. One that breaks off, that they cannot
// keep or say nothing about has failed.
func TestCopyIsNoted(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	whole := s.Store.(*engine).write
	for name, tt := range map[string]struct {
		write     func(context.Context, io.Writer) error
		finished  bool
		problem   string
		wantState backup.State
		wantWhy   string
	}{
		"kept":       {whole, true, "", backup.Done, ""},
		"not kept":   {whole, true, "no space left on device", backup.Failed, "no space left"},
		"unfinished": {whole, false, "", backup.Failed, "the command that writes it has not said"},
		"broken":     {func(context.Context, io.Writer) error { return errors.New("record 7 is damaged") }, true, "", backup.Failed, "record 7"},
	} {
		s.Store.(*engine).write = tt.write
		id, err := s.Begin(t.Context(), "/mnt/"+name, by)
		if err != nil {
			t.Fatal(err)
		}
		if got := list(t, s, 0); got[0].File != "/mnt/"+name || got[0].State != backup.Running {
			t.Errorf("%s: before the copy the newest is %+v", name, got[0])
		}
		if err := s.Copy(t.Context(), io.Discard, id, by); (err != nil) != (name == "broken") {
			t.Errorf("%s: Copy = %v", name, err)
		}
		if tt.finished {
			if err := s.Finish(t.Context(), id, tt.problem, by); err != nil {
				t.Fatal(err)
			}
		}
		got := list(t, s, 2*time.Minute)[0]
		if got.File != "/mnt/"+name || got.State != tt.wantState || !strings.Contains(got.Problem, tt.wantWhy) || got.By != "Ann" ||
			(got.Bytes == 0) != (name == "broken") {
			t.Errorf("%s: the newest is %+v, want %s and a problem with %q", name, got, tt.wantState, tt.wantWhy)
		}
	}
}
