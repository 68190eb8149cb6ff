package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

func errorsJoin(errs ...error) error { return errors.Join(errs...) }

// fate is the end of a token or a grant as the ledger knows it.
type fate int

const (
	living   fate = iota
	doubtful      // its end was requested and the outcome is unknown
	ended         // its end was acknowledged
)

// token is an access token of a machine or of a grant.
type token struct {
	text   string
	client string
	grant  *grant // nil: of a machine
	fate   fate
	seen   *bool // whether it is active, if that is settled although the fate is doubtful (Run.look)
}

func (t *token) expected() fate {
	if t.grant != nil {
		return max(t.fate, t.grant.fate)
	}
	return t.fate
}

// grant are the tokens that one code has issued.
type grant struct {
	client, refresh string
	spent           []string // refresh tokens that were rotated
	tokens          []*token
	fate            fate
	rotating        bool // the outcome of the last rotation is unknown
}

// code is an authorization code and its outcome.
type code struct {
	text, verifier, client string
	outcome                lab.Outcome // of its redemption; empty: not tried
	grant                  *grant
	successes              int
}

// worker owns the objects that it makes: nothing else changes them, so its expectations are exact.
type worker struct {
	run      *Run
	browsers []*lab.Browser // one for each node, with the same cookies
	rand     *rand.Rand
	client   string
	tokens   []*token
	grants   []*grant
	codes    []*code
}

// Run is a load over many starts of one server, and the knowledge about that server.
type Run struct {
	Server *lab.Server
	Nodes  []*lab.Server // those that the load is sent to. Default: Server alone
	Echo   *lab.Echo
	Ledger *Ledger

	// Also is further work of the load, for one step in eight. It can be nil.
	Also func(ctx context.Context, w *worker)
	// Recent is the number of a worker's last tokens that each check looks at. Default: 400.
	Recent int

	seed    uint64
	workers []*worker
	stop    atomic.Bool
	turn    atomic.Uint64
	avoided sync.Map // of nodes: whether they are left out
	wg      sync.WaitGroup

	mu         sync.Mutex // guards violations
	violations []string

	Active, Ended int          // introspections checked after faults
	Doubles       atomic.Int64 // codes that were redeemed twice
	Lost          atomic.Int64 // acknowledged writes that are gone or undone
	Raced         atomic.Int64 // codes sent from several connections at once
	Reads         atomic.Int64 // introspections and calls through protect
	Unanswered    atomic.Int64 // requests without an answer or with a 5xx
}

// liveGrants is the number of grants that a worker keeps: the server drops the oldest of a client and person beyond 25.
const liveGrants = 12

func (r *Run) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) < 40 {
		r.violations = append(r.violations, fmt.Sprintf(format, args...))
	}
}

// Violations returns the violations so far.
func (r *Run) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.violations
}

