//go:build linux

package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatehouse-id/gatehouse/storage"
)

// obedientDir is the environment variable with the directory of a store for obey.
const obedientDir = "BADGERSTORE_OBEDIENT"

func init() {
	if dir := os.Getenv(obedientDir); dir != "" {
		obey(dir)
	}
}

// obey does what it is told on its standard input, one line at a time, and answers each with a line.
func obey(dir string) {
	var l *Lasting
	tried := make(chan struct{}, 100)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		word, arg, _ := strings.Cut(lines.Text(), " ")
		var err error
		switch word {
		case "bind": // arg over the directory
			err = unix.Mount(arg, dir, "", unix.MS_BIND, "")
		case "detach":
			err = unix.Unmount(dir, unix.MNT_DETACH)
		case "open":
			l, err = openLasting(context.Background(), Options{Dir: dir, SweepEvery: -1}, func(ctx context.Context, d time.Duration) {
				if d > 0 { // an opening has failed
					tried <- struct{}{}
					<-ctx.Done()
				}
			})
		case "put":
			err = put(l, arg)
		case "notice":
			<-tried
			err = l.Check(context.Background())
		case "close":
			err = l.Close()
		}
		fmt.Println(strings.ReplaceAll(fmt.Sprint("done: ", err), "\n", " "))
	}
	os.Exit(0)
}

// servant is a process that obeys.
type servant struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// hire starts a process in a mount namespace of its own, as root of a user namespace where this user is not root.
func hire(t *testing.T, dir string) *servant {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), obedientDir+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a process in a mount namespace of its own: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &servant{cmd, in, bufio.NewScanner(out)}
}

// tell gives a command and returns the answer, "<nil>" if it succeeded.
func (s *servant) tell(t *testing.T, command string) string {
	t.Helper()
	if _, err := io.WriteString(s.in, command+"\n"); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	for s.out.Scan() {
		if answer, ok := strings.CutPrefix(s.out.Text(), "done: "); ok {
			return answer
		}
	}
	t.Fatalf("%s: the process has ended", command)
	return ""
}

func (s *servant) must(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if answer := s.tell(t, c); answer != "<nil>" {
			t.Fatalf("%s: %s", c, answer)
		}
	}
}

// TestReplacedDirectoryKeepsWhatWasAnswered: whatever takes the place of the directory of a running server, and however
// the server ends, the directory that it had opened is complete when it is put back, and what took its place is
// untouched.
func TestReplacedDirectoryKeepsWhatWasAnswered(t *testing.T) {
	t.Parallel()
	backup := new(bytes.Buffer)
	other := mustOpen(t, t.TempDir())
	fill(t, other, "other", 500) // more commits than the server that is replaced has
	if err := other.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	type place struct{ base, dir, now string } // dir: opened by the server; now: with its files in the end
	restore := func(t *testing.T, dir string) {
		t.Helper()
		if err := Restore(t.Context(), Options{Dir: dir}, bytes.NewReader(backup.Bytes()), nil); err != nil {
			t.Fatal(err)
		}
	}
	move := func(t *testing.T, p *place) {
		t.Helper()
		p.now = filepath.Join(p.base, "aside")
		if err := os.Rename(p.dir, p.now); err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(t *testing.T, dir string) string {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, tc := range map[string]struct {
		before, replace func(t *testing.T, s *servant, p *place)
		foreign         string // what stands in its place, as this process sees it
	}{
		"moved": {replace: func(t *testing.T, _ *servant, p *place) { move(t, p) }},
		"moved, and an empty directory": {foreign: "store", replace: func(t *testing.T, _ *servant, p *place) {
			move(t, p)
			mkdir(t, p.dir)
		}},
		"moved, and a backup restored": {foreign: "store", replace: func(t *testing.T, _ *servant, p *place) {
			move(t, p)
			restore(t, p.dir)
		}},
		"emptied into another directory, and a backup restored": {foreign: "store", replace: func(t *testing.T, _ *servant, p *place) {
			move(t, p)
			mkdir(t, p.dir)
			restore(t, p.dir)
		}},
		"a symbolic link changed": {
			foreign: "second",
			before: func(t *testing.T, _ *servant, p *place) {
				p.now = mkdir(t, filepath.Join(p.base, "first"))
				if err := os.Symlink(p.now, p.dir); err != nil {
					t.Fatal(err)
				}
			},
			replace: func(t *testing.T, _ *servant, p *place) {
				second := filepath.Join(p.base, "second")
				restore(t, second)
				if err := errors.Join(os.Remove(p.dir), os.Symlink(second, p.dir)); err != nil {
					t.Fatal(err)
				}
			},
		},
		"another directory mounted over it": {foreign: "second", replace: func(t *testing.T, s *servant, p *place) {
			second := filepath.Join(p.base, "second")
			restore(t, second)
			s.must(t, "bind "+second)
		}},
		"unmounted lazily, over an empty directory": {
			foreign: "store",
			before: func(t *testing.T, s *servant, p *place) {
				mkdir(t, p.dir)
				p.now = mkdir(t, filepath.Join(p.base, "mounted"))
				s.must(t, "bind "+p.now)
			},
			replace: func(t *testing.T, s *servant, _ *place) { s.must(t, "detach") },
		},
	} {
		for _, end := range []string{"noticed and ended", "noticed and killed", "ended at once", "killed at once"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				p := &place{base: t.TempDir()}
				p.dir = filepath.Join(p.base, "store")
				p.now = p.dir
				s := hire(t, p.dir)
				if tc.before != nil {
					tc.before(t, s, p)
				}
				s.must(t, "open")
				want := map[string]string{}
				for i := range 20 {
					key := fmt.Sprint("key", i)
					s.must(t, "put "+key)
					want[key] = key
				}
				tc.replace(t, s, p)
				var before image
				if tc.foreign != "" {
					before = load(t, filepath.Join(p.base, tc.foreign))
				}
				if strings.HasPrefix(end, "noticed") {
					if answer := s.tell(t, "put late"); !strings.Contains(answer, ErrRemoved.Error()) {
						t.Errorf("Update = %s, want %v", answer, ErrRemoved)
					}
					if answer := s.tell(t, "notice"); !strings.Contains(answer, ErrRemoved.Error()) {
						t.Errorf("Check after it was to be opened again = %s, want %v", answer, ErrRemoved)
					}
				}
				if strings.Contains(end, "killed") {
					_ = s.cmd.Process.Kill()
				} else {
					s.must(t, "close")
					_ = s.in.Close()
				}
				_ = s.cmd.Wait()
				if tc.foreign != "" {
					after := load(t, filepath.Join(p.base, tc.foreign))
					if !maps.EqualFunc(before, after, func(a, b file) bool { return a.size == b.size && bytes.Equal(a.data, b.data) }) {
						t.Error("what took the place of the directory has changed")
					}
				}
				again := mustOpen(t, p.now)
				if n := readAll(t, again, want); n > 0 {
					t.Errorf("%d records are damaged", n)
				}
			})
		}
	}
}

