package badgerstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

var (
	flips = flag.Int("flips", 40, "how many bits TestBitFlips flips")
	seed  = flag.Uint64("seed", 1, "which bits TestBitFlips flips")
)

func TestCrashedDirectoryOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := map[string]string{}
	for round := range 8 { // through several logs and tables
		for k, v := range fill(t, s, fmt.Sprint(round), 1000) {
			want[k] = v
		}
		crashed := mustOpen(t, copyDir(t, dir))
		if n := readAll(t, crashed, want); n > 0 {
			t.Errorf("round %d: %d records are damaged", round, n)
		}
		if err := crashed.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if n := len(names(t, dir, "*.sst")); n == 0 {
		t.Error("no table was written: the test is too small")
	}
}

// A log stays on disk as long as an iterator reads its memory, even if tables hold its content already and were
// compacted.
func TestLogsThatTablesHoldAlready(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := fill(t, s, "before", 1000)
	err := s.View(t.Context(), func(tx storage.Tx) error {
		for _, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			for round := range 6 {
				for k, v := range fill(t, s, fmt.Sprint(round), 1000) {
					want[k] = v
				}
			}
			if err := s.Flatten(t.Context()); err != nil {
				return err
			}
			if n := len(names(t, dir, "*.mem")); n < 2 {
				t.Errorf("%d logs, want the one that is read and the new one", n)
			}
			crashed := mustOpen(t, copyDir(t, dir))
			if n := readAll(t, crashed, want); n > 0 {
				t.Errorf("%d records are damaged", n)
			}
			return crashed.Close()
		}
		return errors.New("nothing to scan")
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLostTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	fill(t, s, "a", 100)
	crash := copyDir(t, dir)
	fill(t, s, "b", 100)
	side, err := os.ReadFile(filepath.Join(dir, sideName))
	if err != nil {
		t.Fatal(err)
	}

	older := copyDir(t, crash) // an older directory restored, except for the side file
	writeSparse(t, filepath.Join(older, sideName), side, int64(len(side)))
	wantRefused(t, older, "commit 20 was answered, but the last one found is 10")

	gone := copyDir(t, crash)
	if err := os.Remove(names(t, gone, "*.mem")[0]); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, gone, "commit 10 was answered, but the last one found is 0")

	without := copyDir(t, crash)
	if err := os.Remove(filepath.Join(without, sideName)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, without, sideName+" is missing")

	damaged := copyDir(t, crash)
	writeSparse(t, filepath.Join(damaged, sideName), bytes.Repeat([]byte{7}, len(side)), int64(len(side)))
	wantRefused(t, damaged, "is damaged")

	torn := copyDir(t, crash) // one slot of two: the other still counts
	flip(t, filepath.Join(torn, sideName), (10%2)*slotStep)
	if err := mustOpen(t, torn).Close(); err != nil {
		t.Error(err)
	}
	if err := mustOpen(t, crash).Close(); err != nil {
		t.Error(err)
	}
}

// TestHoleInTheLogs recreates the effect of a flipped bit in an older log: its last commits are unreadable, and the
// next log continues after them.
func TestHoleInTheLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := fill(t, s, "a", 200)
	crash := copyDir(t, dir)
	log := names(t, crash, "*.mem")[0]
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// Cut the log in two between commits, as if Badger had begun a new one after the twelfth.
	ends := commitEnds(whole)
	if len(ends) != 20 {
		t.Fatalf("%d commits in the log, want 20", len(ends))
	}
	cut := ends[11]
	second := filepath.Join(crash, "00002.mem")
	writeSparse(t, log, whole[:cut], int64(len(whole)))
	writeSparse(t, second, append(bytes.Clone(whole[:logHead]), whole[cut:ends[19]]...), int64(len(whole)))

	good := mustOpen(t, copyDir(t, crash))
	if n := readAll(t, good, want); n > 0 {
		t.Errorf("%d records are damaged in two logs that join", n)
	}
	for name, damage := range map[string]struct {
		do  func(dir string)
		say string
	}{
		"bit in the last commit of the first log": {
			func(dir string) { flip(t, filepath.Join(dir, filepath.Base(log)), ends[10]+40) },
			"00002.mem begins with commit 13, but what comes before ends with 11",
		},
		"bit in its first commit": {
			func(dir string) { flip(t, filepath.Join(dir, filepath.Base(log)), logHead+40) },
			"begins with commit 13, but what comes before ends with 0",
		},
		"first log gone": {
			func(dir string) { _ = os.Remove(filepath.Join(dir, filepath.Base(log))) },
			"begins with commit 13",
		},
		"second log gone": {
			func(dir string) { _ = os.Remove(filepath.Join(dir, filepath.Base(second))) },
			"commit 20 was answered",
		},
		"bit in the second log": {
			func(dir string) { flip(t, filepath.Join(dir, filepath.Base(second)), logHead+40) },
			"commit 20 was answered",
		},
		"manifest gone": {func(dir string) { _ = os.Remove(filepath.Join(dir, "MANIFEST")) }, "MANIFEST is missing"},
	} {
		bad := copyDir(t, crash)
		damage.do(bad)
		t.Log(name)
		wantRefused(t, bad, damage.say)
	}
}

