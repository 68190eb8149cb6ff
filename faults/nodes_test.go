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
	other *lab.Postgres // follows it. It can be nil
	nets  [][]*lab.Cutter
	rand  *rand.Rand

	broken  atomic.Bool  // a node is killed or paused: requests to it have no answer
	refused atomic.Int64 // 503 with Retry-After
	cutOff  atomic.Int64 // no answer
	longest atomic.Int64 // milliseconds until an answer that was not the one wanted

	mu      sync.Mutex // guards what follows
	atFront []failure  // requests through HAProxy without the answer that was wanted
	back    []time.Duration
	latest  time.Duration // after a node was gone: the last request through HAProxy that failed
	failed  int           // requests through HAProxy that failed then
}

type failure struct {
	at   time.Time // when the request was sent
	text string
}

const (
	nodeWorkers = 24
	scarce      = 3 // uses of a token with the scope scarce
	// noticed is the time in which HAProxy finds out that a node is gone: two checks at 500 ms, and a margin for a busy
	// machine.
	noticed = 5 * time.Second
	// clientWaits is longer than any request takes. What a client gives up on may happen later.
	clientWaits = 40 * time.Second
	// leased is more than a node keeps its roles without being heard of.
	leased = 11 * time.Second
)

// durable is the setting by which a node asks for a commit on disk, and undurable its replacement on the way to the
// database.
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
	databases := []string{c.db.Address()}
	if standby {
		databases = append(databases, c.other.Address())
	}
	c.serve(t, databases, old, replacement)
	return c
}

// serve starts two nodes on the database at some addresses, and HAProxy.
func (c *nodes) serve(t *testing.T, databases []string, old, replacement string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	storage := func() string {
		var hosts []string
		var net []*lab.Cutter
		for _, address := range databases {
			cutter, err := lab.NewCutter(address, old, replacement)
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
		Binary: binary(t), Dir: dir, Address: "127.0.0.2", Storage: storage(), Echo: echo.Addr, WebClients: nodeWorkers, Persons: 1,
		Gatehouse: scarceClient + racedClient,
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
	for _, n := range c.Nodes {
		n.HTTP.Timeout = clientWaits
	}
	for _, w := range c.workers {
		for _, b := range w.browsers {
			b.HTTP.Timeout = clientWaits
		}
	}
	c.Recent, c.Also, c.Ledger.Judge = 60, c.also, c.judge
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
	return c.server().Post(ctx, "/oauth/token", "scarce", scarceSecret,
		url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope + " " + scope}})
}

