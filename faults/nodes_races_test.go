package faults

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const (
	racers   = 8 // races at the same time
	eachNode = 2 // connections of a race at each node
)

// racedClient has its codes and refresh tokens raced for.
const racedClient = `
		client raced {
			secret ` + scarceSecret + `
			redirect_uris ` + lab.Callback + `
			grants authorization_code refresh_token
			scopes openid profile ` + lab.Scope + `
			consent off
		}`

// contest is something that can be had once.
type contest struct {
	name string
	// prepare returns the request that all send. nil: it could not be prepared.
	prepare func(ctx context.Context, w *worker) func(n *lab.Server) lab.Answer
	// shared says that those who come a moment later get the very same.
	shared bool
}

// prize names what the winner number n has got.
func (k contest) prize(a lab.Answer, n int) string {
	if k.shared {
		return a.Text("refresh_token")
	}
	return strconv.Itoa(n)
}

func (c *nodes) token(ctx context.Context, n *lab.Server, form url.Values) lab.Answer {
	return n.Post(ctx, "/oauth/token", "raced", scarceSecret, form)
}

func (c *nodes) contests() []contest {
	code := func(ctx context.Context, w *worker) url.Values {
		code, verifier, a := w.surf().Code(ctx, "raced")
		if code == "" {
			c.violation("no code to race for: %d %.200s %v", a.Status, a.Body, a.Err)
			return nil
		}
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {lab.Callback}, "code_verifier": {verifier}}
	}
	return []contest{
		{"codes", func(ctx context.Context, w *worker) func(*lab.Server) lab.Answer {
			form := code(ctx, w)
			if form == nil {
				return nil
			}
			return func(n *lab.Server) lab.Answer { return c.token(ctx, n, form) }
		}, false},
		{"refresh tokens", func(ctx context.Context, w *worker) func(*lab.Server) lab.Answer {
			form := code(ctx, w)
			if form == nil {
				return nil
			}
			a := c.token(ctx, w.server(), form)
			if a.Outcome() != lab.OK {
				c.violation("no refresh token to race for: %d %.200s %v", a.Status, a.Body, a.Err)
				return nil
			}
			form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {a.Text("refresh_token")}}
			return func(n *lab.Server) lab.Answer { return c.token(ctx, n, form) }
		}, true},
		{"usage-limited tokens", func(ctx context.Context, w *worker) func(*lab.Server) lab.Answer {
			a := c.limited(ctx, "once")
			if a.Outcome() != lab.OK {
				c.violation("no limited token to race for: %d %.200s %v", a.Status, a.Body, a.Err)
				return nil
			}
			token := a.Text("access_token")
			return func(n *lab.Server) lab.Answer { return n.Call(ctx, token) }
		}, false},
		{"DPoP proofs", func(ctx context.Context, w *worker) func(*lab.Server) lab.Answer {
			proof, err := w.server().Proof()
			if err != nil {
				c.violation("no proof to race for: %v", err)
				return nil
			}
			return func(n *lab.Server) lab.Answer { return n.IssueBound(ctx, proof) }
		}, false},
	}
}

// nodeRaces is N7: several connections at each node want the same, which one of them gets.
func nodeRaces(t *testing.T, rep *report) {
	c := startNodes(t, false, "", "")
	n := 500
	if !testing.Short() {
		n = 2500 * cycles(0, 20)
	}
	kinds := c.contests()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for i := range racers {
		w := c.workers[i]
		all.Go(func() {
			for {
				number := int(next.Add(1))
				if number > n || t.Context().Err() != nil {
					return
				}
				kind := kinds[number%len(kinds)]
				send := kind.prepare(t.Context(), w)
				if send == nil {
					continue
				}
				var mu sync.Mutex // guards won
				won := map[string]bool{}
				var race sync.WaitGroup
				for j := range eachNode * len(c.list) {
					race.Go(func() {
						a := send(c.list[j%len(c.list)])
						switch a.Outcome() {
						case lab.OK:
							mu.Lock()
							won[kind.prize(a, len(won))] = true
							mu.Unlock()
						case lab.Unknown:
							failed.Add(1)
							c.violation("a race for %s: %d %.200s %v", kind.name, a.Status, a.Body, a.Err)
						case lab.Refused:
						}
					})
				}
				race.Wait()
				c.Raced.Add(1)
				if len(won) != 1 {
					c.Doubles.Add(1)
					c.violation("%d of %d had something of a race for %s", len(won), eachNode*len(c.list), kind.name)
				}
			}
		})
	}
	all.Wait()
	c.events(t.Context(), "after races")
	names := ""
	for i, k := range kinds {
		if names += k.name; i < len(kinds)-1 {
			names += ", "
		}
	}
	rep.add("%d races for %s, %d with a number of winners other than one, %d without an answer, %d a second", c.Raced.Load(), names,
		c.Doubles.Load(), failed.Load(),
		int(float64(c.Raced.Load())/time.Since(begin).Seconds()))
}