// Logs whose content is in tables remain while they are being read, and may be replayed.
func TestLogsThatLinger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := fill(t, s, "a", 200)
	log := load(t, dir)["00001.mem"]
	if err := s.Close(); err != nil { // writes everything to a table
		t.Fatal(err)
	}
	ends := commitEnds(log.data)
	crash := load(t, dir)
	if len(ends) != 20 || len(crash.names(".mem")) != 0 || len(crash.names(".sst")) == 0 {
		t.Fatalf("%d commits, files %v, want 20 commits in tables", len(ends), crash.names(""))
	}
	crash["00001.mem"] = file{log.data[:ends[7]], log.size}
	crash["00002.mem"] = file{append(bytes.Clone(log.data[:logHead]), log.data[ends[7]:ends[11]]...), log.size}
	for range 2 {
		s = mustOpen(t, crash.write(t))
		if n := readAll(t, s, want); n > 0 {
			t.Errorf("%d records are damaged", n)
		}
		if seq := s.Stats().Seq; seq != 20 {
			t.Errorf("Seq = %d, want 20", seq)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		crash = load(t, s.opt.Dir)
	}
}

// A process that is killed while it makes a log, or removes one that tables hold, leaves a file of no length.
func TestLogsWithoutAByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := fill(t, s, "a", 200)
	open := load(t, dir)
	if err := s.Close(); err != nil { // writes everything to a table
		t.Fatal(err)
	}
	closed := load(t, dir)
	for name, crash := range map[string]image{"made": open, "removed": closed} {
		crash["00009.mem"] = file{}
		if name == "removed" {
			crash["00001.mem"] = file{}
		}
		s := mustOpen(t, crash.write(t))
		if n := readAll(t, s, want); n > 0 {
			t.Errorf("%s: %d records are damaged", name, n)
		}
	}
	// The commits of that log are still reported as missing.
	open["00001.mem"] = file{}
	wantRefused(t, open.write(t), "but the last one found is 0")
}

// A power loss while the store is being made loses nothing that was acknowledged.
func TestUnfinishedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustOpen(t, dir)
	base := load(t, dir)
	base[sideName] = file{}
	s := mustOpen(t, base.write(t))
	mustPut(t, s, "a", "1")
	crash := load(t, s.opt.Dir)
	delete(crash, "00002.mem")
	delete(crash, "00001.mem")
	wantRefused(t, crash.write(t), "commit 1 was answered, but the last one found is 0")
}

// commitEnds returns where each commit of a log ends.
func commitEnds(b []byte) (ends []int) {
	for at := logHead; ; {
		e, n := readLogEntry(b[at:])
		if n == 0 {
			return ends
		}
		at += n
		if e.meta&metaEndsTxn != 0 {
			ends = append(ends, at)
		}
	}
}

