package authztest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// canaries are tokens of another person at another client that no attack must affect.
type canaries struct{ active, revoked string }

func (h *Harness) newCanaries() canaries {
	h.T.Helper()
	if h.Config.Clients == nil || h.client("other") == nil {
		return canaries{}
	}
	b := h.Browser(Guest)
	c := canaries{active: b.Tokens("other", "scope", "profile").Access, revoked: b.Tokens("other", "scope", "profile").Access}
	if res := h.Revoke("other", c.revoked); res.Status != http.StatusOK {
		h.T.Fatalf("Revoke(canary) = %d %s, want 200", res.Status, res.Body)
	}
	return c
}

// AllowFailures lets answers of 5xx pass in Invariants, for tests that break the store.
func (h *Harness) AllowFailures() { h.watch.allowFailures(true) }

// Invariants fails the test when a rule is broken that holds for any request: no 5xx, no panic, no answer without its
// protective headers or with internals in it, no change to tokens of other persons, no secret in the log.
func (h *Harness) Invariants(t testing.TB) {
	t.Helper()
	if n := h.Server().Panics(); n != 0 {
		t.Errorf("%d requests panicked: %s", n, h.Log())
	}
	for _, what := range h.watch.take() {
		t.Error(what)
	}
	if h.canaries.active != "" {
		if !h.Active(h.canaries.active) {
			t.Error("the canary token is no longer active")
		}
		if h.Active(h.canaries.revoked) {
			t.Error("the revoked canary token is active")
		}
	}
	log := h.Log()
	for _, secret := range append(h.watch.issued(), clientSecrets(h)...) {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds a token or secret: %.9s…", secret)
		}
	}
}

func clientSecrets(h *Harness) (out []string) {
	for _, c := range h.Config.Clients {
		for _, s := range c.Secrets {
			out = append(out, s.Reveal())
		}
	}
	return out
}

// watcher looks at every answer of the server.
type watcher struct {
	mu       sync.Mutex // guards all below
	wrong    []string
	tokens   map[string]bool
	failures bool
}

func (a *watcher) allowFailures(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = yes
}

func (a *watcher) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	wrong := a.wrong
	a.wrong = nil
	return wrong
}

func (a *watcher) issued() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t := range a.tokens {
		out = append(out, t)
	}
	return out
}

var (
	insides   = regexp.MustCompile(`goroutine \d|\.go:\d|runtime error|badger|storage:|authz[.:]|SELECT |zap\.|\[redacted\]`)
	tokenForm = regexp.MustCompile(`gh[a-z]{2}_[A-Za-z0-9_-]{49}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`)
)

type recorder struct {
	http.ResponseWriter

	status int
	body   strings.Builder
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

func (a *watcher) around(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	next.ServeHTTP(rec, r)
	what := func(format string, args ...any) string {
		return fmt.Sprintf("%s %s = %d: ", r.Method, r.URL.Path, rec.status) + fmt.Sprintf(format, args...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h := w.Header()
	if rec.status >= http.StatusInternalServerError && !a.failures {
		a.wrong = append(a.wrong, what("a failure of ours: %s", rec.body.String()))
	}
	preflight := r.Method == http.MethodOptions && rec.status == http.StatusNoContent
	cacheable := strings.HasPrefix(r.URL.Path, "/.well-known/") || r.URL.Path == "/oauth/jwks"
	if !cacheable && !preflight && h.Get("Cache-Control") != "no-store" {
		a.wrong = append(a.wrong, what("Cache-Control %q, want no-store", h.Get("Cache-Control")))
	}
	if !preflight && h.Get("X-Content-Type-Options") != "nosniff" {
		a.wrong = append(a.wrong, what("no nosniff"))
	}
	all := rec.body.String()
	for _, values := range h {
		all += "\n" + strings.Join(values, "\n")
	}
	if found := insides.FindString(all); found != "" {
		a.wrong = append(a.wrong, what("the answer shows %q", found))
	}
	for _, t := range tokenForm.FindAllString(all, -1) {
		if a.tokens == nil {
			a.tokens = map[string]bool{}
		}
		a.tokens[t] = true
	}
}
