package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// half measures the token endpoint and introspection at half of their peak rate.
func (b *bench) half() error {
	var sync []float64
	p99s := map[string][]float64{}
	rates := map[string][]float64{}
	targets := []namedTarget{
		{"client_credentials", b.issue(lab.MachineID)},
		{"introspection", b.introspect("client", 64)},
		{rowRespond, b.plain(2)},
		{"load generator alone", b.floor(64)},
	}
	for range *rounds {
		for _, n := range targets {
			peak, err := load(n.t, length(), 0)
			if err != nil {
				return err
			}
			s, err := halfOf(n.t, int(peak.rate()/2), length())
			if err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			p99s[n.name], rates[n.name] = append(p99s[n.name], float64(s.p99.Microseconds())), append(rates[n.name], s.rate())
		}
		y, err := b.syncs()
		if err := errors.Join(err, b.ctx.Err()); err != nil {
			return err
		}
		sync = append(sync, y)
	}
	for _, n := range targets {
		b.note(n.name+", p99 at half of its peak rate", "%.2f ms at %.0f/s", median(p99s[n.name])/1000, median(rates[n.name]))
	}
	for _, n := range targets[:2] {
		b.atMost(n.name+", p99 at half of its peak rate, in syncs of the disk", median(p99s[n.name])/median(sync), 8)
	}
	return nil
}

// halfOf sends requests at a rate over the target's connections.
func halfOf(t target, rate int, d time.Duration) (sample, error) {
	l, err := newLoop(t)
	if err != nil {
		return sample{}, err
	}
	defer l.close() //nolint:errcheck // it was only read
	began := time.Now()
	if err := l.pace(rate, d); err != nil {
		return sample{}, err
	}
	slices.Sort(l.latencies)
	return sample{requests: l.done, elapsed: time.Since(began), p50: quantile(l.latencies, 0.5), p99: quantile(l.latencies, 0.99)}, nil
}

// pacedP99 measures a target at a rate in a separate process and returns p99 in microseconds.
func (b *bench) pacedP99(t target, rate int, d time.Duration) (float64, error) {
	cmd := exec.Command(b.self, "-role", "paced", "-addr", t.addr, "-rate", strconv.Itoa(rate), "-seconds", fmt.Sprint(d.Seconds()))
	cmd.Stdin = bytes.NewReader(t.request)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("paced requests: %w", err)
	}
	var q [3]time.Duration
	if err := json.Unmarshal(out, &q); err != nil {
		return 0, err
	}
	return float64(q[1].Microseconds()), nil
}

// whileIssuing measures introspection while tokens are issued, and Caddy's own respond, which reads nothing, for
// comparison.
func (b *bench) whileIssuing() error {
	d := 2 * length()
	idle, busy := map[string][]float64{}, map[string][]float64{}
	targets := []namedTarget{{"introspection", b.introspect("client", 8)}, {rowRespond, b.plain(2)}, {"load generator alone", b.floor(8)}}
	for range *rounds {
		for _, n := range targets {
			i, err := b.pacedP99(n.t, 500, d)
			if err != nil {
				return err
			}
			w, err := b.besideIssue(n, d)
			if err := errors.Join(err, b.ctx.Err()); err != nil {
				return err
			}
			idle[n.name], busy[n.name] = append(idle[n.name], i), append(busy[n.name], w)
		}
	}
	for _, n := range targets {
		b.note(n.name+", p99 at 500/s idle, and while 64 issue tokens", "%.2f ms, %.2f ms", median(idle[n.name])/1000,
			median(busy[n.name])/1000)
	}
	i, w := median(idle["introspection"]), median(busy["introspection"])
	b.atMost("introspection, p99 in ms while 64 issue tokens, above idle", (w-i)/1000, 2)
	return nil
}

// besideIssue is pacedP99 while 64 connections issue tokens.
func (b *bench) besideIssue(n namedTarget, d time.Duration) (float64, error) {
	var lerr error
	var wg sync.WaitGroup
	wg.Go(func() { _, lerr = load(b.issue(lab.MachineID), d+d/4, 0) })
	pause(min(d/4, 500*time.Millisecond))
	done := func() {}
	if n.name == "introspection" {
		done = b.profileOf("beside", d)
	}
	p99, err := b.pacedP99(n.t, 500, d)
	done()
	wg.Wait()
	return p99, errors.Join(err, lerr)
}

// floodRate is the number of attempted sign-ins a second, several times what a machine of two processors can hash. The
// browsers run on the same processors, so without a limit they would be measured instead.
const floodRate = 100

// flood measures introspection at 1,000 req/s while browsers sign in repeatedly.
func (b *bench) flood() error {
	d := 2 * length()
	var idle, busy, floor []float64
	var n tally
	for range *rounds {
		f, err := b.pacedP99(b.floor(8), 1000, d)
		if err != nil {
			return err
		}
		i, err := b.pacedP99(b.introspect("client", 8), 1000, d)
		if err != nil {
			return err
		}
		var stop atomic.Bool
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for !stop.Load() {
					next := time.Now().Add(32 * time.Second / floodRate)
					b.signIn(i, &n)
					pause(time.Until(next))
				}
			})
		}
		pause(min(d/4, 500*time.Millisecond))
		done := b.profileOf("flood", d)
		w, err := b.pacedP99(b.introspect("client", 8), 1000, d)
		stop.Store(true)
		done()
		wg.Wait()
		if err := errors.Join(err, b.ctx.Err()); err != nil {
			return err
		}
		idle, busy, floor = append(idle, i), append(busy, w), append(floor, f)
	}
	b.note("100 sign-ins a second: signed in, 503, 429, something else", "%d, %d, %d, %d", n.signedIn.Load(), n.busy.Load(),
		n.throttled.Load(), n.other.Load())
	b.note("load generator alone, p99 at 1,000/s", "%.2f ms", median(floor)/1000)
	b.note("introspection, p99 at 1,000/s idle", "%.2f ms", median(idle)/1000)
	b.atMost("100 sign-ins a second: refused without Retry-After, or answered wrongly", float64(n.silent.Load()+n.other.Load()), 0)
	b.atMost("introspection, p99 in ms at 1,000/s, 100 sign-ins a second tried", median(busy)/1000, 5)
	return nil
}

// tally counts the outcomes of sign-ins. silent ones were refused without a Retry-After.
type tally struct{ signedIn, busy, throttled, silent, other atomic.Int64 }

// signIn signs in with a new browser and counts the outcome.
func (b *bench) signIn(i int, n *tally) {
	br := b.server.NewBrowser()
	br.Person = lab.Person(i) // one person from one address is throttled before anything is hashed
	defer br.Forget()
	_, challenge := lab.Challenge()
	a, at := br.Visit(b.ctx, b.server.AuthorizeURL(lab.WebClient(i%32), challenge))
	a, at, err := br.FillIn(b.ctx, a, at)
	if (a.Status == http.StatusServiceUnavailable || a.Status == http.StatusTooManyRequests) && a.Header.Get("Retry-After") == "" {
		n.silent.Add(1)
	}
	switch {
	case err == nil && a.Status == http.StatusFound && strings.HasPrefix(at, lab.Callback):
		n.signedIn.Add(1)
	case a.Status == http.StatusServiceUnavailable:
		n.busy.Add(1)
	case a.Status == http.StatusTooManyRequests:
		n.throttled.Add(1)
	default:
		if n.other.Add(1) <= 3 {
			fmt.Fprintf(os.Stderr, "bench: a sign-in came to %d at %.80s: %v %v\n", a.Status, at, a.Err, err)
		}
	}
}
