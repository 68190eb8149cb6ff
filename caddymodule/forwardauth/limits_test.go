package forwardauth_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
)

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
