package faults

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// flipCounts counts the outcomes of directories with one wrong bit.
type flipCounts struct {
	refused, answered5xx, noEffect atomic.Int64
	wrong, missing, panicked       atomic.Int64
}

// bitFlips is F10: one bit of a copied directory is wrong. An ended token is never active, and no record is missing
// without a report.
func bitFlips(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, workers)
	s.bulk(t, cycles(0, 2))
	s.Begin(t.Context())
	s.For(t.Context(), time.Duration(cycles(2, 4))*time.Second)
	s.Halt()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Check(t.Context(), "before the flips", true)
	s.Server.Kill()

	good, bad := s.sample(200)
	files, err := measure(s.Server.Data)
	if err != nil {
		t.Fatal(err)
	}
	n := *flips
	if n == 0 {
		n = cycles(12, 1000)
	}
	var out flipCounts
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 2 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && t.Context().Err() == nil; i = next.Add(1) {
				s.flip(t, i, files, good, bad, &out)
				if i%100 == 0 {
					t.Logf("%d flips", i)
				}
			}
		})
	}
	wg.Wait()
	rep.add("%d flips: %d refused at start, %d detected on reading, %d without effect", n, out.refused.Load(),
		out.answered5xx.Load(), out.noEffect.Load())
	rep.add("wrong active %d, missing without a report %d, panics %d", out.wrong.Load(), out.missing.Load(), out.panicked.Load())
}

// bulk issues tokens until the disk has this many tables next to the log, and keeps some of the tokens for the checks.
func (s setup) bulk(t *testing.T, tables int) {
	t.Helper()
	full := func() bool {
		names, err := filepath.Glob(filepath.Join(s.Server.Data, "*.sst"))
		return err != nil || len(names) >= tables
	}
	var wg sync.WaitGroup
	var done atomic.Bool
	for _, w := range s.workers {
		wg.Go(func() {
			for n := 0; !done.Load(); n++ {
				if n%50 == 0 {
					w.issue(t.Context())
				} else if a := s.Server.Issue(t.Context()); a.Status != http.StatusOK {
					t.Errorf("Issue = %d: %v", a.Status, a.Err)
					return
				}
			}
		})
	}
	_, ok := eventually(t.Context(), 3*time.Minute, full)
	done.Store(true)
	wg.Wait()
	if !ok {
		t.Errorf("there are no %d tables after 3 minutes of load", tables)
	}
}

// sample returns tokens that must be active and tokens that must not, the newest and some of each age.
func (s setup) sample(n int) (good, bad []*token) {
	for _, w := range s.workers {
		for _, t := range w.tokens {
			switch t.expected() {
			case living:
				good = append(good, t)
			case ended:
				bad = append(bad, t)
			}
		}
	}
	rnd := random()
	thin := func(all []*token) []*token {
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:min(n, len(all))]
	}
	return thin(good), thin(bad)
}

func (s setup) flip(t *testing.T, i int64, files []file, good, bad []*token, out *flipCounts) {
	dir, err := os.MkdirTemp(s.Server.Dir, "flip-")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	if err := run("cp", "-a", s.Server.Data, data); err != nil {
		t.Error(err)
		return
	}
	where, err := flipOne(data, files, rand.New(rand.NewPCG(*seed, uint64(i))))
	if err != nil {
		t.Error(err)
		return
	}
	server, err := s.Server.Clone(dir, data)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Kill()
	_, err = server.StartReady(t.Context())
	switch {
	case err != nil && server.Alive():
		t.Errorf("%s: neither ready nor ended: %v", where, err)
	case err != nil:
		out.refused.Add(1)
	default:
		s.readAll(t, server, where, good, bad, out)
	}
	if p := server.Panics(); len(p) > 0 {
		out.panicked.Add(1)
		t.Errorf("%s: the log contains a panic:\n%s", where, p[0])
	}
}

func (s setup) readAll(t *testing.T, server *lab.Server, where string, good, bad []*token, out *flipCounts) {
	var untold, wrong, missing atomic.Int64
	ask := func(tok *token, want bool) {
		active, told := server.Introspect(t.Context(), tok.text).Active()
		switch {
		case !told:
			untold.Add(1)
		case active && !want:
			wrong.Add(1)
		case !active && want:
			missing.Add(1)
		}
	}
	each(bad, func(tok *token) { ask(tok, false) })
	each(good, func(tok *token) { ask(tok, true) })
	switch {
	case untold.Load() > 0:
		out.answered5xx.Add(1)
	case wrong.Load()+missing.Load() == 0:
		out.noEffect.Add(1)
	}
	if wrong.Load() > 0 {
		out.wrong.Add(1)
		t.Errorf("%s: %d tokens are active and must not be", where, wrong.Load())
	}
	if missing.Load() > 0 {
		out.missing.Add(1)
		t.Errorf("%s: %d tokens are missing without a report", where, missing.Load())
	}
}

// file is one file of the directory and how many of its bytes are used: files are allocated long and filled from the
// start.
type file struct {
	name string
	used int
}

func measure(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			files = append(files, file{d.Name(), n})
		}
		return err
	})
	return files, err
}

// flipOne flips one bit: half of the time in a used byte, half of the time anywhere in a file.
func flipOne(dir string, files []file, r *rand.Rand) (where string, err error) {
	total := 0
	for _, f := range files {
		total += f.used
	}
	pick := files[r.IntN(len(files))]
	at := r.IntN(pick.used)
	if r.IntN(2) == 0 {
		at = r.IntN(total)
		for _, pick = range files {
			if at < pick.used {
				break
			}
			at -= pick.used
		}
	}
	name := filepath.Join(dir, pick.name)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	bit := r.IntN(8)
	var b [1]byte
	_, err = f.ReadAt(b[:], int64(at))
	b[0] ^= 1 << bit
	_, err2 := f.WriteAt(b[:], int64(at))
	return fmt.Sprintf("bit %d of byte %d of %s", bit, at, filepath.Base(name)), errorsJoin(err, err2, f.Close())
}