// NewRun prepares n workers. The server must run: the person signs in once for all of them.
func NewRun(ctx context.Context, s *lab.Server, e *lab.Echo, l *Ledger, n int, seed uint64) (*Run, error) {
	r := &Run{Server: s, Nodes: []*lab.Server{s}, Recent: 400, Echo: e, Ledger: l, seed: seed}
	b := s.NewBrowser()
	first, verifier, err := b.SignIn(ctx, lab.WebClient(0))
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	if a := s.Redeem(ctx, lab.WebClient(0), first, verifier); a.Status != http.StatusOK {
		return nil, fmt.Errorf("the first code: %d %s: %w", a.Status, a.Body, a.Err)
	}
	for i := range n {
		w := &worker{run: r, client: lab.WebClient(i), rand: rand.New(rand.NewPCG(seed, uint64(i)))} //nolint:gosec // a load that can be repeated
		w.browsers = []*lab.Browser{b.At(s)}                                                         // one browser, many tabs
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// Spread sends the load to several nodes of one installation.
func (r *Run) Spread(nodes ...*lab.Server) {
	r.Nodes = nodes
	for _, w := range r.workers {
		one := w.browsers[0]
		w.browsers = nil
		for _, n := range nodes {
			w.browsers = append(w.browsers, one.At(n))
		}
	}
}

// Avoid has the load leave out a node, or no more.
func (r *Run) Avoid(n *lab.Server, out bool) { r.avoided.Store(n, out) }

// server returns the node for the next request.
func (r *Run) server() *lab.Server { return r.Nodes[r.pick()] }

func (r *Run) pick() int {
	for range r.Nodes {
		i := int(r.turn.Add(1) % uint64(len(r.Nodes))) //nolint:gosec // a few
		if out, _ := r.avoided.Load(r.Nodes[i]); out != true {
			return i
		}
	}
	return 0
}

// server returns a node for the next request. Several goroutines of a worker can call it.
func (w *worker) server() *lab.Server { return w.run.server() }

// surf returns the browser at a node.
func (w *worker) surf() *lab.Browser { return w.browsers[w.run.pick()] }

// Begin starts the workers. They stop at Halt.
func (r *Run) Begin(ctx context.Context) {
	r.stop.Store(false)
	for _, w := range r.workers {
		r.wg.Go(func() {
			for !r.stop.Load() && ctx.Err() == nil {
				w.step(ctx)
			}
		})
	}
}

// Halt tells the workers to stop, without waiting: requests under way continue.
func (r *Run) Halt() { r.stop.Store(true) }

// Wait waits until the workers have stopped.
func (r *Run) Wait() error {
	r.wg.Wait()
	for _, w := range r.workers {
		for _, b := range w.browsers {
			b.Forget()
		}
	}
	return r.Ledger.Sync()
}

// step does one operation of the mix.
func (w *worker) step(ctx context.Context) {
	if w.run.Also != nil && w.rand.IntN(8) == 0 {
		w.run.Also(ctx, w)
		return
	}
	switch n := w.rand.IntN(100); {
	case n < 35:
		w.issue(ctx)
	case n < 50:
		w.newGrant(ctx)
	case n < 62:
		w.refresh(ctx)
	case n < 72:
		w.revoke(ctx)
	case n < 74:
		w.race(ctx)
	case n < 90:
		w.introspect(ctx)
	default:
		w.call(ctx)
	}
}

func (w *worker) issue(ctx context.Context) {
	a, out := w.run.Ledger.Do("issue", lab.MachineID, "", func() lab.Answer { return w.server().Issue(ctx) })
	switch {
	case out == lab.Refused:
		w.run.violation("client_credentials refused: %d %s", a.Status, a.Body)
	case out == lab.OK:
		w.tokens = append(w.tokens, &token{text: a.Text("access_token"), client: lab.MachineID})
	}
}

// newCode requests a code. nil: it got none.
func (w *worker) newCode(ctx context.Context) *code {
	c := &code{client: w.client}
	a, out := w.run.Ledger.Do("authorize", w.client, "", func() (a lab.Answer) {
		c.text, c.verifier, a = w.surf().Code(ctx, w.client)
		return a
	})
	if out == lab.OK && c.text != "" {
		return c
	}
	if out == lab.Refused {
		w.run.violation("authorize refused: %d %.200s", a.Status, a.Body)
	}
	return nil
}

func (w *worker) newGrant(ctx context.Context) {
	if w.living() >= liveGrants {
		w.endGrant(ctx)
		return
	}
	c := w.newCode(ctx)
	if c == nil {
		return
	}
	w.codes = append(w.codes, c)
	a, out := w.run.Ledger.Do("redeem", w.client, c.text, func() lab.Answer {
		return w.server().Redeem(ctx, c.client, c.text, c.verifier)
	})
	c.outcome = out
	switch out {
	case lab.OK:
		c.successes++
		c.grant = &grant{client: w.client, refresh: a.Text("refresh_token")}
		w.grants = append(w.grants, c.grant)
		w.keep(c.grant, a)
	case lab.Refused:
		w.run.violation("a fresh code was refused: %d %s", a.Status, a.Body)
	}
}

// living counts the grants that may exist, including the doubtful ones.
func (w *worker) living() int {
	n := 0
	for _, g := range w.grants {
		if g.fate != ended {
			n++
		}
	}
	for _, c := range w.codes {
		if c.outcome == lab.Unknown {
			n++
		}
	}
	return n
}

func (w *worker) keep(g *grant, a lab.Answer) {
	t := &token{text: a.Text("access_token"), client: g.client, grant: g}
	g.tokens = append(g.tokens, t)
	w.tokens = append(w.tokens, t)
}

// race redeems one code from several connections at once: at most one of them may win.
func (w *worker) race(ctx context.Context) {
	if w.living() >= liveGrants {
		w.endGrant(ctx)
		return
	}
	c := w.newCode(ctx)
	if c == nil {
		return
	}
	w.run.Raced.Add(1)
	const n = 3
	var wins, doubts atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, out := w.run.Ledger.Do("redeem-race", w.client, c.text, func() lab.Answer {
				return w.server().Redeem(ctx, c.client, c.text, c.verifier)
			})
			switch out {
			case lab.OK:
				wins.Add(1)
			case lab.Unknown:
				doubts.Add(1)
			}
		})
	}
	wg.Wait()
	if wins.Load() > 1 {
		w.run.Doubles.Add(1)
		w.run.violation("a code was redeemed %d times at once", wins.Load())
	}
	if wins.Load() > 0 || doubts.Load() > 0 {
		// Its replay has revoked what it issued, or will: only the number of redemptions counts.
		c.successes, c.outcome = int(wins.Load()), lab.Unknown
		if wins.Load() > 0 {
			c.outcome = lab.OK
		}
		c.grant = &grant{client: w.client, fate: ended}
		w.codes = append(w.codes, c)
	}
}

