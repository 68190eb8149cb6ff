package scim_test

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// TestPeers: how the lists of others were made to run what a request said. (docs/attacks/peers.md)
func TestPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 67: pages and filters made of random parts", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.add("anna", map[string]any{"emails": []any{map[string]any{"value": "anna@example.com", "type": "work"}}})
		parts := []string{
			"userName", "emails", "emails[type eq \"work\"].value", "meta.created", "id", " eq ", " ne ", " co ", " pr", " gt ", " and ", " or ",
			"not (", "(", ")", "[", "]", ".", "\"", "\\", "'", "' OR 1=1--",
			"; DROP TABLE users", "\"anna\"", "\"2026-01-01T00:00:00Z\"", "true", "null", "1e999", "-1", "9223372036854775808", "%00", "\x00",
			"\xff", "$ne", "${jndi:x}", "{env.X}", "../", "*", ",", "urn:x:y", "é",
		}
		random := rand.New(rand.NewPCG(1, 2))
		text := func() string {
			var b strings.Builder
			for range random.IntN(6) + 1 {
				b.WriteString(parts[random.IntN(len(parts))])
			}
			return b.String()
		}
		counts := map[int]int{}
		for i := range 10_000 {
			q := url.Values{}
			for _, name := range []string{"filter", "startIndex", "count", "sortBy", "sortOrder", "attributes", "cursor"} {
				if random.IntN(3) == 0 {
					q.Set(name, text())
				}
			}
			path := []string{"/Users", "/Groups"}[i%2] + "?" + q.Encode()
			a := h.do("GET", path, nil)
			counts[a.status]++
			if a.status != 200 && a.status != 400 {
				t.Fatalf("GET %s = %d %s, want 200 or 400", path, a.status, a.raw)
			}
		}
		if counts[200] == 0 || counts[400] == 0 {
			t.Errorf("statuses %v: the parts are too dull", counts)
		}
		for value, want := range map[string]string{"0": "1", "-5": "1", "2": "2", "2147483647": "2147483647"} {
			if got := h.want(200, "GET", "/Users?startIndex="+value, nil).at("startIndex"); got != want {
				t.Errorf("startIndex %s is %s, want %s", value, got, want)
			}
		}
		if h.identity.Panics() != 0 || h.want(200, "GET", "/Users", nil).at("totalResults") != "1" {
			t.Error("the list is not what it was")
		}
	})
}
