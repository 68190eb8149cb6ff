package oidc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*oidc.Config)
		want   string // empty: good
	}{
		{"whole", func(*oidc.Config) {}, ""},
		{"public client", func(c *oidc.Config) { c.ClientSecret = secret.String{} }, ""},
		{"discovery alone", func(c *oidc.Config) {
			c.Issuer, c.DiscoveryURL = "", "https://login.example.com/t/.well-known/openid-configuration"
		}, ""},
		{"loopback", func(c *oidc.Config) { c.Issuer = "http://127.0.0.1:9401" }, ""},
		{"no issuer", func(c *oidc.Config) { c.Issuer = "" }, "issuer is missing"},
		{"http", func(c *oidc.Config) { c.Issuer = "http://login.example.com" }, "must be https"},
		{"issuer with query", func(c *oidc.Config) { c.Issuer = "https://login.example.com?x=1" }, "no query"},
		{
			"issuer is the address of its metadata",
			func(c *oidc.Config) { c.Issuer = "https://login.example.com/a/.well-known/openid-configuration" },
			"metadata: write the issuer in it, without /.well-known/openid-configuration: https://login.example.com/a",
		},
		{"issuer with user", func(c *oidc.Config) { c.Issuer = "https://a:b@login.example.com" }, "user or password"},
		{"no client", func(c *oidc.Config) { c.ClientID = "" }, "client_id is missing"},
		{"method", func(c *oidc.Config) { c.AuthMethod = "tls_client_auth" }, "auth_method"},
		{"secret missing", func(c *oidc.Config) { c.AuthMethod, c.ClientSecret = oidc.AuthBasic, secret.String{} }, "client_secret is missing"},
		{"secret too much", func(c *oidc.Config) { c.AuthMethod = oidc.AuthPrivateKey }, "remove either"},
		{"scope", func(c *oidc.Config) { c.Scopes = []string{"a b"} }, "not a scope"},
		{"claims", func(c *oidc.Config) { c.Claims = json.RawMessage(`{"userinfo":{},"userinfo":{}}`) }, "claims"},
		{"level", func(c *oidc.Config) { c.Level = 5 }, "level 5"},
		{"levels", func(c *oidc.Config) { c.Levels = map[string]int{"a b": 2} }, "map_level"},
		{"metadata in part", func(c *oidc.Config) { c.Metadata.TokenURL = "https://login.example.com/token" }, "jwks_url is missing"},
		{"metadata without https", func(c *oidc.Config) {
			c.Metadata = oidc.Metadata{AuthorizationURL: "https://l.example/a", TokenURL: "http://l.example/t", JWKSURL: "https://l.example/j"}
		}, "must be https"},
		{"timeout", func(c *oidc.Config) { c.Timeout = time.Minute }, "timeout"},
		{"expiration", func(c *oidc.Config) { c.MetadataExpiration = 1000 * 24 * time.Hour }, "expiration"},
		{"mode", func(c *oidc.Config) { c.ResponseMode = "fragment" }, "response_mode"},
		{"map", func(c *oidc.Config) {
			c.Mapping.Attributes = []idp.Attribute{{From: "a", To: "b"}, {From: "a", To: "b"}}
		}, "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := oidc.Config{Issuer: "https://login.example.com", ClientID: "gatehouse", ClientSecret: secret.New("x")}
			tc.change(&cfg)
			err := cfg.Validate()
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Validate = %v, want %q in it", err, tc.want)
			}
		})
	}
	if err := (oidc.Config{AuthMethod: "x", Level: 9}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Validate = %q, want all four errors", err)
	}
}
