package caddymodule

import (
	"context"
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestIsSecure(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1:4711", "203.0.113.9:4711"
	for _, tt := range []struct {
		name, peer, proto string
		trusted, tls      bool
		want              bool
	}{
		{name: "https", peer: elsewhere, tls: true, want: true},
		{name: "attack 258: clear text", peer: elsewhere},
		{name: "attack 258: clear text that calls itself https", peer: elsewhere, proto: "https"},
		{name: "this machine", peer: here, want: true},
		{name: "a proxy that has it by https", peer: elsewhere, trusted: true, proto: "https", want: true},
		{name: "attack 258: a proxy that has it in clear text", peer: elsewhere, trusted: true, tls: true, proto: "http"},
		{name: "attack 258: a proxy on this machine that has it in clear text", peer: here, trusted: true, proto: "http"},
		{name: "a proxy on this machine that does not say", peer: here, trusted: true, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "/api/config", nil)
			r.RemoteAddr = tt.peer
			if tt.tls {
				r.TLS = new(tls.ConnectionState)
			}
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			vars := map[string]any{caddyhttp.TrustedProxyVarKey: tt.trusted}
			if got := isSecure(r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))); got != tt.want {
				t.Errorf("isSecure = %t, want %t", got, tt.want)
			}
		})
	}
}
