package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

func length() time.Duration { return time.Duration(*seconds * float64(time.Second)) }

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

func (b *bench) site(port, conns int, method, path, form string, headers ...string) target {
	return target{
		addr: fmt.Sprintf("127.0.0.1:%d", port), conns: conns, want: http.StatusOK,
		request: lab.Request(method, fmt.Sprintf("localhost:%d", port), path, form, headers...),
	}
}

// namedTarget is a target with the name of its figures.
type namedTarget struct {
	name string
	t    target
}

// The requests to measure.
func (b *bench) plain() target {
	return b.site(b.server.Ports.Open, 16, "GET", "/orders", "", "Authorization", "Bearer "+b.token)
}

func (b *bench) protected() target {
	return b.site(b.server.Ports.API, 16, "GET", "/orders", "", "Authorization", "Bearer "+b.token)
}

func (b *bench) forwardAuth() target {
	return b.site(b.extra[0], 16, "GET", "/orders", "", "Authorization", "Bearer "+b.token)
}

func (b *bench) respond() target { return b.site(b.extra[1], 16, "GET", "/", "") }

func (b *bench) introspect(conns int) target {
	return b.site(b.server.Ports.Issuer, conns, "POST", "/oauth/api/v2/token/introspect", "token="+b.token,
		"Authorization", basic(lab.APIID, b.server.API), "Accept", "application/json")
}

func (b *bench) issue() target {
	return b.site(b.server.Ports.Issuer, 64, "POST", "/oauth/token", "grant_type=client_credentials&scope="+lab.Scope,
		"Authorization", basic(lab.MachineID, b.server.Machine))
}

// medians measures the targets one after the other, round after round, so that other load on the machine affects all of
// them.
func (b *bench) medians(targets ...namedTarget) (rates, cpus, p99s map[string]float64, err error) {
	all := map[string][]sample{}
	for range *rounds {
		for _, n := range targets {
			done := b.profileOf(n.name, length())
			s, err := load(n.t, b.server.PID(), length(), 0)
			done()
			if err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", n.name, err)
			}
			all[n.name] = append(all[n.name], s)
			if err := b.ctx.Err(); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	rates, cpus, p99s = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for name, samples := range all {
		var r, c, p []float64
		for _, s := range samples {
			r, c, p = append(r, s.rate()), append(c, s.perRequest()), append(p, float64(s.p99.Microseconds()))
		}
		rates[name], cpus[name], p99s[name] = median(r), median(c), median(p)
	}
	return rates, cpus, p99s, nil
}

// speed compares requests that only read.
func (b *bench) speed() error {
	rate, cpu, p99, err := b.medians(namedTarget{"plain", b.plain()}, namedTarget{"protect", b.protected()},
		namedTarget{"forward_auth", b.forwardAuth()}, namedTarget{"respond", b.respond()}, namedTarget{"introspect", b.introspect(16)})
	if err != nil {
		return err
	}
	for _, n := range []string{"plain", "protect", "forward_auth", "respond", "introspect"} {
		b.note(n+": req/s, µs of processor, p99", "%.0f, %.1f, %.1f ms", rate[n], cpu[n], p99[n]/1000)
	}
	b.figure(cpu["protect"]-cpu["plain"] <= 20, "protect: µs of processor above the same site without", "<= 20", "%.1f", cpu["protect"]-cpu["plain"])
	r := rate["protect"] / rate["plain"]
	b.figure(r >= 0.88, "protect: req/s of the same site without", ">= 0.88 (aim 0.95)", "%.3f", r)
	r = rate["protect"] / rate["forward_auth"]
	b.figure(r >= 1.9, "protect: req/s of forward_auth to a trivial authorizer", ">= 1.9", "%.2f", r)
	r = rate["introspect"] / rate["respond"]
	b.figure(r >= 0.55, "introspection: req/s of respond", ">= 0.55", "%.3f", r)
	b.figure(cpu["introspect"] <= 55, "introspection: µs of processor", "<= 55", "%.1f", cpu["introspect"])
	return nil
}

var nsPerOp = regexp.MustCompile(`(\d+(?:\.\d+)?) ns/op`)

// engine runs one benchmark of the storage package, in this run and on this disk, and returns operations a second.
func (b *bench) engine(bin, bench string) (float64, error) {
	cmd := exec.Command(bin, "-test.run=^$", "-test.bench="+bench, "-test.benchtime="+length().String(), "-test.count=1")
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", bench, err, out)
	}
	m := nsPerOp.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s prints no ns/op: %s", bench, out)
	}
	ns, err := strconv.ParseFloat(string(m[1]), 64)
	return 1e9 / ns, err
}