// judge looks at an answer that was not the one wanted: it must be 503 with Retry-After.
func (c *nodes) judge(op string, a lab.Answer) {
	text := fmt.Sprintf("%s at %s: %d %.80q %v after %d ms", op, a.From, a.Status, a.Body, a.Err, a.Took.Milliseconds())
	if a.From == c.front.Address {
		c.mu.Lock()
		c.atFront = append(c.atFront, failure{time.Now().Add(-a.Took), text})
		c.mu.Unlock()
	}
	for ms := a.Took.Milliseconds(); ; {
		was := c.longest.Load()
		if ms <= was || c.longest.CompareAndSwap(was, ms) {
			break
		}
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

// prove sends one DPoP proof to several nodes at once: it counts once.
func (c *nodes) prove(ctx context.Context, w *worker) {
	proof, err := w.server().Proof()
	if err != nil {
		c.violation("no proof: %v", err)
		return
	}
	var in, doubts atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, out := c.Ledger.Do("issue-bound", lab.MachineID, "", func() lab.Answer { return w.server().IssueBound(ctx, proof) })
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
	if in.Load() > 1 {
		c.Doubles.Add(1)
	}
	if in.Load() > 1 || in.Load() == 0 && doubts.Load() == 0 {
		c.violation("a DPoP proof counted %d times", in.Load())
	}
}

// also spends tokens with a usage limit and proofs at several nodes at once, and comes with tokens that no one has
// issued.
func (c *nodes) also(ctx context.Context, w *worker) {
	switch w.rand.IntN(3) {
	case 0:
		c.prove(ctx, w)
		return
	case 1:
		a := w.server().Call(ctx, "gat_"+strings.Repeat("x", 40), lab.MustNotArrive, "1")
		c.Reads.Add(1)
		switch {
		case a.Outcome() == lab.Unknown:
			c.Unanswered.Add(1)
			c.Ledger.fail("stranger", a)
		case a.Status != http.StatusUnauthorized:
			c.violation("protect answered %d to a token that no one has issued", a.Status)
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
			_, out := c.Ledger.Do("use-limited", "scarce", a.Text("access_token"),
				func() lab.Answer { return w.server().Call(ctx, a.Text("access_token")) })
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

// lastAtFront returns how long after an event the last request through HAProxy was sent that failed, and how many did.
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

// report writes the figures.
func (c *nodes) report(t *testing.T, rep *report) {
	t.Helper()
	setup{Run: c.Run}.figures(rep)
	rep.add("503 with Retry-After %d, without an answer of a node that is gone %d, after %d ms at most", c.refused.Load(),
		c.cutOff.Load(), c.longest.Load())
	if c.failed > 0 {
		rep.add("through HAProxy %d failed then, the last sent after %d ms", c.failed, c.latest.Milliseconds())
	}
	if len(c.back) > 0 {
		rep.add("writes again after p50 %d ms, max %d ms", median(c.back).Milliseconds(), slices.Max(c.back).Milliseconds())
		if m := slices.Max(c.back); m > 10*time.Second {
			t.Errorf("the nodes write again after %v", m)
		}
	}
}

// harm is the damage of a round to the nodes, and the name of it in the figures.
type harm struct {
	name  string
	rows  string // of what is done
	short int    // rounds of it in the short round
	do    func(c *nodes, t *testing.T, i int)
}

var (
	kill      = harm{"after kill -9 of a node", "kills of a node", 1, (*nodes).killNode}
	lose      = harm{"after kill -9 of PostgreSQL", "kills of PostgreSQL", 2, (*nodes).killPostgres}
	promotion = harm{"after a promotion", "promotions", 1, (*nodes).promote}
	cut       = harm{"after a network cut", "cuts", 2, (*nodes).cut}
	pause     = harm{"after a pause", "pauses", 1, (*nodes).pause}
)

// nodesOf is N1 to N5: many rounds of one kind of harm.
func nodesOf(h harm) func(*testing.T, *report) {
	return func(t *testing.T, rep *report) {
		c := startNodes(t, h.name == promotion.name, "", "")
		n := cmp.Or(*more, 50)
		for i := range n {
			c.round(t, h.name, i == n-1, func() { h.do(c, t, i) })
		}
		rep.add("%d %s", n, h.rows)
		c.report(t, rep)
	}
}

// nodesInShort is N: some rounds of each kind of harm.
func nodesInShort(t *testing.T, rep *report) {
	c := startNodes(t, true, "", "")
	for _, h := range []harm{kill, lose, cut, pause, promotion} {
		for i := range h.short {
			c.round(t, h.name, h.name == promotion.name, func() { h.do(c, t, i) })
		}
		rep.add("%d %s", h.short, h.rows)
	}
	c.report(t, rep)
}

// killNode kills a node: the other one serves, and HAProxy soon sends everything there.
func (c *nodes) killNode(t *testing.T, i int) {
	victim := c.list[i%2]
	c.broken.Store(true)
	begin := time.Now()
	c.Avoid(victim, true)
	victim.Kill()
	c.For(t.Context(), noticed+time.Second)
	c.unnoticed(t, "killed", begin)
	if _, err := victim.StartReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Avoid(victim, false)
}

// unnoticed looks at what HAProxy made of a node that is gone.
func (c *nodes) unnoticed(t *testing.T, how string, begin time.Time) {
	t.Helper()
	last, n, text := c.lastAtFront(begin)
	c.latest, c.failed = max(c.latest, last), c.failed+n
	if last > noticed {
		t.Errorf("a request through HAProxy failed that was sent %v after a node was %s: %s", last, how, text)
	}
}

// killPostgres kills the database and starts it at once.
func (c *nodes) killPostgres(t *testing.T, _ int) {
	c.db.Kill()
	if err := c.db.Start(); err != nil {
		t.Fatal(err)
	}
	c.writes(t, c.list...)
}

// promote kills the database, and its standby takes over.
func (c *nodes) promote(t *testing.T, _ int) {
	if err := c.db.SyncWith(true); err != nil {
		t.Fatal(err)
	}
	c.For(t.Context(), between(c.rand, 100*time.Millisecond, 500*time.Millisecond))
	c.db.Kill()
	c.db, c.other = c.other, c.db
	if err := c.db.Promote(); err != nil {
		t.Fatal(err)
	}
	if err := c.db.SyncWith(false); err != nil {
		t.Fatal(err)
	}
	c.writes(t, c.list...)
	if err := c.other.Follow(c.db); err != nil {
		t.Fatal(err)
	}
}

// cut takes the database from a node, because connections are reset or because nothing passes.
func (c *nodes) cut(t *testing.T, i int) {
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
}

// pause stops a node for longer than it keeps its roles, and lets it go on.
func (c *nodes) pause(t *testing.T, i int) {
	victim := c.list[i%2]
	c.broken.Store(true)
	begin := time.Now()
	if err := victim.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.Avoid(victim, true)
	c.For(t.Context(), leased)
	c.unnoticed(t, "paused", begin)
	if err := victim.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.Avoid(victim, false)
	c.writes(t, victim)
}

// nodesControl is N2 with commits that wait for no disk. If it loses nothing, N2 proves nothing. What is lost is missed
// by the ledger or, as soon as a node compares its counter with that of the database, by the nodes themselves.
func nodesControl(t *testing.T, rep *report) {
	c := startNodes(t, false, durable, undurable, "wal_writer_delay=10s")
	noticed := func() bool {
		return slices.ContainsFunc(c.Nodes, func(n *lab.Server) bool { return strings.Contains(n.LogText(), "acknowledged writes were lost") })
	}
	for range 5 {
		wanted, late := c.Ledger.Acked.Load()+50, time.Now().Add(30*time.Second)
		c.Begin(t.Context())
		for c.Ledger.Acked.Load() < wanted && time.Now().Before(late) {
			c.For(t.Context(), 50*time.Millisecond)
		}
		c.db.Kill()
		c.Halt()
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := c.db.Start(); err != nil {
			t.Fatal(err)
		}
		c.Check(t.Context(), "without syncs", false)
		if c.Lost.Load() > 0 || noticed() {
			break
		}
	}
	c.Run.mu.Lock()
	c.violations = nil // the control exists to produce them
	c.Run.mu.Unlock()
	if c.Lost.Load() == 0 && !noticed() {
		t.Errorf("commits that wait for nothing lost nothing of %d acknowledged operations: N2 proves nothing", c.Ledger.Acked.Load())
	}
	rep.add("lost %d of %d acked, noticed by the nodes: %v", c.Lost.Load(), c.Ledger.Acked.Load(), noticed())
}
