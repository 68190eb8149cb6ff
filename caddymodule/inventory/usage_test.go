package inventory_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A use is one validation, one introspection or one request that protect lets through, and there are never more than
// the limit.
func TestUsageLimit(t *testing.T) {
	const limit = 30
	s := servertest.NewServer(t)
	s.Extra = `scope orders.read {
		usage_limit 30
	}
	client rs {
		secret ` + servertest.TestSecret + `
		grants validate_bearer
	}`
	s.Site = "protect\n\tprotect orders.read" // a request counts once however many it meets
	s.MustLoad()
	post := func(path, id, secret string, f url.Values) string {
		r := s.Request(http.MethodPost, s.Issuer()+path, strings.NewReader(f.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(id, secret)
		_, body := s.Do(r)
		return body
	}
	token := s.Token()
	var good atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			<-start
			ok := false
			switch i % 3 {
			case 0:
				ok = s.Enters(token) == http.StatusOK
			case 1:
				ok = strings.Contains(post("/oauth/api/v2/token/introspect", "ops", "the-secret-of-ops-in-all-of-these-tests",
					url.Values{"token": {token}}), `"usage_limit":30`)
			case 2:
				ok = strings.Contains(post("/oauth/token", "rs", servertest.TestSecret,
					url.Values{"grant_type": {"urn:service:oauth2:grant_type:validate_bearer"}, "token": {token}}), `"usage_limit":30`)
			}
			if ok {
				good.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if good.Load() != limit {
		t.Errorf("%d uses succeeded, want %d", good.Load(), limit)
	}
	if got := s.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a token that is used up, want 401", got)
	}
	// What protect turns away is no use.
	other := s.Token()
	for range 2 * limit {
		r := s.Request(http.MethodGet, "http://"+s.API+"/?access_token=x", nil)
		r.Header.Set("Authorization", "Bearer "+other)
		if resp, _ := s.Do(r); resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("status = %d, want 400", resp.StatusCode)
		}
	}
	for i := range limit {
		if got := s.Enters(other); got != http.StatusOK {
			t.Fatalf("use %d = %d, want 200", i+1, got)
		}
	}
	if got := s.Enters(other); got != http.StatusUnauthorized {
		t.Errorf("one use more = %d, want 401", got)
	}
}
