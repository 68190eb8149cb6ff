package faults

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// doubleOpen is F12: a second process on the same directory ends with a clear message and does no harm.
func doubleOpen(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, 8)
	s.Begin(t.Context())
	second, err := s.Server.Clone(t.TempDir(), s.Server.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Kill)
	exit, gone := second.WaitExit(20 * time.Second)
	if !gone || exit == nil {
		t.Errorf("a second process on the same directory: ended %t, error %v", gone, exit)
	}
	if said := strings.ToLower(second.LogText()); !strings.Contains(said, "in use") && !strings.Contains(said, "another process") &&
		!strings.Contains(said, "lock") {
		t.Errorf("the second process does not say why it ends:\n%s", second.LogTail(5))
	}
	// A reload with other options for the same directory is refused, and the running configuration continues.
	other := strings.Replace(s.Server.Caddyfile(s.Server.Ports, s.Server.Secrets, "other options"),
		"storage badger "+s.Server.Data, "storage badger "+s.Server.Data+" {\n\t\t\tmin_free 200MiB\n\t\t}", 1)
	if a := s.Server.Load(t.Context(), other); a.Err != nil || a.Status == http.StatusOK {
		t.Errorf("Load(other options for an open directory) = %d, want a refusal: %v", a.Status, a.Err)
	}
	s.undisturbed(t, 0)
	s.Server.Kill() // its lock stays behind
	s.restart(t)
	s.Check(t.Context(), "after a stale lock", true)
	rep.add("second process refused, first answered %d requests, %d failed", s.Ledger.Acked.Load()+s.Reads.Load(), s.failed())
}

// failed counts requests without an answer or with a 5xx.
func (s setup) failed() int64 { return s.Ledger.Unknown.Load() + s.Unanswered.Load() }

// undisturbed ends the load and requires that no request failed, or that at most so many met a connection which the
// server had just closed.
func (s setup) undisturbed(t *testing.T, closed int64) {
	t.Helper()
	s.Halt()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	n, seen := s.failed(), s.Ledger.Failures()
	if n <= closed && !slices.ContainsFunc(seen, func(text string) bool { return !strings.HasSuffix(text, ": EOF") }) {
		return
	}
	if n > 0 {
		t.Errorf("%d of %d requests failed, want none; the first:\n%s", n, s.Ledger.Acked.Load()+s.Reads.Load()+n, strings.Join(seen, "\n"))
	}
}

// visitor repeatedly reads a page that needs a session, on a kept connection.
type visitor struct {
	browser       *lab.Browser
	pages, turned atomic.Int64 // turned: any answer except the page itself
	wg            sync.WaitGroup
}

func (s setup) visit(ctx context.Context, t *testing.T) *visitor {
	t.Helper()
	v := &visitor{browser: s.Server.NewBrowser()}
	a, at := v.browser.Visit(ctx, s.Server.Wiki()+"/page?a=1&b=2")
	a, at, err := v.browser.FillIn(ctx, a, at)
	if err != nil || a.Status != http.StatusOK || at != s.Server.Wiki()+"/page?a=1&b=2" {
		t.Fatalf("sign in at the protected page: %d at %s: %v", a.Status, at, err)
	}
	v.wg.Go(func() {
		for ctx.Err() == nil {
			a := v.browser.Page(ctx, s.Server.Wiki()+"/page")
			if ctx.Err() != nil {
				return
			}
			v.pages.Add(1)
			if a.Status != http.StatusOK {
				v.turned.Add(1)
				s.Ledger.fail("page", a)
			}
		}
	})
	return v
}

// streams are connections that stay open through reloads: tunnels like those of WebSockets, and a connection of HTTP/2.
type streams struct {
	done, failed  int // requests over HTTP/2
	last          error
	said, dropped atomic.Int64
	wg            sync.WaitGroup
}

// stream opens n tunnels, which send lines until ctx ends.
func (s setup) stream(ctx context.Context, t *testing.T, n int) *streams {
	t.Helper()
	token := s.Server.Issue(ctx).Text("access_token")
	out := &streams{}
	for range n {
		tunnel, err := s.Server.OpenTunnel(token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tunnel.Close)
		out.wg.Go(func() {
			for lab.Pause(ctx, 100*time.Millisecond) {
				if err := tunnel.Say("still there?"); err != nil {
					out.dropped.Add(1)
					t.Logf("a tunnel: %v", err)
					return
				}
				out.said.Add(1)
			}
		})
	}
	out.wg.Go(func() { out.done, out.failed, out.last = s.Server.HTTP2(ctx, token) })
	return out
}