// syncs returns the median time of a synced append of 4 KiB on this disk, in microseconds.
func (b *bench) syncs() (float64, error) {
	f, err := os.CreateTemp(b.dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var all []float64
	for range 300 {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, float64(time.Since(begin).Microseconds()))
	}
	return median(all), nil
}

// durable compares token issue with the limits of the disk and the engine.
func (b *bench) durable() error {
	bin := filepath.Join(b.dir, "badgerstore.test")
	build := exec.Command("go", "test", "-c", "-o", bin, "./storage/badgerstore")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var issue, cpu, p99, raw, put, sync []float64
	for range *rounds {
		done := b.profileOf("issue", length())
		s, err := load(b.issue(), b.server.PID(), length(), 0)
		done()
		if err != nil {
			return err
		}
		r, err1 := b.engine(bin, "^BenchmarkRawBadgerSyncWrites$")
		p, err2 := b.engine(bin, "^BenchmarkUpdate$/^writers=64$")
		y, err3 := b.syncs()
		if err := errors.Join(err1, err2, err3, b.ctx.Err()); err != nil {
			return err
		}
		issue, cpu, p99 = append(issue, s.rate()), append(cpu, s.perRequest()), append(p99, float64(s.p99.Microseconds()))
		raw, put, sync = append(raw, r), append(put, p), append(sync, y)
	}
	b.note("client_credentials, 64 connections: req/s, µs of processor", "%.0f, %.1f", median(issue), median(cpu))
	b.note("raw Badger, SyncWrites, 64 writers: puts/s", "%.0f", median(raw))
	b.note("our store, 64 writers, a 300-byte Put a closure: puts/s", "%.0f", median(put))
	b.note("median sync of a 4 KiB append", "%.0f µs", median(sync))
	r := median(issue) / median(raw)
	b.figure(r >= 2.5, "client_credentials: req/s of raw Badger", ">= 2.5", "%.2f", r)
	r = median(issue) / median(put)
	b.figure(r >= 0.4, "client_credentials: req/s of our store", ">= 0.4", "%.2f", r)
	r = median(p99) / median(sync)
	b.figure(r <= 8, "client_credentials: p99 in syncs of the disk", "<= 8", "%.1f (%.1f ms)", r, median(p99)/1000)
	return nil
}

