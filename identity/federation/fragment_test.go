package federation_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestFragment: browsers pass on what is after # in an address with a redirect. A provider does not get what a person
// has opened, and what a provider writes there goes no further.
func TestFragment(t *testing.T) {
	t.Parallel()
	const page, mark = "document", `data-fragment="f1"`
	at := func(t *testing.T, name string) *identitytest.Federated {
		e := identitytest.NewFederated(t)
		e.Asking(func(d *authn.Demand) { d.Provider, d.Fragment = "partner", name })
		return e
	}
	for name, tt := range map[string]struct {
		fragment, dest string
		hop            bool
	}{
		"a browser opens a page of a site": {"f1", page, true},
		"in a frame":                       {"f1", "iframe", false},
		"an old browser":                   {"f1", "", false},
		"an application asks":              {"", page, false},
	} {
		t.Run("straight to the provider, "+name, func(t *testing.T) {
			t.Parallel()
			e := at(t, tt.fragment)
			b := e.Browser()
			b.Header = http.Header{}
			if tt.dest != "" {
				b.Header.Set("Sec-Fetch-Dest", tt.dest)
			}
			to := b.Do(http.MethodGet, "/next", "").Header().Get("Location")
			a := b.Do(http.MethodGet, to, "")
			if got := strings.Contains(a.Body.String(), mark); got != tt.hop {
				t.Errorf("GET %s = %d, a page that keeps what is after #: %t, want %t", to, a.Code, got, tt.hop)
			}
			if away := b.Leave("/next"); !strings.HasSuffix(away, "#") || strings.Count(away, "#") != 1 {
				t.Errorf("the provider is at %s, want an empty fragment", away)
			}
		})
	}
	t.Run("what the provider writes", func(t *testing.T) {
		t.Parallel()
		e := at(t, "f1")
		b := e.Browser()
		away, ticket := b.Leave("/next"), e.Partner.Answer(identitytest.Ann(), nil)
		a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, away), ticket), "")
		if to := a.Header().Get("Location"); a.Code != http.StatusSeeOther || !strings.HasSuffix(to, "#") {
			t.Errorf("the answer of the provider = %d to %q, want an empty fragment", a.Code, to)
		}
	})
}
