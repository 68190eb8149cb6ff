package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// nodes are two nodes behind HAProxy that share a database, and a load on all three addresses.
type nodes struct {
	*Run
	list  []*lab.Server // the two
	front *lab.Server   // HAProxy
	db    *lab.Postgres // takes writes
	other *lab.Postgres // follows it. nil: there is none
	nets  [][]*lab.Cutter
	rand  *rand.Rand

	broken  atomic.Bool  // a node is killed or paused: requests to it have no answer
	refused atomic.Int64 // 503 with Retry-After
	cutOff  atomic.Int64 // no answer

	mu      sync.Mutex // guards what follows
	atFront []failure  // requests through HAProxy without the answer that was wanted
	back    []time.Duration
}

type failure struct {
	at   time.Time
	text string
}

const (
	nodeWorkers = 24
	scarce      = 3 // uses of a token with the scope scarce
	// noticed is how long HAProxy takes to find out that a node is gone: two checks at 500 ms, and a margin for a busy
	// machine.
	noticed = 2500 * time.Millisecond
	// leased is more than a node keeps its roles without being heard of.
	leased = 11 * time.Second
)

// durable is how a node asks that a commit is on disk, and what the control makes of it on the way to the database.
var durable, undurable = "synchronous_commit = on", "synchronous_commit =off"

// startNodes starts a database, with a standby or not, two nodes and HAProxy.
func startNodes(t *testing.T, standby bool, old, replacement string, settings ...string) *nodes {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &nodes{rand: random()}
	var err error
	c.db, err = lab.NewPostgres(settings...)
	must(err)
	t.Cleanup(c.db.Remove)
	if standby {
		c.other, err = c.db.Standby(settings...)
		must(err)
		t.Cleanup(c.other.Remove)
		must(c.db.SyncWith(true))
	}
	storage := func() string {
		var hosts []string
		var net []*lab.Cutter
		for _, db := range []*lab.Postgres{c.db, c.other} {
			if db == nil {
				continue
			}
			cutter, err := lab.NewCutter(db.Address(), old, replacement)
			must(err)
			t.Cleanup(cutter.Close)
			hosts, net = append(hosts, cutter.Address()), append(net, cutter)
		}
		c.nets = append(c.nets, net)
		return fmt.Sprintf("storage postgres postgres://gatehouse@%s/gatehouse?sslmode=disable&connect_timeout=2", strings.Join(hosts, ","))
	}
	echo, err := lab.NewEcho()
	must(err)
	t.Cleanup(echo.Close)
	dir := t.TempDir()
	first, err := lab.New(lab.Config{
		Binary: binary(t), Dir: dir, Address: "127.0.0.2", Storage: storage(), Echo: echo.Addr, WebClients: nodeWorkers, Gatehouse: scarceClient + racedClient,
	})
	must(err)
	t.Cleanup(first.Kill)
	_, err = first.StartReady(t.Context())
	must(err)
	second, err := first.Node(t.TempDir(), "127.0.0.3", storage())
	must(err)
	t.Cleanup(second.Kill)
	_, err = second.StartReady(t.Context())
	must(err)
	c.list = []*lab.Server{first, second}
	c.front, err = lab.Balance(t.Context(), t.TempDir(), c.list...)
	must(err)
	t.Cleanup(c.front.Kill)
	c.Run = load(t, first, echo, nodeWorkers)
	c.Spread(first, second, c.front)
	c.Recent, c.Also, c.Ledger.Judge = 60, c.also, c.judge
	return c
}

const scarceSecret = "a-secret-of-the-client-with-few-uses-in-the-lab" //nolint:gosec // of a test

const scarceClient = `		scope scarce {
			usage_limit 3
		}
		scope once {
			usage_limit 1
		}
		client scarce {
			secret ` + scarceSecret + `
			grants client_credentials
			scopes orders.read scarce once
			default_scopes orders.read
		}`

func (c *nodes) limited(ctx context.Context, scope string) lab.Answer {
	return c.server().Post(ctx, "/oauth/token", "scarce", scarceSecret, url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope + " " + scope}})
}

// judge looks at an answer that was not the one wanted: it must be 503 with Retry-After.
func (c *nodes) judge(op string, a lab.Answer) {
	text := fmt.Sprintf("%s at %s: %d %.80q %v after %d ms", op, a.From, a.Status, a.Body, a.Err, a.Took.Milliseconds())
	if a.From == c.front.Address {
		c.mu.Lock()
		c.atFront = append(c.atFront, failure{time.Now(), text})
		c.mu.Unlock()
	}
	if c.broken.Load() { // judged by what HAProxy makes of it
		c.cutOff.Add(1)
		return
	}
	later := a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
	told := a.Err != nil && strings.Contains(a.Err.Error(), "temporarily_unavailable") // at the redirect of an authorization request
	if !later && !told {
		c.violation("instead of 503 with Retry-After: %s", text)
		return
	}
	c.refused.Add(1)
}

