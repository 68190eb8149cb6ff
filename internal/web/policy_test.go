package web_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

func TestHoldToHTTPS(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]bool{
		"https://auth.example.com": true, "https://auth.example.com:8443": true, "http://auth.example.com": false, "https://localhost": false,
		"https://localhost:9443": false,
		"https://127.0.0.1:9443": false, "https://[::1]:9443": false, "https://wiki.localhost": false, "": false,
	} {
		h := http.Header{}
		web.HoldToHTTPS(h, origin)
		if got := h.Get("Strict-Transport-Security") != ""; got != want {
			t.Errorf("HoldToHTTPS(%q) sets %q, want a header: %t", origin, h, want)
		}
	}
	own := http.Header{"Strict-Transport-Security": {"max-age=60"}}
	if web.HoldToHTTPS(own, "https://auth.example.com"); len(own.Values("Strict-Transport-Security")) != 1 ||
		own.Get("Strict-Transport-Security") != "max-age=60" {
		t.Errorf("the operator's own header became %q", own)
	}
}
