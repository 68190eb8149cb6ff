package provider_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestOutbound: what the configuration API names leads into our own network only where the operator has opened it.
func TestOutbound(t *testing.T) {
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		http.Error(w, "here", http.StatusNotFound)
	}))
	t.Cleanup(inside.Close)
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1", "[::1]", "169.254.169.254"}
	// visit makes a provider of each host and goes there; it returns how many of them the API took.
	visit := func(s *servertest.Server, hosts ...string) (taken int) {
		for _, host := range hosts {
			method := map[string]any{
				"id": "corp", "name": "Corp", "type": "OPEN_ID_CONNECT", "enabled": true,
				"open_id_connect_attributes": map[string]any{
					"client_authentication_method": "CLIENT_SECRET_BASIC", "client_id": "x", "client_secret": servertest.TestSecret,
					"scopes":        []string{"openid"},
					"discovery_url": "http://" + host + ":" + port + "/.well-known/openid-configuration",
				},
			}
			resp, body := s.Call(http.MethodPost, "/api/v2/config", map[string]any{"login_methods": map[string]any{"login_methods": []any{method}}})
			switch resp.StatusCode {
			case http.StatusNoContent:
				taken++
			case http.StatusBadRequest:
				continue // not even stored
			default:
				t.Fatalf("login method at %s = %d %s", host, resp.StatusCode, body)
			}
			b := servertest.NewBrowser(t)
			_, body = b.Open("http://" + s.API + "/")
			_, link, ok := strings.Cut(body, `href="/sign-in/provider?`)
			if !ok {
				t.Fatalf("%s is not offered: %s", host, body)
			}
			link, _, _ = strings.Cut(link, `"`)
			if page, body := b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&")); strings.Contains(body,
				"not a public one") || page.StatusCode == http.StatusOK {
				t.Errorf("the way to %s = %d %.200s, want that it does not answer", host, page.StatusCode, body)
			}
		}
		return taken
	}
	t.Run("attack 264: login methods that lead into our own network", func(t *testing.T) {
		s := servertest.Configured(t, "outbound {\n allow 10.9.0.0/16\n}")
		s.Site = remoteSite
		s.MustLoad()
		if visit(s, hosts...) == 0 {
			t.Error("no address was taken at all: the test looks in the wrong place")
		}
		if n := reached.Load(); n != 0 {
			t.Errorf("%d requests arrived, want none", n)
		}
	})
	t.Run("a network that is opened", func(t *testing.T) {
		s := servertest.Configured(t, "outbound {\n allow 127.0.0.0/8\n}")
		s.Site = remoteSite
		s.MustLoad()
		visit(s, "127.0.0.1")
		if reached.Load() == 0 {
			t.Error("no request arrived, want those to a network that the operator has opened")
		}
	})
}