// also spends tokens with a usage limit at several nodes at once, and comes with tokens that nobody has issued.
func (c *nodes) also(ctx context.Context, w *worker) {
	if w.rand.IntN(2) == 0 {
		a := w.server().Call(ctx, "gat_"+strings.Repeat("x", 40), lab.MustNotArrive, "1")
		c.Reads.Add(1)
		switch {
		case a.Outcome() == lab.Unknown:
			c.Unanswered.Add(1)
			c.Ledger.fail("stranger", a)
		case a.Status != http.StatusUnauthorized:
			c.violation("protect answered %d to a token that nobody has issued", a.Status)
		}
		return
	}
	a, out := c.Ledger.Do("issue-limited", "scarce", "", func() lab.Answer { return c.limited(ctx, "scarce") })
	if out != lab.OK {
		return
	}
	var in, doubts atomic.Int64
	var all sync.WaitGroup
	for range scarce + 2 {
		all.Go(func() {
			_, out := c.Ledger.Do("use-limited", "scarce", a.Text("access_token"), func() lab.Answer { return w.server().Call(ctx, a.Text("access_token")) })
			switch out {
			case lab.OK:
				in.Add(1)
			case lab.Unknown:
				doubts.Add(1)
			case lab.Refused:
			}
		})
	}
	all.Wait()
	if in.Load() > scarce {
		c.Doubles.Add(1)
		c.violation("a token was used %d times, and may be used %d times", in.Load(), scarce)
	}
	if in.Load() < scarce && doubts.Load() == 0 {
		c.violation("a token was used %d times, and could be used %d times", in.Load(), scarce)
	}
}

// round puts load on the nodes, does harm, and checks what they know afterwards.
func (c *nodes) round(t *testing.T, when string, all bool, harm func()) {
	t.Helper()
	c.mu.Lock()
	c.atFront = nil
	c.mu.Unlock()
	c.Begin(t.Context())
	c.For(t.Context(), between(c.rand, 300*time.Millisecond, time.Second))
	harm()
	c.For(t.Context(), between(c.rand, 100*time.Millisecond, 400*time.Millisecond))
	c.Halt()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	c.broken.Store(false)
	for _, n := range append(slices.Clone(c.list), c.front) {
		if _, ok := eventually(t.Context(), 20*time.Second, func() bool { return n.Healthy(t.Context()) }); !ok {
			t.Fatalf("%s: %s is not healthy again", when, n.Address)
		}
	}
	c.Check(t.Context(), when, all)
}

// writes waits until nodes write again, and returns how long that took.
func (c *nodes) writes(t *testing.T, list ...*lab.Server) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, n := range list {
		_, ok := eventually(t.Context(), 30*time.Second, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return n.Issue(ctx).Outcome() == lab.OK
		})
		if !ok {
			t.Errorf("%s does not write within 30 s", n.Address)
		}
	}
	d := time.Since(begin)
	c.back = append(c.back, d)
	return d
}

// lastAtFront returns how long after an event the last request through HAProxy failed, and how many did.
func (c *nodes) lastAtFront(begin time.Time) (last time.Duration, n int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.atFront {
		if d := f.at.Sub(begin); d > last {
			last, text = d, f.text
		}
	}
	return last, len(c.atFront), text
}

func rounds(short int) int {
	if testing.Short() {
		return short
	}
	return cmp.Or(*more, 50)
}

// report writes the figures.
func (c *nodes) report(t *testing.T, rep *report, what string, n int) {
	t.Helper()
	setup{Run: c.Run}.figures(rep)
	rep.add("%d %s, 503 with Retry-After %d, no answer %d", n, what, c.refused.Load(), c.cutOff.Load())
	if len(c.back) > 0 {
		rep.add("writes again after p50 %d ms, max %d ms", median(c.back).Milliseconds(), slices.Max(c.back).Milliseconds())
		if m := slices.Max(c.back); m > 10*time.Second {
			t.Errorf("the nodes write again after %v", m)
		}
	}
}

