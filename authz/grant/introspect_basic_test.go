package grant_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestIntrospectBasic sends API credentials as curl does and as OAuth client libraries do, which encode them as form
// values.
func TestIntrospectBasic(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a-b_c+d%41", 4)
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		c.APIClients = append(c.APIClients,
			&client.APIClient{ID: "api-one", Secrets: []secret.String{secret.New(text)}, APIs: []string{"introspection"}})
	}))
	token := h.Tokens("shop", authztest.Demo).Access
	encode := strings.NewReplacer("-", "%2D", "_", "%5F", "+", "%2B", "%", "%25").Replace // as oauth4webapi does
	for name, tt := range map[string]struct {
		credentials string
		want        int
	}{
		"raw":              {"api-one:" + text, 200},
		"encoded":          {encode("api-one") + ":" + encode(text), 200},
		"encoded by Go":    {"api-one:" + url.QueryEscape(text), 200},
		"encoded twice":    {"api-one:" + encode(encode(text)), 401},
		"wrong, encoded":   {encode("api-one") + ":" + encode(text+"x"), 401},
		"another's secret": {encode("api-one") + ":" + authztest.Secret("ops"), 401},
	} {
		res := h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}}, authztest.RawBasic(tt.credentials)...)
		if res.Status != tt.want {
			t.Errorf("introspect with %s credentials = %d, want %d", name, res.Status, tt.want)
		}
	}
}