// half measures the token endpoint and introspection at half of their peak rate.
func (b *bench) half() error {
	var sync []float64
	p99s := map[string][]float64{}
	rates := map[string][]float64{}
	targets := []namedTarget{{"client_credentials", b.issue()}, {"introspection", b.introspect(64)}, {"respond", b.respond()}}
	for range *rounds {
		for _, n := range targets {
			peak, err := load(n.t, b.server.PID(), length(), 0)
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
	b.note("respond: p99 at half of its peak rate, for comparison", "%.2f ms at %.0f/s", median(p99s["respond"])/1000, median(rates["respond"]))
	for _, n := range targets[:2] {
		p99 := median(p99s[n.name])
		b.figure(p99 <= 8*median(sync), n.name+": p99 at half of its peak rate, in syncs of the disk", "<= 8", "%.1f (%.2f ms at %.0f/s)",
			p99/median(sync), p99/1000, median(rates[n.name]))
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
	begin := time.Now()
	if err := l.pace(rate, d); err != nil {
		return sample{}, err
	}
	slices.Sort(l.latencies)
	return sample{requests: l.done, elapsed: time.Since(begin), p50: quantile(l.latencies, 0.5), p99: quantile(l.latencies, 0.99)}, nil
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

// beside measures introspection while tokens are issued, and Caddy's own respond, which reads nothing, for comparison.
func (b *bench) beside() error {
	d := 2 * length()
	idle, busy := map[string][]float64{}, map[string][]float64{}
	targets := []namedTarget{{"introspection", b.introspect(8)}, {"respond", b.respond()}}
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
	b.note("respond: p99 idle, and while 64 connections issue tokens, for comparison", "%.2f ms, %.2f ms", median(idle["respond"])/1000, median(busy["respond"])/1000)
	i, w := median(idle["introspection"]), median(busy["introspection"])
	b.figure(w <= i+2000, "introspection p99 while 64 connections issue tokens", fmt.Sprintf("<= idle %.2f + 2 ms", i/1000), "%.2f ms", w/1000)
	return nil
}

// besideIssue is pacedP99 while 64 connections issue tokens.
func (b *bench) besideIssue(n namedTarget, d time.Duration) (float64, error) {
	var lerr error
	var wg sync.WaitGroup
	wg.Go(func() { _, lerr = load(b.issue(), b.server.PID(), d+time.Second, 0) })
	pause(500 * time.Millisecond)
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
	var idle, busy []float64
	var n tally
	for range *rounds {
		i, err := b.pacedP99(b.introspect(8), 1000, d)
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
		pause(500 * time.Millisecond)
		done := b.profileOf("flood", d)
		w, err := b.pacedP99(b.introspect(8), 1000, d)
		stop.Store(true)
		done()
		wg.Wait()
		if err := errors.Join(err, b.ctx.Err()); err != nil {
			return err
		}
		idle, busy = append(idle, i), append(busy, w)
	}
	limit := max(3*median(idle), 25_000)
	b.note("login flood, 100/s: signed in, 503, 429, something else", "%d, %d, %d, %d", n.signedIn.Load(), n.busy.Load(), n.throttled.Load(), n.other.Load())
	b.figure(n.busy.Load() > 0 && n.silent.Load() == 0 && n.other.Load() == 0, "login flood: beyond the queue 503 with Retry-After", "all", "%d without", n.silent.Load()+n.other.Load())
	b.figure(median(busy) <= limit, "introspection p99 at 1,000 req/s during the flood", fmt.Sprintf("<= %.1f ms (idle %.2f)", limit/1000, median(idle)/1000), "%.2f ms", median(busy)/1000)
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

// memory measures anonymous memory: idle, while a million tokens are issued and read, and idle again.
func (b *bench) memory() error {
	if err := b.fresh(); err != nil {
		return err
	}
	pause(10 * time.Second)
	rss := func() float64 {
		n, err := lab.RssAnon(b.server.PID())
		if err != nil {
			return 0
		}
		return float64(n) / 1e6
	}
	idle := rss()
	b.figure(idle < 100, "RssAnon idle", "< 100 MB", "%.0f MB", idle)
	var peak []float64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				peak = append(peak, rss())
			}
		}
	})
	begin := time.Now()
	_, err := load(b.issue(), b.server.PID(), 0, *tokens)
	took := time.Since(begin)
	if err == nil {
		_, err = load(b.introspect(16), b.server.PID(), 2*length(), 0)
	}
	close(stop)
	wg.Wait()
	if err != nil {
		return err
	}
	b.note(fmt.Sprintf("%d tokens issued", *tokens), "in %.0f s", took.Seconds())
	b.figure(slices.Max(peak) < 320, fmt.Sprintf("RssAnon at the peak of load, %d live tokens", *tokens), "< 320 MB", "%.0f MB", slices.Max(peak))
	again := rss()
	begin = time.Now()
	for again >= 256 && time.Since(begin) < 3*time.Minute && b.ctx.Err() == nil {
		pause(time.Second)
		again = rss()
	}
	waited := time.Since(begin)
	pause(30 * time.Second)
	again = rss()
	b.figure(again < 256, fmt.Sprintf("RssAnon idle again, %d live tokens", *tokens), "< 256 MB", "%.0f MB (after %.0f s)", again, (waited + 30*time.Second).Seconds())
	ready, err := b.reopen()
	if err != nil {
		return err
	}
	b.note("start on them after kill -9", "%d ms", ready.Milliseconds())
	b.note("machine", "%d processors, %s", runtime.NumCPU(), runtime.Version())
	return nil
}

func (b *bench) reopen() (time.Duration, error) {
	b.server.Kill()
	return b.server.StartReady(b.ctx)
}
