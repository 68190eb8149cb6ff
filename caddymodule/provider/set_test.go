package provider_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
)

func TestProviderKeys(t *testing.T) {
	t.Setenv("KEY_OF_PARTNER", "from-env")
	modules := caddy.ModuleMap{
		"partner": json.RawMessage(`{"module":"saml","sign":["a","b"],"decrypt":["a","{env.KEY_OF_PARTNER}"],"server_certificate":"tls"}`),
		"corp":    json.RawMessage(`{"module":"oidc","key":"b"}`),
		"edge":    json.RawMessage(`{"module":"header","sign":7}`),
		"broken":  json.RawMessage(`[]`),
	}
	set := provider.NewSet(modules)
	for name, want := range map[string][]string{
		"a": {"idp partner"}, "b": {"idp corp", "idp partner"}, "from-env": {"idp partner"},
		"tls": {"idp partner"}, "c": nil,
	} {
		if got := set.KeyUsers(name); !slices.Equal(got, want) {
			t.Errorf("KeyUsers(%q) = %q, want %q", name, got, want)
		}
	}
	if of, tls := set.Signers("a"), set.Signers("tls"); of == nil || tls != nil {
		t.Errorf("the private key of a is needed by %q, and that of tls by %q", of, tls)
	}
}
