package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the random choices")
	more  = flag.Int("cycles", 0, "cycles of the faults that repeat. 0: 20, in the short round 1 to 4")
	flips = flag.Int("flips", 0, "bit flips of F10. 0: 1000, in the short round 12")
)

// fault is one row of the table. long marks faults for the whole round only: they take minutes, or need the right to
// mount.
type fault struct {
	id, name string
	long     bool
	run      func(*testing.T, *report)
}

var faults = []fault{
	{"F1", "kill -9 under load", false, killUnderLoad},
	{"F3", "power loss", true, powerLoss},
	{"F3c", "power loss, control without syncs", true, powerLossControl},
	{"F5", "disk full", true, diskFull},
	{"F6", "storage directory removed", false, directoryRemoved},
	{"F10", "bit flips", false, bitFlips},
	{"F12", "double open", false, doubleOpen},
	{"F13", "reloads under load", false, reloadsUnderLoad},
	{"F14", "broken reload", false, brokenReload},
	{"F15", "graceful shutdown", false, gracefulShutdown},
	{"F16", "SIGTERM, then SIGKILL", true, termThenKill},
	{"F18", "identity providers down", false, providersDown},
	{"F20", "mail server down", true, mailDown},
	{"F21", "breach service down", true, breachDown},
	{"F22", "proofs of a key after kill -9", false, proofsAfterKill},
	{"F23", "quotas after kill -9", true, quotaAfterKill},
	{"IM", "imports killed", false, importKilled},
	{"F40", "malformed input, broken handlers", false, malformed},
	{"N", "two nodes, each harm a few times", false, nodesInShort},
	{"N1", "two nodes, one killed", true, nodesOf(kill)},
	{"N2", "two nodes, PostgreSQL killed", true, nodesOf(lose)},
	{"N3", "two nodes, standby promoted", true, nodesOf(promotion)},
	{"N4", "two nodes, network cut", true, nodesOf(cut)},
	{"N5", "two nodes, one paused", true, nodesOf(pause)},
	{"N6", "two nodes, control without syncs", true, nodesControl},
	{"N7", "two nodes, races", true, nodeRaces},
	{"N8", "two nodes, Patroni fails over", true, patroniFailsOver},
	{"N9", "three versions, one after the other", true, rollingUpgrade},
	{"N10", "two nodes, disk of PostgreSQL full", true, nodesDiskFull},
	{"T", "times tell nothing", true, timing},
	{"TP", "times tell nothing of people", true, timingOfPeople},
}

// report collects the figures of one fault.
type report struct {
	mu    sync.Mutex // guards words
	words []string
}

func (r *report) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words = append(r.words, fmt.Sprintf(format, args...))
}

// TestFaults runs all faults, or with -short a short round of those that need no privileges. It writes the table of
// figures at the end.
func TestFaults(t *testing.T) {
	type line struct{ verdict, text string }
	var table []line
	for _, f := range faults {
		if f.long && testing.Short() {
			continue
		}
		var r report
		begin := time.Now()
		ran := false
		ok := t.Run(f.id+" "+f.name, func(t *testing.T) {
			ran = true
			f.run(t, &r)
		})
		if !ran {
			continue // another fault was requested by name
		}
		verdict := "pass"
		if !ok {
			verdict = "FAIL"
		}
		table = append(table, line{
			verdict,
			fmt.Sprintf("%-4s %-34s %6.1f s  %s", f.id, f.name, time.Since(begin).Seconds(), strings.Join(r.words, ", ")),
		})
	}
	var b strings.Builder
	for _, l := range table {
		fmt.Fprintf(&b, "%s  %s\n", l.verdict, l.text)
	}
	fmt.Printf("\n%s\n", b.String())
	if !testing.Short() {
		if err := os.WriteFile(filepath.Join("..", "bin", "faults.txt"), []byte(b.String()), 0o644); err != nil {
			t.Log(err)
		}
	}
}

func binary(t *testing.T) string {
	t.Helper()
	b := os.Getenv("GATEHOUSE_BIN")
	if b == "" {
		b = filepath.Join("..", "bin", "gatehouse")
	}
	b, err := filepath.Abs(b)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// setup is a server, its upstream and its load.
type setup struct {
	*Run
	first time.Duration // how long the first start took
}

const workers = 64

// servers is the global option with which a reload loses no request, and further options.
func servers(options string) string {
	return "\tservers {\n\t\t" + options + "\n\t\tlistener_wrappers {\n\t\t\tgatehouse\n\t\t\ttls\n\t\t}\n\t}"
}

// start starts a server with a signed-in person and n workers. At the end of the test it looks for panics and
// violations, and shows the log of a failed test.
func start(t *testing.T, c lab.Config, n int) setup {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Binary == "" {
		c.Binary = binary(t)
	}
	echo, err := lab.NewEcho()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(echo.Close)
	c.Echo, c.WebClients = echo.Addr, max(n, 1)
	s, err := lab.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	first, err := s.StartReady(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return setup{Run: load(t, s, echo, n), first: first}
}

// load prepares n workers for a server that runs, as start says.
func load(t *testing.T, s *lab.Server, echo *lab.Echo, n int) *Run {
	t.Helper()
	l, err := OpenLedger(filepath.Join(s.Dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("the ledger is incomplete: %v", err)
		}
	})
	r, err := NewRun(t.Context(), s, echo, l, n, *seed)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.LogTail(20))
	}
	t.Cleanup(func() {
		for _, v := range r.Violations() {
			t.Error(v)
		}
		for _, n := range r.Nodes {
			if p := n.Panics(); len(p) > 0 {
				t.Errorf("the log contains %d panics; the first:\n%s", len(p), p[0])
			}
			if t.Failed() {
				t.Logf("end of the log at %s:\n%s", n.Address, n.LogTail(25))
			}
		}
	})
	return r
}

func (s setup) restart(t *testing.T) time.Duration {
	t.Helper()
	d, err := s.Server.StartReady(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// figures writes the figures that every fault under load reports.
func (s setup) figures(r *report) {
	r.add("acked %d, unknown %d, lost %d, double redemptions %d (of %d raced)", s.Ledger.Acked.Load(), s.Ledger.Unknown.Load(),
		s.Lost.Load(), s.Doubles.Load(), s.Raced.Load())
	r.add("checked %d active, %d ended", s.Active, s.Ended)
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(d))[len(d)/2]
}

func cycles(short, all int) int {
	if *more > 0 && all == 20 {
		return *more
	}
	if !testing.Short() {
		return all
	}
	return short
}

// between draws a duration.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func random() *rand.Rand { return rand.New(rand.NewPCG(*seed, 99)) }

// eventually calls f until it is true, and returns how long that took, or false after limit.
func eventually(ctx context.Context, limit time.Duration, f func() bool) (time.Duration, bool) {
	begin := time.Now()
	for time.Since(begin) < limit {
		if f() {
			return time.Since(begin), true
		}
		if !lab.Pause(ctx, 10*time.Millisecond) {
			break
		}
	}
	return time.Since(begin), false
}
