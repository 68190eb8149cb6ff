package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authzclient "github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// A client whose access tokens can be too long for a header is found, and no other.
func TestDoubtTokens(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("https://service-%d.example.com/api", i))
	}
	for name, tt := range map[string]struct {
		change func(c *authzclient.Client)
		want   bool
	}{
		"ES256 with many":       {func(c *authzclient.Client) { c.Audiences = many }, false},
		"ML-DSA-87":             {func(c *authzclient.Client) { c.TokenAlg = "ML-DSA-87" }, false},
		"ML-DSA-87 with many":   {func(c *authzclient.Client) { c.TokenAlg, c.Audiences = "ML-DSA-87", many }, true},
		"ML-DSA-44 with many":   {func(c *authzclient.Client) { c.TokenAlg, c.Audiences = "ML-DSA-44", many }, false},
		"ML-DSA-44 with a host": {func(c *authzclient.Client) { c.TokenAlg, c.Audiences = "ML-DSA-44", slices.Repeat(many, 4) }, true},
		"ID tokens alone":       {func(c *authzclient.Client) { c.IDTokenAlg, c.Audiences = "ML-DSA-87", many }, false},
		"opaque":                {func(c *authzclient.Client) { c.TokenFormat, c.TokenAlg, c.Audiences = "", "ML-DSA-87", many }, false},
	} {
		c := &authzclient.Client{ID: "shop", TokenFormat: "jwt", Scopes: []string{"openid", "profile"}}
		tt.change(c)
		found := client.Doubts([]*authzclient.Client{c}, nil, nil)
		got := slices.ContainsFunc(found, func(f caddyfileutil.Fault) bool { return strings.Contains(f.Reason, "nginx refuses more than 8192") })
		if got != tt.want {
			t.Errorf("%s (%d bytes): found %v, want the size: %t", name, c.LongestToken(), found, tt.want)
		}
	}
}
