package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const (
	visitors  = 16 // visitors who try the providers all the time
	passwords = 4  // persons who sign in by password meanwhile
)

// patience is the longest that a page can take: the 5 s of a provider, and a margin. The short round runs next to other
// tests that want the processor, and passwords are hashed at a low priority, so it only looks for pages without an end,
// and a sign-in by password can be refused since too many wait.
func patience() time.Duration {
	if testing.Short() {
		return clientWaits - time.Second
	}
	return 5*time.Second + 4*time.Second
}

// providersDown is F18: external identity providers of every kind that are down, slow, flapping or answer garbage show
// their own users a page with a way back, sign no one in, do not affect others, and leave nothing behind.
func providersDown(t *testing.T, rep *report) {
	expired := partner(t, true)
	e := newEngines(t)
	c := lab.Config{Persons: passwords, Global: servers("max_header_size 128KiB"), Dir: t.TempDir()} // tickets are long
	c.Gatehouse = e.caddyfile(t, c.Dir) + fmt.Sprintf("\t\tidp expired saml {\n\t\t\tmetadata https://localhost:%d/saml/metadata\n\t\t}",
		expired.Port)
	s := start(t, c, passwords)
	s.awaitAll(t, e, "before anything fails")
	s.renew(t, "first")
	idle := s.usage(t)
	d := 20 * time.Second
	modes := []string{lab.Down, lab.Slow, lab.HalfOpen, lab.Drip, lab.Garbage, lab.Endless, lab.Flapping}
	if testing.Short() {
		d = time.Second
		modes = []string{lab.Slow, lab.Garbage, lab.Flapping}
	}
	for _, mode := range modes {
		var base *signInCounts
		if !testing.Short() {
			base = s.signIns(t, d/2, e.all) // just before, because the machine's speed varies
		}
		e.front.Be(mode)
		s.renew(t, mode) // nothing about the providers is cached any more
		s.know(t, e)
		e.back.Be(mode)
		e.dir.Be(mode)
		taken := e.taken()
		got := s.signIns(t, d, e.all)
		s.judge(t, mode, got, base, idle)
		taken = e.taken() - taken
		e.front.Be(lab.Good)
		e.back.Be(lab.Good)
		e.dir.Be(lab.Good)
		rep.add("%s: password sign-ins 99%% %d ms, %d tries, longest %d ms, %d connections, goroutines +%d", mode,
			got.p99().Milliseconds(), got.tries.Load(), got.longest.Load(), taken, max(got.goroutines-idle.goroutines, 0))
		if base != nil {
			rep.add("%d ms before, back after %d ms", base.p99().Milliseconds(), s.awaitAll(t, e, mode).Milliseconds())
		}
	}
	s.judge(t, "expired certificate", s.signIns(t, d/2, []engine{e.redirects("expired")}), nil, idle)
	rep.add("back after %d ms", s.awaitAll(t, e, "the last failure").Milliseconds())
	s.renew(t, "last")
	s.leftOver(t, idle, rep)
}

// usage are the resources that the server uses.
type usage struct{ goroutines, sockets int }

func (s setup) usage(t *testing.T) usage {
	t.Helper()
	sockets, err := lab.Sockets(s.Server.PID())
	if err != nil {
		t.Fatal(err)
	}
	return usage{int(s.Server.Metric(t.Context(), "go_goroutines")), sockets}
}

// leftOver waits until the server uses no more than before, but for what it keeps for its own clients.
func (s setup) leftOver(t *testing.T, idle usage, rep *report) {
	t.Helper()
	const spare = 8
	var now usage
	took, ok := eventually(t.Context(), 40*time.Second, func() bool {
		now = s.usage(t)
		return now.goroutines <= idle.goroutines+spare && now.sockets <= idle.sockets+spare
	})
	if !ok {
		t.Errorf("%d goroutines and %d sockets are left, %d and %d before", now.goroutines, now.sockets, idle.goroutines, idle.sockets)
	}
	rep.add("goroutines %d (%d before), sockets %d (%d) after %d ms", now.goroutines, idle.goroutines, now.sockets,
		idle.sockets, took.Milliseconds())
}

// know has the server fetch what it keeps of the providers at back.
func (s setup) know(t *testing.T, e *engines) {
	t.Helper()
	for _, id := range []string{"artifact", "late"} {
		g := s.guest(net.IPv4(127, 0, 0, 1))
		if a, at := g.begin(id); !g.away(at) {
			t.Errorf("%s works, and is not reached: %d %v", id, a.Status, a.Err)
		}
		g.Forget()
	}
	// The old server has metadata of its own.
	g := s.guest(net.IPv4(127, 0, 0, 1))
	defer g.Forget()
	a, at := g.begin("")
	g.fill(a, at, "visitor-"+g.name, "password")
}

// awaitAll waits until all providers work.
func (s setup) awaitAll(t *testing.T, e *engines, after string) time.Duration {
	t.Helper()
	began := time.Now()
	for i, one := range e.all {
		_, ok := eventually(t.Context(), 40*time.Second, func() bool {
			g := s.guest(net.IPv4(127, 0, 1, byte(i+1)))
			defer g.Forget()
			return one.works(g)
		})
		if !ok {
			t.Errorf("%s: the provider %s works, but sign-ins do not", after, one.id)
		}
	}
	return time.Since(began)
}

