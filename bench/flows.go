package main

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const flowBrowsers = 8 // that sign in at once

// people take turns to sign in: so many that no one has more grants at a client than are kept (25), so no sign-in also
// ends an earlier one. The row of one person has those.
var people = flag.Int("people", 1000, "how many people take turns to sign in")

// ours is the code flow at our server for a client whose people the header provider signs in: no password is hashed,
// as with the provider of a peer that always says yes.
func (b *bench) ours(client string) party {
	return party{
		authorize: b.server.Issuer() + "/oauth/authorize", token: b.server.Issuer() + "/oauth/token",
		client: client, secret: b.server.Web, callback: lab.Callback, scope: "openid",
	}
}

// signIns runs code flows for d, a new browser for each, or until limit flows if limit is not 0. person names who signs
// in with flow n. It returns when each flow ended too.
func signIns(p party, pid int, d time.Duration, limit int, person func(n int64) string) (sample, []time.Time, error) {
	var next atomic.Int64
	var mu sync.Mutex // guards the three below
	var took []time.Duration
	var ends []time.Time
	var failed error
	measure, err := begin(pid)
	if err != nil {
		return sample{}, nil, err
	}
	var wg sync.WaitGroup
	for range flowBrowsers {
		wg.Go(func() {
			h := newHopper()
			defer h.close()
			for limit > 0 || time.Since(measure.at) < d {
				n := next.Add(1)
				if limit > 0 && n > int64(limit) {
					return
				}
				h.forget()
				h.headers = []string{"X-Remote-User", person(n)}
				began := time.Now()
				_, err := h.flow(p)
				now := time.Now()
				mu.Lock()
				took, ends = append(took, now.Sub(began)), append(ends, now)
				if err != nil {
					failed = err
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	s, err := measure.end(took)
	return s, ends, firstOf(failed, err)
}

func anybody(n int64) string { return fmt.Sprintf("visitor-%d@example.com", n%int64(*people)) }

// flows compares code flows with an ID token, a new sign-in for each.
func (b *bench) flows() error {
	const rowRS, rowES, rowDex = "code flow, new sign-in, RS256", "code flow, new sign-in, ES256",
		"dex in memory, code flow, new sign-in, RS256"
	// dex starts now, so ours does too: the tokens of the parts before are still being compacted.
	if err := b.fresh(); err != nil {
		return err
	}
	dex, err := b.dex()
	if err != nil {
		return err
	}
	type contestant struct {
		name string
		p    party
		pid  int
	}
	all := []contestant{{rowRS, b.ours("flow-rs256"), b.server.PID()}, {rowES, b.ours("flow-es256"), b.server.PID()}}
	if dex != nil {
		defer dex.kill()
		all = append(all, contestant{rowDex, dex.party, dex.pid()})
	}
	bin, err := b.engines()
	if err != nil {
		return err
	}
	samples := map[string][]sample{}
	var respond []sample
	var commits []float64
	for range *rounds {
		s, err := load(b.plain(2), length(), 0)
		if err != nil {
			return err
		}
		_, c, err := b.engine(bin, "^BenchmarkFlow$")
		if err != nil {
			return err
		}
		respond, commits = append(respond, s), append(commits, c)
		for _, c := range all {
			if len(samples[c.name]) == 0 { // the people are new once
				if _, _, err := signIns(c.p, c.pid, 0, *people, anybody); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
			done := b.profileOf(c.name, length())
			s, _, err := signIns(c.p, c.pid, length(), 0, anybody)
			done()
			if err := firstOf(err, b.ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			samples[c.name] = append(samples[c.name], s)
		}
	}
	for _, c := range all {
		b.row(c.name, mediansOf(samples[c.name]))
	}
	// What any server pays at least that answers both requests with Caddy, keeps as many records, and signs.
	sign, err := signCost()
	if err != nil {
		return err
	}
	least := 2*mediansOf(respond).cpu + sign + median(commits)
	b.note("plain Caddy's respond twice, a signature by ES256, the commits", "%.1f µs of processor: %.1f, %.1f, %.1f",
		least, 2*mediansOf(respond).cpu, sign, median(commits))
	if dex == nil {
		b.notRun(rowDex, "dex")
		return nil
	}
	peer := mediansOf(samples[rowDex]).rate
	b.atLeast("code flow with an ID token / dex in memory: RS256", mediansOf(samples[rowRS]).rate/peer, 1.1)
	b.atLeast("code flow with an ID token / dex in memory: ES256", mediansOf(samples[rowES]).rate/peer, 1.8)
	most := float64(runtime.NumCPU()) * 1e6 / (least + mediansOf(samples[rowES]).own)
	b.atLeast("respond twice, a signature and the commits, by their processor / dex", most/peer, 1.8)
	return nil
}

// jwts compares JWT access tokens by client credentials.
func (b *bench) jwts() error {
	const rowRS, rowES, rowPeer = "client_credentials, JWT, RS256", "client_credentials, JWT, ES256",
		"node-oidc-provider in memory, client_credentials, opaque"
	targets := []namedTarget{{rowRS, b.issue("jwt-rs256")}, {rowES, b.issue("jwt-es256")}}
	peer, err := b.nodeProvider()
	if err != nil {
		return err
	}
	if peer != nil {
		defer peer.kill()
		targets = append(targets, namedTarget{rowPeer, peer.target})
	}
	f, err := b.medians(targets...)
	if err != nil {
		return err
	}
	if peer == nil {
		b.notRun(rowPeer, "node_modules/oidc-provider")
		return nil
	}
	b.note("JWT by client_credentials / node-oidc-provider: RS256", "%.2f", f[rowRS].rate/f[rowPeer].rate)
	b.atLeast("JWT by client_credentials / node-oidc-provider: ES256", f[rowES].rate/f[rowPeer].rate, 1.5)
	return nil
}

// again measures one person who signs in at one client again and again: the last flows are as fast as the first.
func (b *bench) again() error {
	limit := max(20*flowBrowsers, int(2000*float64(*rounds)*length().Seconds()))
	me := func(int64) string { return "again@example.com" }
	done := b.profileOf("again", 5*length())
	s, ends, err := signIns(b.ours("flow-es256"), b.server.PID(), 0, limit, me)
	done()
	if err != nil {
		return err
	}
	first, last := fifths(ends)
	b.row("one person again and again at one client, ES256", mediansOf([]sample{s}))
	b.note(fmt.Sprintf("the first and the last fifth of %d", limit), "%.0f/s, %.0f/s", first, last)
	b.atLeast("one person again and again: the last fifth / the first", last/first, 0.95)
	return nil
}

// fifths returns the rates of the first and the last fifth of what ended at these times, without the very first.
func fifths(ends []time.Time) (first, last float64) {
	n := len(ends) / 5
	if n < 2 {
		return 1, 1
	}
	rate := func(part []time.Time) float64 {
		return float64(len(part)-1) / max(part[len(part)-1].Sub(part[0]), time.Microsecond).Seconds()
	}
	return rate(ends[:n]), rate(ends[len(ends)-n:])
}
