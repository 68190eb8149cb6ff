package inventory

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// TestGateOf: what a directive asks has one order, so a page does not change when it is loaded again.
func TestGateOf(t *testing.T) {
	t.Parallel()
	p := new(protect.Protect)
	if err := json.Unmarshal([]byte(`{"login": true, "request_access": "on", "introspect": {}, "mcp": {}}`), p); err != nil {
		t.Fatal(err)
	}
	want := []string{"login", "request_access", "introspect", "mcp"}
	for range 50 {
		if g := gateOf(p); !slices.Equal(g.Asks, want) {
			t.Fatalf("gateOf asks %q, want %q", g.Asks, want)
		}
	}
}