// nodeKilled is N1: the other node serves, and HAProxy soon sends everything there.
func nodeKilled(t *testing.T, rep *report) {
	c := startNodes(t, false, "", "")
	n := rounds(1)
	var latest time.Duration
	failed := 0
	for i := range n {
		c.round(t, "after kill -9 of a node", i == n-1, func() {
			c.broken.Store(true)
			victim := c.list[i%2]
			begin := time.Now()
			c.Avoid(victim, true)
			victim.Kill()
			c.For(t.Context(), noticed+time.Second)
			last, n, text := c.lastAtFront(begin)
			latest, failed = max(latest, last), failed+n
			if last > noticed {
				t.Errorf("%v after a node was killed a request through HAProxy failed: %s", last, text)
			}
			if _, err := victim.StartReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Avoid(victim, false)
		})
	}
	c.report(t, rep, "kills", n)
	rep.add("through HAProxy %d failed, the last %d ms after the kill", failed, latest.Milliseconds())
}

// postgresKilled is N2: the database is killed and started at once.
func postgresKilled(t *testing.T, rep *report) {
	c := startNodes(t, false, "", "")
	n := rounds(2)
	for i := range n {
		c.round(t, "after kill -9 of PostgreSQL", i == n-1, func() {
			c.db.Kill()
			if err := c.db.Start(); err != nil {
				t.Fatal(err)
			}
			c.writes(t, c.list...)
		})
	}
	c.report(t, rep, "kills", n)
}

// standbyPromoted is N3: the database is lost, and its standby takes over.
func standbyPromoted(t *testing.T, rep *report) {
	c := startNodes(t, true, "", "")
	n := rounds(1)
	for i := range n {
		c.round(t, "after a promotion", i == n-1, func() {
			c.db.Kill()
			c.db, c.other = c.other, c.db
			if err := c.db.Promote(); err != nil {
				t.Fatal(err)
			}
			if err := c.db.SyncWith(false); err != nil {
				t.Fatal(err)
			}
			c.writes(t, c.list...)
		})
		if i == n-1 {
			break
		}
		if err := c.other.Follow(c.db); err != nil {
			t.Fatal(err)
		}
		if err := c.db.SyncWith(true); err != nil {
			t.Fatal(err)
		}
	}
	c.report(t, rep, "promotions", n)
}

// networkCut is N4: a node cannot reach the database, because connections are reset or because nothing passes.
func networkCut(t *testing.T, rep *report) {
	c := startNodes(t, false, "", "")
	n := rounds(2)
	for i := range n {
		c.round(t, "after a network cut", i == n-1, func() {
			for _, net := range c.nets[i/2%2] {
				if i%2 == 0 {
					net.Cut()
				} else {
					net.Stall()
				}
			}
			long := 1500 * time.Millisecond
			if i%10 == 9 {
				long = 15 * time.Second // more than a request waits
			}
			c.For(t.Context(), between(c.rand, long/5, long))
			for _, net := range c.nets[i/2%2] {
				net.Mend()
			}
			c.writes(t, c.list...)
		})
	}
	c.report(t, rep, "cuts", n)
}

// nodePaused is N5: a node stands still for longer than it keeps its roles, and then goes on.
func nodePaused(t *testing.T, rep *report) {
	c := startNodes(t, false, "", "")
	n := rounds(1)
	var latest time.Duration
	failed := 0
	for i := range n {
		c.round(t, "after a pause", i == n-1, func() {
			c.broken.Store(true)
			victim := c.list[i%2]
			begin := time.Now()
			if err := victim.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			c.Avoid(victim, true)
			c.For(t.Context(), leased)
			last, n, text := c.lastAtFront(begin)
			latest, failed = max(latest, last), failed+n
			if last > noticed {
				t.Errorf("%v after a node was paused a request through HAProxy failed: %s", last, text)
			}
			if err := victim.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			c.Avoid(victim, false)
			c.writes(t, victim)
		})
	}
	c.report(t, rep, "pauses", n)
	rep.add("through HAProxy %d failed, the last %d ms after the pause", failed, latest.Milliseconds())
}

// nodesControl is N2 with commits that wait for no disk. If it loses nothing, N2 proves nothing.
func nodesControl(t *testing.T, rep *report) {
	c := startNodes(t, false, durable, undurable, "wal_writer_delay=10s")
	for range 5 {
		c.Begin(t.Context())
		c.For(t.Context(), 500*time.Millisecond)
		c.db.Kill()
		c.Halt()
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := c.db.Start(); err != nil {
			t.Fatal(err)
		}
		c.Check(t.Context(), "without syncs", false)
		if c.Lost.Load() > 0 {
			break
		}
	}
	c.Run.mu.Lock()
	c.violations = nil // the control exists to produce them
	c.Run.mu.Unlock()
	if c.Lost.Load() == 0 {
		t.Errorf("commits that wait for nothing lost nothing of %d acknowledged operations: N2 proves nothing", c.Ledger.Acked.Load())
	}
	rep.add("lost %d of %d acked", c.Lost.Load(), c.Ledger.Acked.Load())
}

