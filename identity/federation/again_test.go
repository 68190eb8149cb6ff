package federation_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestAnswerWithoutCookies: the provider's page posts its answer without our cookies. A local issuer without https has
// the browser post it again; one with https refuses it.
func TestAnswerWithoutCookies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, issuer string
		again        bool
	}{
		{"without https", "http://localhost:8080", true},
		{"with https", "https://auth.example.com", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, func(c *identity.Config) { c.Issuer = tt.issuer })
			e.Asking(func(d *authn.Demand) { d.Provider = "partner" })
			b, without := e.Browser(), e.Browser()
			without.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
			form := url.Values{"state": {identitytest.State(t, b.Leave("/next"))}, "ticket": {e.Partner.Answer(identitytest.Ann(), nil)}}
			const target = "/oidc/partner/callback"
			first := without.Do(http.MethodPost, target, form.Encode())
			if !tt.again {
				if first.Code != http.StatusForbidden {
					t.Errorf("an answer without cookies: %d, want 403", first.Code)
				}
				return
			}
			if page := first.Body.String(); first.Code != http.StatusOK || !strings.Contains(page, `action="`+tt.issuer+target+`"`) ||
				!strings.Contains(page, form.Get("ticket")) {
				t.Fatalf("an answer without cookies: %d\n%s", first.Code, page)
			}
			form.Set("gatehouse_again", "1")
			t.Run("attack 116: posted again by another browser", func(t *testing.T) {
				if a := e.Browser().Do(http.MethodPost, target, form.Encode()); a.Code != http.StatusForbidden {
					t.Errorf("%d, want 403", a.Code)
				}
			})
			a := b.Do(http.MethodPost, target, form.Encode())
			next, ok := strings.CutPrefix(a.Header().Get("Refresh"), "0; url=")
			if a.Code != http.StatusOK || !ok {
				t.Fatalf("posted again: %d, Refresh %q, want a page that goes on", a.Code, a.Header().Get("Refresh"))
			}
			if a = b.Get(next); !strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("the end is %d\n%s", a.Code, a.Body)
			}
		})
	}
}