// reloadsUnderLoad is F13: reloads on kept-alive connections fail no request, drop no stream and end no session.
func reloadsUnderLoad(t *testing.T, rep *report) {
	s := start(t, lab.Config{Global: servers("protocols h1 h2c")}, 32)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := s.visit(ctx, t)
	open := s.stream(ctx, t, cycles(20, 200))
	s.Begin(t.Context())
	n := cycles(4, 20)
	var longest time.Duration
	for range n {
		a := s.Server.Load(t.Context(), "")
		if a.Err != nil || a.Status != http.StatusOK {
			t.Fatalf("Load = %d %s: %v", a.Status, a.Body, a.Err)
		}
		longest = max(longest, a.Took)
		s.For(t.Context(), 250*time.Millisecond)
	}
	// The server of net/http can close a connection that became idle in the moment of a reload, before it reads again:
	// once in some 300,000 requests.
	s.undisturbed(t, 1)
	cancel()
	v.wg.Wait()
	open.wg.Wait()
	if n := open.dropped.Load(); n > 0 {
		t.Errorf("%d tunnels were dropped", n)
	}
	if open.failed > 0 || open.done == 0 {
		t.Errorf("%d of %d requests over HTTP/2 failed, the last with %v", open.failed, open.done, open.last)
	}
	if v.turned.Load() > 0 {
		t.Errorf("a signed-in browser was turned away %d of %d times", v.turned.Load(), v.pages.Load())
	}
	if _, _, a := s.workers[0].browsers[0].Code(t.Context(), lab.WebClient(0)); a.Err != nil {
		t.Errorf("the person is signed out at the issuer: %v", a.Err)
	}
	s.Check(t.Context(), "after reloads", true)
	rep.add("%d reloads, %d requests and %d pages, %d failed, longest reload %d ms, "+
		"%d lines through tunnels, %d dropped, %d requests over HTTP/2, %d failed", n,
		s.Ledger.Acked.Load()+s.Reads.Load(), v.pages.Load(), s.failed()+v.turned.Load(), longest.Milliseconds(),
		open.said.Load(), open.dropped.Load(), open.done, open.failed)
}

// brokenReload is F14: a configuration that cannot be loaded changes nothing.
func brokenReload(t *testing.T, rep *report) {
	s := start(t, lab.Config{Global: servers("")}, 16)
	locked := start(t, lab.Config{}, 1) // another server, whose directory is in use
	good := s.Server.Caddyfile(s.Server.Ports, s.Server.Secrets, "broken")
	noDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(noDir, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	replace := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the configuration has no %q", old)
		}
		return strings.Replace(good, old, by, 1)
	}
	broken := map[string]string{
		"an open block":        good + "\nhttp://localhost:1 {\n",
		"an unknown directive": replace("\tgatehouse\n}", "\tgatehouse\n\tno_such_directive\n}"),
		"an unknown option":    replace("\t\tencryption_key", "\t\tno_such_option x\n\t\tencryption_key"),
		"a bad key":            replace(s.Server.Key, "short"),
		"a short secret":       replace(s.Server.Machine, "short"),
		"an issuer with path":  replace("issuer "+s.Server.Issuer(), "issuer "+s.Server.Issuer()+"/path"),
		"a locked directory":   replace("storage badger "+s.Server.Data, "storage badger "+locked.Server.Data),
		"a file for directory": replace("storage badger "+s.Server.Data, "storage badger "+filepath.Join(noDir, "data")),
		"a storage to come":    replace("storage badger "+s.Server.Data, "storage postgres postgres://localhost/x"),
	}
	s.Begin(t.Context())
	for name, c := range broken {
		a := s.Server.Load(t.Context(), c)
		if a.Err != nil || a.Status < 400 {
			t.Errorf("Load(%s) = %d %s, want a refusal: %v", name, a.Status, a.Body, a.Err)
		}
		if strings.Contains(string(a.Body), s.Server.Machine) || strings.Contains(string(a.Body), s.Server.Password) {
			t.Errorf("Load(%s) reveals a secret in its error", name)
		}
		s.For(t.Context(), 100*time.Millisecond)
	}
	s.undisturbed(t, 0)
	if a := s.Server.Load(t.Context(), ""); a.Status != http.StatusOK {
		t.Errorf("a good configuration after the broken ones: %d %s", a.Status, a.Body)
	}
	s.Check(t.Context(), "after broken reloads", true)
	locked.Check(t.Context(), "the other server", true)
	rep.add("%d broken configurations refused, %d requests, %d failed", len(broken), s.Ledger.Acked.Load()+s.Reads.Load(), s.failed())
}

// gracefulShutdown is F15: SIGTERM ends the process after every request under way is answered.
func gracefulShutdown(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, 32)
	ctx := t.Context()
	good := s.Server.Issue(ctx).Text("access_token")
	s.Begin(ctx)
	const slow = 20
	var done atomic.Int64
	var wg sync.WaitGroup
	hits := s.Echo.Hits.Load()
	for range slow {
		wg.Go(func() {
			a := s.Server.Get(ctx, s.Server.APISite()+"/slow?ms=1500", "Authorization", "Bearer "+good, "X-Lab-Slow", "1")
			if a.Status == http.StatusOK {
				done.Add(1)
			} else {
				t.Errorf("a slow request under way at SIGTERM = %d: %v", a.Status, a.Err)
			}
		})
	}
	eventually(ctx, 5*time.Second, func() bool { return s.Echo.Hits.Load() >= hits+slow })
	s.For(ctx, 300*time.Millisecond)
	s.Halt()
	begin := time.Now()
	if err := s.Server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	exit, gone := s.Server.WaitExit(15 * time.Second)
	if !gone {
		t.Fatal("the server does not end within its grace")
	}
	took := time.Since(begin)
	if exit != nil {
		t.Errorf("the server ended with %v, want 0", exit)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	s.Check(ctx, "after a graceful end", true)
	s.figures(rep)
	rep.add("%d of %d slow requests completed, ended after %d ms", done.Load(), slow, took.Milliseconds())
}
