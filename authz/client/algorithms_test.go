package client_test

import (
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	key, err := jwa.GeneratePostQuantum("ML-DSA-44")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*client.Client)
		want   string
	}{
		"ID tokens":     {func(c *client.Client) { c.IDTokenAlg = "ML-DSA-44" }, ""},
		"userinfo":      {func(c *client.Client) { c.UserinfoAlg = "ML-DSA-87" }, ""},
		"access tokens": {func(c *client.Client) { c.TokenFormat, c.TokenAlg = "jwt", "ML-DSA-65" }, ""},
		"opaque tokens": {func(c *client.Client) {
			c.TokenAlg = "ML-DSA-65"
		}, "token_alg: access tokens that are opaque"},
		"an unknown set":     {func(c *client.Client) { c.IDTokenAlg = "ML-DSA-66" }, "id_token_alg"},
		"another case":       {func(c *client.Client) { c.IDTokenAlg = "ml-dsa-44" }, "id_token_alg"},
		"responses in a URL": {func(c *client.Client) { c.ResponseAlg = "ML-DSA-44" }, "authorization_response_alg"},
		"requests in a URL":  {func(c *client.Client) { c.RequestAlg = "ML-DSA-44" }, "request_object_alg"},
		"implicit": {func(c *client.Client) {
			c.IDTokenAlg, c.Grants = "ML-DSA-44", []string{"implicit"}
		}, "use authorization_code"},
		"ID tokens in a URL": {func(c *client.Client) {
			c.IDTokenAlg, c.Grants = "ML-DSA-44", []string{"id_token"}
		}, "use authorization_code"},
		"access tokens in one": {func(c *client.Client) {
			c.TokenFormat, c.TokenAlg, c.Grants = "jwt", "ML-DSA-44", []string{"implicit"}
		}, "token_alg: ML-DSA-44 is too long"},
		"short tokens in a URL": {func(c *client.Client) {
			c.TokenFormat, c.TokenAlg, c.Grants = "jwt", "EdDSA", []string{"implicit"}
		}, ""},
		"FAPI 2.0": {func(c *client.Client) {
			c.FAPI2, c.IDTokenAlg = true, "ML-DSA-44"
		}, "the profile refuses ML-DSA-44"},
		"FAPI 2.0, tokens": {func(c *client.Client) {
			c.FAPI2, c.TokenFormat, c.TokenAlg = true, "jwt", "ML-DSA-44"
		}, "the profile refuses ML-DSA-44"},
		"a key for assertions": {func(c *client.Client) {
			c.Secrets, c.AuthMethod = nil, client.MethodPrivateKey
			c.JWKS = &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}}
		}, ""},
		"no key for requests": {func(c *client.Client) {
			c.Secrets, c.AuthMethod, c.SignedRequestRequired = nil, client.MethodPrivateKey, true
			c.JWKS = &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}}
		}, "too long for an address"},
		"a private key": {func(c *client.Client) {
			c.Secrets, c.AuthMethod = nil, client.MethodPrivateKey
			c.JWKS = &jwa.KeySet{Keys: []jose.JSONWebKey{{Key: key}}}
		}, "want 1 to"},
	} {
		c := &client.Client{
			ID: "shop", Secrets: []secret.String{secret.New(strings.Repeat("x", 32))}, Grants: []string{"authorization_code"},
			RedirectURIs: []string{"https://shop.example.com/cb"}, Scopes: []string{"openid"},
		}
		tt.change(c)
		err := c.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Validate = %v, want %q", name, err, tt.want)
		}
	}
}

func TestSignsTokensWith(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ idToken, token, want string }{
		{"", "", "ES256"},
		{"RS256", "", "RS256"},
		{"EdDSA", "", "EdDSA"},
		{"ML-DSA-44", "", "ES256"}, // an access token has to fit into a header
		{"ML-DSA-44", "ML-DSA-44", "ML-DSA-44"},
		{"", "ML-DSA-87", "ML-DSA-87"},
		{"ES256", "RS256", "RS256"},
	} {
		if got := (&client.Client{IDTokenAlg: tt.idToken, TokenAlg: tt.token}).SignsTokensWith(); got != tt.want {
			t.Errorf("id_token_alg %q, token_alg %q: %s, want %s", tt.idToken, tt.token, got, tt.want)
		}
	}
}
