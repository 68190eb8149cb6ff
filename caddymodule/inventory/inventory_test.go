package inventory_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/inventory"
)

// TestAsksHaveOneOrder: what a directive asks has one order, so a page does not change when it is loaded again.
func TestAsksHaveOneOrder(t *testing.T) {
	t.Parallel()
	gates := new(forwardauth.Gates)
	const raw = `{"gates": {"wiki": {"login": true, "request_access": "on", "introspect": {}, "mcp": {}}}}`
	if err := json.Unmarshal([]byte(raw), gates); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	sites := inventory.New(ctx, gates, nil)
	want := []string{"login", "request_access", "introspect", "mcp"}
	for range 50 {
		list, err := sites.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || len(list[0].Gates) != 1 || !slices.Equal(list[0].Gates[0].Asks, want) {
			t.Fatalf("the sites are %+v, want one that asks %q", list, want)
		}
	}
}
