package faults

import (
	"context"
	"net/http"
	"sync"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// underLoad marks a look at a token by the load itself.
const underLoad = "under load"

// look introspects a token and compares the answer with the ledger. A missing answer proves nothing. A token whose end
// got no answer is one or the other, and stays that. Only while nodes are under load can it be active and end later:
// its end can be durable at a database that is down, while a node answers from memory.
func (r *Run) look(ctx context.Context, t *token, when string) (told bool) {
	r.Reads.Add(1)
	a := r.server().Introspect(ctx, t.text)
	active, told := a.Active()
	if !told {
		r.Unanswered.Add(1)
		r.Ledger.fail("introspect", a)
		return false
	}
	switch t.expected() {
	case living:
		if !active {
			r.Lost.Add(1)
			r.violation("%s: an acknowledged token of %s is not active (…%s)", when, t.client, tail(t.text))
		}
	case ended:
		if active {
			r.Lost.Add(1)
			r.violation("%s: an acknowledged revocation is undone (…%s)", when, tail(t.text))
		}
	case doubtful:
		if t.seen != nil && *t.seen != active {
			r.violation("%s: a token of unknown fate changed from active=%t (…%s)", when, *t.seen, tail(t.text))
		}
		if !active || when != underLoad || len(r.Nodes) == 1 {
			t.seen = &active
		}
	}
	return true
}

// Check asks the server about everything in the ledger. The server must run without load. With all it checks every
// object, otherwise the last ones and a sample of the older ones.
func (r *Run) Check(ctx context.Context, when string, all bool) {
	each(r.workers, func(w *worker) {
		for _, g := range w.grants {
			r.settle(ctx, w, g, when)
		}
		w.codes = r.replay(ctx, w, when)
	})
	var tokens []*token
	for _, w := range r.workers {
		from := max(0, len(w.tokens)-r.Recent)
		for i, t := range w.tokens {
			if all || i >= from || w.rand.IntN(20) == 0 {
				tokens = append(tokens, t)
			}
		}
	}
	each(tokens, func(t *token) {
		if !r.look(ctx, t, when) {
			r.violation("%s: introspection gives no answer", when)
		}
	})
	for _, t := range tokens {
		switch t.expected() {
		case living:
			r.Active++
		case ended:
			r.Ended++
		}
	}
	r.gate(ctx, tokens, when)
	r.events(ctx, when)
}

// gate sends some ended tokens through protect: the upstream must not receive them.
func (r *Run) gate(ctx context.Context, tokens []*token, when string) {
	n := 0
	for _, t := range tokens {
		if t.expected() != ended || n >= 50 {
			continue
		}
		n++
		if a := r.server().Call(ctx, t.text, lab.MustNotArrive, "1"); a.Status != http.StatusUnauthorized {
			r.violation("%s: protect answered %d to an ended token", when, a.Status)
		}
	}
	if f := r.Echo.Forbidden.Load(); f > 0 {
		r.violation("%s: %d requests reached the upstream and should not have", when, f)
	}
}

// settle resolves the doubt about a rotation: in each case the spent token has exactly one successor.
func (r *Run) settle(ctx context.Context, w *worker, g *grant, when string) {
	if !g.rotating || g.fate != living {
		return
	}
	first := r.server().Refresh(ctx, g.client, g.refresh)
	second := r.server().Refresh(ctx, g.client, g.refresh)
	next := first.Text("refresh_token")
	if first.Status != http.StatusOK || next == "" {
		r.Lost.Add(1)
		r.violation("%s: a refresh token whose rotation was not answered is refused: %d %s", when, first.Status, first.Body)
		g.fate = doubtful
		return
	}
	if second.Status != http.StatusOK || second.Text("refresh_token") != next {
		r.Doubles.Add(1)
		r.violation("%s: a refresh token has two successors (%d)", when, second.Status)
	}
	g.rotating = false
	g.spent = append(g.spent, g.refresh)
	g.refresh = next
	w.keep(g, first)
}

// replay redeems again every code of unknown outcome, and one in four of the redeemed ones. It returns the codes that
// must be checked again later.
func (r *Run) replay(ctx context.Context, w *worker, when string) []*code {
	var left []*code
	for _, c := range w.codes {
		if c.outcome == lab.OK && c.successes > 0 && w.rand.IntN(4) != 0 {
			left = append(left, c)
			continue
		}
		for range 2 {
			a := r.server().Redeem(ctx, c.client, c.text, c.verifier)
			switch a.Outcome() {
			case lab.OK:
				c.successes++
			case lab.Unknown:
				r.violation("%s: a replayed code is answered %d: %v", when, a.Status, a.Err)
			}
		}
		if c.successes > 1 {
			r.Doubles.Add(1)
			r.violation("%s: a code was redeemed %d times", when, c.successes)
		}
		if c.grant != nil {
			c.grant.fate = ended // a replay revokes what the code has issued
		}
	}
	// Older codes have expired: a replay of them proves nothing more.
	return left[max(0, len(left)-50):]
}

func each[T any](items []T, f func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range 16 {
		wg.Go(func() {
			for it := range next {
				f(it)
			}
		})
	}
	for _, it := range items {
		next <- it
	}
	close(next)
	wg.Wait()
}