func (w *worker) pickGrant() *grant {
	var live []*grant
	for _, g := range w.grants {
		if g.fate == living && !g.rotating {
			live = append(live, g)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[w.rand.IntN(len(live))]
}

func (w *worker) refresh(ctx context.Context) {
	g := w.pickGrant()
	if g == nil {
		return
	}
	a, out := w.run.Ledger.Do("refresh", g.client, g.refresh, func() lab.Answer {
		return w.server().Refresh(ctx, g.client, g.refresh)
	})
	switch out {
	case lab.OK:
		g.spent = append(g.spent, g.refresh)
		g.refresh = a.Text("refresh_token")
		w.keep(g, a)
	case lab.Unknown:
		g.rotating = true
	case lab.Refused:
		w.run.violation("a good refresh token was refused: %d %s", a.Status, a.Body)
	}
}

// endGrant revokes a grant by its refresh token.
func (w *worker) endGrant(ctx context.Context) {
	g := w.pickGrant()
	if g == nil {
		return
	}
	_, out := w.run.Ledger.Do("revoke-grant", g.client, g.refresh, func() lab.Answer {
		return w.server().Revoke(ctx, g.client, g.refresh)
	})
	g.fate = after(out, g.fate)
}

func after(out lab.Outcome, f fate) fate {
	switch out {
	case lab.OK:
		return ended
	case lab.Unknown:
		return max(f, doubtful)
	default:
		return f
	}
}

func (w *worker) pickToken() *token {
	if len(w.tokens) == 0 {
		return nil
	}
	// The last tokens are most endangered by a fault.
	from := max(0, len(w.tokens)-200)
	return w.tokens[from+w.rand.IntN(len(w.tokens)-from)]
}

func (w *worker) revoke(ctx context.Context) {
	t := w.pickToken()
	if t == nil || t.fate != living {
		return
	}
	_, out := w.run.Ledger.Do("revoke", t.client, t.text, func() lab.Answer {
		return w.server().Revoke(ctx, t.client, t.text)
	})
	t.fate = after(out, t.fate)
}

func (w *worker) introspect(ctx context.Context) {
	if t := w.pickToken(); t != nil {
		w.run.look(ctx, t, underLoad)
	}
}

// call goes through protect: the upstream must not receive ended tokens.
func (w *worker) call(ctx context.Context) {
	t := w.pickToken()
	if t == nil {
		return
	}
	want := t.expected()
	var mark []string
	if want == ended {
		mark = []string{lab.MustNotArrive, "1"}
	}
	a := w.server().Call(ctx, t.text, mark...)
	w.run.Reads.Add(1)
	switch {
	case a.Outcome() == lab.Unknown:
		w.run.Unanswered.Add(1)
		w.run.Ledger.fail("protect", a)
	case want == doubtful:
	case want == living && a.Status != http.StatusOK:
		w.run.violation("protect refused a good token: %d %.200s", a.Status, a.Body)
	case want == ended && a.Status != http.StatusUnauthorized:
		w.run.violation("protect answered %d to an ended token", a.Status)
	}
}

// For lets the load run for d, or until ctx ends.
func (r *Run) For(ctx context.Context, d time.Duration) {
	lab.Pause(ctx, d)
}
