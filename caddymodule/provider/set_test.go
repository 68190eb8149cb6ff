package provider

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestProviderKeys(t *testing.T) {
	t.Setenv("KEY_OF_PARTNER", "from-env")
	modules := caddy.ModuleMap{
		"partner": json.RawMessage(`{"module":"saml","sign":["a","b"],"decrypt":["a","{env.KEY_OF_PARTNER}"],"server_certificate":"tls"}`),
		"corp":    json.RawMessage(`{"module":"oidc","key":"b"}`),
		"edge":    json.RawMessage(`{"module":"header","sign":7}`),
		"broken":  json.RawMessage(`[]`),
	}
	got := providerKeys(modules, keyMembers)
	for name, want := range map[string][]string{
		"a": {"idp partner"}, "b": {"idp corp", "idp partner"}, "from-env": {"idp partner"},
		"tls": {"idp partner"}, "c": nil,
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("providerKeys[%s] = %q, want %q", name, got[name], want)
		}
	}
	if got := providerKeys(modules, signers); got["tls"] != nil || got["a"] == nil {
		t.Errorf("private keys are needed of %q", got)
	}
}