// TestBitFlips flips single bits all over a directory. Either Open refuses, or a record is reported as damaged, or the
// flip has no effect. A wrong value, or a record that is missing without a report, is a failure.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := map[string]string{}
	for i := range 6 {
		for k, v := range fill(t, s, fmt.Sprint(i), 1000) {
			want[k] = v
		}
	}
	base := load(t, dir)
	most := append(base.names(".sst"), base.names(".mem")...) // they hold most of the bytes
	if len(base.names(".sst")) == 0 || len(base.names(".mem")) == 0 {
		t.Fatal("there is no table or no log: the test is too small")
	}
	delete(base, lockName)
	delete(base, "LOCK")
	files := base.names("")
	r := rand.New(rand.NewPCG(*seed, *seed))
	outcome := map[string]int{}
	for range *flips {
		name := files[r.IntN(len(files))]
		if r.IntN(2) == 0 {
			name = most[r.IntN(len(most))]
		}
		whole := base[name]
		used := len(whole.data)
		if used == 0 {
			continue
		}
		at := r.IntN(used)
		if r.IntN(4) == 0 {
			at = used - 1 - r.IntN(min(used, 200)) // the footers of tables hold all lengths
		}
		bit := r.IntN(8)
		bad := maps.Clone(base)
		bad[name] = file{bytes.Clone(whole.data), whole.size}
		bad[name].data[at] ^= 1 << bit
		outcome[judge(t, bad.write(t), want, fmt.Sprintf("%s, byte %d of %d, bit %d", name, at, used, bit))]++
	}
	t.Logf("%d flips: %v", *flips, outcome)
	if outcome["refused"] == 0 || outcome["nothing wrong"] == 0 {
		t.Errorf("outcomes = %v, want some of each kind", outcome)
	}
}

func judge(t *testing.T, dir string, want map[string]string, what string) string {
	t.Helper()
	defer os.RemoveAll(dir)
	s, err := openDir(t.Context(), Options{Dir: dir, SweepEvery: -1})
	if err != nil {
		if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: Open = %v, want an error that names the directory", what, err)
		}
		return "refused"
	}
	defer s.Close()
	damaged := readAll(t, s, want)
	if t.Failed() {
		t.Fatalf("%s was flipped", what)
	}
	if damaged > 0 {
		return "damaged records"
	}
	return "nothing wrong"
}

// TestTruncatedFiles cuts or removes one file at a time.
func TestTruncatedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	want := map[string]string{}
	for i := range 3 {
		for k, v := range fill(t, s, fmt.Sprint(i), 1000) {
			want[k] = v
		}
	}
	base := load(t, dir)
	for name, f := range base {
		used := len(f.data)
		for _, left := range []int{-1, 0, 1, used / 2, used - 1} {
			if left >= used {
				continue
			}
			bad := maps.Clone(base)
			if delete(bad, name); left >= 0 {
				bad[name] = file{f.data[:left], int64(left)}
			}
			judge(t, bad.write(t), want, fmt.Sprintf("%s, %d of %d bytes left; it", name, left, used))
		}
	}
}

func TestReadLogEntry(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"empty":              {},
		"zeros":              make([]byte, 100),
		"endless uvarint":    append([]byte{0x40, 0}, bytes.Repeat([]byte{0xff}, 60)...),
		"key without length": {0x40, 0, 0, 1, 0, 'v', 1, 2, 3, 4, 5, 6},
		"huge value":         append(binary.AppendUvarint([]byte{0x40, 0, 9}, 1<<40), make([]byte, 100)...),
	} {
		if e, n := readLogEntry(b); n != 0 {
			t.Errorf("%s: readLogEntry = %+v, %d, want none", name, e, n)
		}
	}
}

func FuzzReadLogEntry(f *testing.F) {
	f.Add([]byte{0x40, 0, 9, 1, 0, 'k', 0, 0, 0, 0, 0, 0, 0, 1, 'v', 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, n := readLogEntry(b); n < 0 || n > len(b) || len(e.value) > n {
			t.Errorf("readLogEntry = %+v, %d of %d bytes", e, n, len(b))
		}
	})
}

func TestOpenWithoutDirectory(t *testing.T) {
	t.Parallel()
	if _, err := openDir(t.Context(), Options{}); err == nil {
		t.Error("Open without a directory = nil, want an error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openDir(ctx, Options{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want %v", err, context.Canceled)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(t.Context(), Options{Dir: file}); err == nil {
		t.Error("Open of a file = nil, want an error")
	}
}