func partner(t *testing.T, expired bool) *lab.Partner {
	t.Helper()
	p, err := lab.NewPartner(expired)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// renew loads the same configuration again, with another comment.
func (s setup) renew(t *testing.T, comment string) {
	t.Helper()
	if a := s.Server.Load(t.Context(), s.Server.Caddyfile(s.Server.Ports, s.Server.Secrets, comment)); a.Status != http.StatusOK {
		t.Fatalf("Load = %d %s: %v", a.Status, a.Body, a.Err)
	}
}

// signInCounts is the outcome of sign-ins.
type signInCounts struct {
	mu         sync.Mutex // guards times, failed and wrong
	times      []time.Duration
	failed     []string // sign-ins by password
	wrong      []string // unexpected answers to tries at a provider
	tries      atomic.Int64
	longest    atomic.Int64 // ms of a page
	goroutines int          // maximum
}

func (r *signInCounts) p99() time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r.times))[len(r.times)*99/100]
}

// rounds counts the rounds of visitors, each of which comes from addresses of its own: wrong passwords are counted by
// address.
var rounds atomic.Int32

// signIns lets persons sign in by password for d, while visitors try the providers.
func (s setup) signIns(t *testing.T, d time.Duration, providers []engine) *signInCounts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r := &signInCounts{}
	var wg sync.WaitGroup
	for i := range passwords {
		wg.Go(func() {
			for ctx.Err() == nil {
				b := s.Server.NewBrowser()
				b.Person, b.HTTP.Timeout = lab.Person(i), clientWaits
				began := time.Now()
				_, _, err := b.SignIn(t.Context(), lab.WebClient(i))
				took := time.Since(began)
				b.Forget()
				r.mu.Lock()
				r.times = append(r.times, took)
				if err != nil && !(testing.Short() && strings.Contains(err.Error(), "answered 503")) { // see patience
					r.failed = append(r.failed, err.Error())
				}
				r.mu.Unlock()
				lab.Pause(ctx, 20*time.Millisecond)
			}
		})
	}
	round := byte(rounds.Add(1)) //nolint:gosec // some dozen
	for i := range visitors {
		wg.Go(func() {
			from := net.IPv4(127, round, 0, byte(i+1)) //nolint:gosec // below 17
			for n := i; ctx.Err() == nil; n++ {
				took, problem := s.try(providers[n%len(providers)], from)
				r.tries.Add(1)
				r.mu.Lock()
				r.longest.Store(max(r.longest.Load(), took.Milliseconds()))
				if problem != "" {
					r.wrong = append(r.wrong, problem)
				}
				r.mu.Unlock()
				lab.Pause(ctx, 100*time.Millisecond)
			}
		})
	}
	for lab.Pause(ctx, 250*time.Millisecond) {
		r.goroutines = max(r.goroutines, s.usage(t).goroutines)
	}
	wg.Wait()
	return r
}

// guests numbers them, so their names and codes are their own.
var guests atomic.Int64

// guest is a new browser at an address.
func (s setup) guest(from net.IP) *guest {
	g := &guest{Browser: s.Server.NewBrowserFrom(from), name: strconv.FormatInt(guests.Add(1), 10)}
	g.HTTP.Timeout = clientWaits
	return g
}

// try has a new browser try an engine, and returns what is wrong.
func (s setup) try(e engine, from net.IP) (took time.Duration, problem string) {
	g := s.guest(from)
	defer g.Forget()
	a, at := e.try(g)
	problem = judgeEnd(g, a, at)
	switch {
	case problem != "":
	case e.always && !g.away(at):
		problem = fmt.Sprintf("it works, and is not reached: status %d at %s: %.300s", a.Status, at, a.Body)
	case g.took > patience():
		problem = fmt.Sprintf("a page took %v", g.took)
	default:
		return g.took, ""
	}
	return g.took, e.id + ": " + problem
}

// judge wants that sign-ins by password and tries went well. base are sign-ins while nothing fails; nil: their times
// are not compared.
func (s setup) judge(t *testing.T, mode string, got, base *signInCounts, idle usage) {
	t.Helper()
	if len(got.failed) > 0 {
		t.Errorf("%s: %d of %d sign-ins by password failed; the first: %s", mode, len(got.failed), len(got.times), got.failed[0])
	}
	if len(got.wrong) > 0 {
		t.Errorf("%s: %d of %d tries at the provider ended badly; the first: %s", mode, len(got.wrong), got.tries.Load(), got.wrong[0])
	}
	if base != nil {
		if limit := max(2*base.p99(), base.p99()+100*time.Millisecond); got.p99() > limit {
			t.Errorf("%s: 99%% of the sign-ins by password within %v, want %v", mode, got.p99(), limit)
		}
	}
	if most := idle.goroutines + 12*visitors + 100; got.goroutines > most {
		t.Errorf("%s: %d goroutines, want %d at most", mode, got.goroutines, most)
	}
}
