package forwardauth_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
)

// TestRefusedQuestionsDoNotCount: what a question asks besides its gate is judged before anything counts.
func TestRefusedQuestionsDoNotCount(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	q := forwardauth.Question{
		Method: http.MethodGet, Scheme: "https", Host: "shop.test", Target: "/", Gate: "limited", Client: netip.MustParseAddr("192.0.2.7"),
		Header: headers("Authorization", "Bearer "+i.bearer(ann())),
	}
	for _, narrow := range []url.Values{{"group": {"nobody is in it"}}, {"scope": {"none.has.it"}}, {"level": {"4"}}} {
		for range 3 {
			q.Narrow = narrow
			if a := ask(t, g, q); a.Passed || a.Status != http.StatusForbidden && a.Status != http.StatusUnauthorized {
				t.Errorf("Ask for %v = %d, want that it is refused, and not for a limit", narrow, a.Status)
			}
		}
	}
	q.Narrow = nil
	for n := range 2 {
		if a := ask(t, g, q); !a.Passed {
			t.Errorf("question %d after those that were refused = %d, want that it passes", n+1, a.Status)
		}
	}
}

// TestLimitsBehindAnotherProxy: each kind of proxy is told what is left, and refuses what is above a limit.
func TestLimitsBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			g := i.gates()
			q := forwardauth.Question{
				Method: http.MethodGet, Scheme: "https", Host: "shop.test", Target: "/", Gate: "limited", Client: netip.MustParseAddr("192.0.2.7"),
				Header: headers("Authorization", "Bearer "+i.bearer(ann())),
			}
			for range 2 {
				res := by(kind, "limited", q).do(g)
				holds(t, kind, res)
				if got := res.Header.Get("RateLimit"); res.StatusCode != http.StatusOK || !strings.HasPrefix(got, `"client h";r=`) {
					t.Fatalf("status = %d, RateLimit = %q", res.StatusCode, got)
				}
			}
			want := http.StatusTooManyRequests
			if kind == "nginx" { // which knows no other refusals
				want = http.StatusForbidden
			}
			res := by(kind, "limited", q).do(g)
			holds(t, kind, res)
			if res.StatusCode != want || res.Header.Get("Retry-After") == "" || !strings.Contains(res.Header.Get("RateLimit"), ";r=0;") {
				t.Errorf("status = %d, %v, want %d and when to come again", res.StatusCode, res.Header, want)
			}
			if a := ask(t, g, q); a.Passed || a.Status != http.StatusTooManyRequests {
				t.Errorf("Ask = %d, want 429", a.Status)
			}
		})
	}
}
