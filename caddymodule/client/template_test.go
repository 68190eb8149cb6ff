package client

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// TestFor holds that each library's client is valid as it is made, and shows people with name and groups.
func TestFor(t *testing.T) {
	t.Parallel()
	for _, library := range Libraries() {
		c := Client{ID: "app"}
		if err := c.For(library, "https://app.example.com/"); err != nil {
			t.Errorf("For(%q) = %v", library, err)
			continue
		}
		if !c.Public {
			c.Secrets = []caddyfileutil.Sensitive{"0123456789012345678901234567890123456789"}
		}
		r := caddyfileutil.NewResolver(nil)
		built := c.Build(r)
		if err := r.Err(); err != nil {
			t.Errorf("For(%q) makes an invalid client: %v", library, err)
		}
		if !built.IDTokenClaims || !slices.Contains(built.Scopes, "groups") ||
			!strings.HasPrefix(built.RedirectURIs[0], "https://app.example.com/") {
			t.Errorf("For(%q) = %+v", library, built)
		}
		if strings.Contains(strings.TrimPrefix(built.RedirectURIs[0], "https://"), "//") {
			t.Errorf("For(%q): redirect URI %s", library, built.RedirectURIs[0])
		}
	}
}

func TestForKeepsWhatIsSaid(t *testing.T) {
	t.Parallel()
	c := Client{
		ID: "app", Name: "The app", RedirectURIs: []string{"https://app.example.com/back"}, Scopes: []string{"openid"},
		Grants: []string{"authorization_code"},
	}
	if err := c.For("oauth2-proxy", ""); err != nil {
		t.Fatal(err)
	}
	if c.Name != "The app" || c.RedirectURIs[0] != "https://app.example.com/back" || len(c.Scopes) != 1 ||
		len(c.Grants) != 1 || !c.IDTokenClaims {
		t.Errorf("For = %+v, want what the client said", c)
	}
}

// TestForChoosesES256: the cheaper signature, where the library takes it and the client names no other.
func TestForChoosesES256(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ library, named, want string }{
		{"oauth2-proxy", "", "ES256"},
		{"auth.js", "", ""},
		{"aspnet", "", "ES256"},
		{"oauth2-proxy", "RS256", "RS256"},
		{"spring", "", ""},
		{"express-openid-connect", "", ""},
		{"django-allauth", "", ""},
	} {
		c := Client{ID: "app", IDTokenAlg: tc.named}
		if err := c.For(tc.library, "https://app.example.com"); err != nil || c.IDTokenAlg != tc.want {
			t.Errorf("For(%q) of a client with %q = %q, %v, want %q", tc.library, tc.named, c.IDTokenAlg, err, tc.want)
		}
	}
}

func TestForRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, library, address, want string }{
		{"unknown library", "outh2-proxy", "https://app.example.com", "oauth2-proxy"},
		{"no address", "grafana", "", "/login/generic_oauth"},
		{"no scheme", "grafana", "app.example.com", "such as https://"},
		{"another scheme", "grafana", "ftp://app.example.com", "such as https://"},
		{"a query", "grafana", "https://app.example.com/?x=y", "such as https://"},
	} {
		client := Client{ID: "app"}
		if err := client.For(c.library, c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: For(%q, %q) = %v, want an error with %q", c.name, c.library, c.address, err, c.want)
		}
	}
}
