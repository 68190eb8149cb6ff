package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

// TestCausesOfFindings: whatever findings can be about has a screen, which every role may open. That findings name what
// is there is tested with a whole server, by TestFindingsLeadToTheirCause.
func TestCausesOfFindings(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	about := map[string]string{ // and where it leads
		"": "/settings", "issuer": "/settings", "identity: password_reset": "/settings", "listener wrapper": "/settings",
		"client shop": "/applications/shop", "client shop: scopes": "/applications/shop", "client": "/applications",
		"idp declared: domains": "/providers/declared", "policy office": "/policies/office",
		"person owner@example.com: groups": "/persons?q=owner%40example.com", "person a b": "/persons?q=a+b",
		"api_client billing: apis": "/api-clients", "key_pair ": "/keys", "storage: min_free": "/storage",
		"site wiki.example.com": "/sites/wiki.example.com", "site Caddyfile:1": "/settings", "forward_auth unknown": "/settings",
	}
	for kind := range causes {
		if !strings.HasSuffix(causes[kind], "/") {
			about[kind] = causes[kind]
		}
	}
	sites, err := h.console.Gateway.Sites()
	h.must(err)
	routes := h.routes()
	for _, role := range []string{"viewer", "helpdesk", "operator", "owner"} {
		b := h.as(role + "@example.com")
		for what, want := range about {
			to := causeOf(&diagnostic.Finding{About: what}, sites)
			if to != layout.Root+want {
				t.Errorf("a finding about %q leads to %s, want %s", what, to, layout.Root+want)
			}
			if route := routeOf(routes, to); !h.isScreen(strings.TrimPrefix(route, layout.Root)) {
				t.Errorf("a finding about %q leads to %s, which is no screen", what, to)
			}
			if a := b.get(to); a.Code != http.StatusOK || a.url != to {
				t.Errorf("%s: a finding about %q leads to %s, which answers %d at %s", role, what, to, a.Code, a.url)
			}
		}
	}
	// A site is found by the place of what is written in it, too.
	for i := range sites {
		for _, g := range sites[i].Gates {
			if g.Place == "" {
				continue
			}
			for _, f := range []diagnostic.Finding{{Place: g.Place}, {About: "site " + g.Place}} {
				if to := causeOf(&f, sites); !strings.HasPrefix(to, layout.Root+"/sites/") {
					t.Errorf("the finding %+v leads to %s, want the site %s", f, to, sites[i].ID)
				}
			}
		}
	}
}
