package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A client of the APIs that has mistyped a path gets JSON, as from every other path there.
func TestUnknownAPIPath(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for path, want := range map[string]string{
		"/api": "application/json", "/api/": "application/json", "/api/nothing": "application/json", "/api/eventsx": "application/json",
		"/scim/v1/Users": "application/json",
		"/apix":          "text/html", "/nothing": "text/html",
	} {
		resp, body := s.Do(s.Request(http.MethodGet, s.Issuer()+path, nil))
		if resp.StatusCode != http.StatusNotFound || !strings.HasPrefix(resp.Header.Get("Content-Type"), want) {
			t.Errorf("GET %s = %d %s, want 404 and %s: %.100s", path, resp.StatusCode, resp.Header.Get("Content-Type"), want, body)
		}
	}
}
