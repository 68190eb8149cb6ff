package inventory_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestUpstreamNeverSeesTheClientsToken: with upstream_token, the upstream gets a token that is meant for it, which
// names the site as who acts. On a public path it gets none.
func TestUpstreamNeverSeesTheClientsToken(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tpublic /open\n\t\tupstream_token https://stock.example.com\n\t}\n\trespond \"{http.request.header.Authorization}\""
	s.MustLoad()
	token := s.Token()
	ask := func(path string) (int, string) {
		r := s.Request(http.MethodGet, "http://"+s.API+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, body := s.Do(r)
		return resp.StatusCode, body
	}
	status, seen := ask("/")
	got, bearer := strings.CutPrefix(seen, "Bearer ")
	if status != http.StatusOK || !bearer || got == token || strings.Count(got, ".") != 2 {
		t.Fatalf("the upstream sees %d %q", status, seen)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(got, ".")[1])
	var claims struct {
		Audience []string `json:"aud"`
		Client   string   `json:"client_id"`
		Scope    string   `json:"scope"`
		Actor    struct {
			Subject string `json:"sub"`
		} `json:"act"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		t.Fatalf("the token of the upstream: %v", err)
	}
	if !slices.Equal(claims.Audience, []string{"https://stock.example.com"}) || claims.Client != "reports" || claims.Scope != "orders.read" ||
		claims.Actor.Subject != "http://"+s.API {
		t.Errorf("claims = %+v", claims)
	}
	if _, again := ask("/"); again != seen {
		t.Error("the second request brings another token")
	}
	if status, seen := ask("/open"); status != http.StatusOK || seen != "" {
		t.Errorf("a public path: the upstream sees %d, %d characters, want none", status, len(seen))
	}
}