// TestDirectoryThatIsPutBackIsOpenedAgain: it needs no restart.
func TestDirectoryThatIsPutBackIsOpenedAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	failed, back := make(chan struct{}, 100), make(chan struct{})
	l, err := openLasting(t.Context(), Options{Dir: dir, SweepEvery: -1}, func(ctx context.Context, d time.Duration) {
		if d > 0 {
			failed <- struct{}{}
			select {
			case <-back:
			case <-ctx.Done():
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := make(chan error, 1)
	l.OnReopen(func(reason error) { told <- reason })
	if err := errors.Join(put(l, "a"), os.Rename(dir, dir+".old")); err != nil {
		t.Fatal(err)
	}
	if err := put(l, "b"); !errors.Is(err, ErrRemoved) {
		t.Errorf("Update = %v, want %v", err, ErrRemoved)
	}
	<-failed
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	close(back)
	if reason := <-told; !errors.Is(reason, ErrRemoved) {
		t.Errorf("the reason told = %v, want %v", reason, ErrRemoved)
	}
	if err := errors.Join(has(l, "a"), put(l, "c"), has(l, "c")); err != nil {
		t.Error(err)
	}
}

// TestDirectoryOfANewerVersion: it is refused before anything else in it is looked at, and left as it is.
func TestDirectoryOfANewerVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustPut(t, s, "a", "1")
	newer := s.side.mark
	newer.format++
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, sideName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := newer.write(f); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00002.mem"), []byte("what only that version can read"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := load(t, dir)
	if _, err := openDir(t.Context(), Options{Dir: dir, SweepEvery: -1}); !errors.Is(err, storage.ErrNewer) ||
		!strings.Contains(err.Error(), "format 2, this version reads 1") {
		t.Errorf("Open = %v, want %v with both formats", err, storage.ErrNewer)
	}
	after := load(t, dir)
	delete(before, lockName)
	delete(after, lockName)
	if !maps.EqualFunc(before, after, func(a, b file) bool { return a.size == b.size && bytes.Equal(a.data, b.data) }) {
		t.Error("Open changed a directory that it refused")
	}
}

// TestDirectoryWithoutAMark: a directory with commits that does not say which format it has is not taken for one of
// this version.
func TestDirectoryWithoutAMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustPut(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, sideName), markAt); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, "does not say which format")
}
