package serviceprovider_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestServiceProviderType: the type of a service provider excludes the other protocol, for the SAML endpoints and for
// the OpenID Connect client of the same id. SAML without metadata, which can follow later, excludes nothing yet.
func TestServiceProviderType(t *testing.T) {
	t.Parallel()
	metadata := identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS)
	for name, tt := range map[string]struct {
		providers    []settings.ServiceProvider // each of an organisation of its own
		saml, openid bool
	}{
		"none":                                 {[]settings.ServiceProvider{{SAMLMetadata: metadata}}, true, true},
		"SAML":                                 {[]settings.ServiceProvider{{Type: "saml", SAMLMetadata: metadata}}, true, false},
		"OIDC":                                 {[]settings.ServiceProvider{{Type: "Oidc"}}, false, true},
		"attack 868: SAML, and OIDC elsewhere": {[]settings.ServiceProvider{{SAMLMetadata: metadata}, {Type: "OPENID_CONNECT"}}, false, true},
		"SAML without metadata":                {[]settings.ServiceProvider{{Type: "SAML"}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.NewServing(t)
			u := settings.Defaults()
			for i, sp := range tt.providers {
				sp.ID = "wiki"
				u.Organisations = append(u.Organisations,
					settings.Organisation{ID: string(rune('a' + i)), ServiceProviders: map[string]settings.ServiceProvider{"wiki": sp}})
			}
			h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
			h.Serve()
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			a := b.Request(h.AuthnRequest("_t1"), "")
			if got := a.Code == http.StatusOK && strings.Contains(a.Body.String(), "SAMLResponse"); got != tt.saml || !got &&
				a.Code != http.StatusBadRequest {
				t.Errorf("by SAML: status %d, want a sign-in %v\n%s", a.Code, tt.saml, a.Body)
			}
			if a := b.Get("/sso/start/wiki"); (a.Code == http.StatusNotFound) == tt.saml {
				t.Errorf("a sign-in that begins here: %d", a.Code)
			}
			before := h.Demand
			h.Demand = func(r *http.Request) authn.Demand {
				d := before(r)
				d.Client = authn.Client{ID: "wiki", Name: "The wiki"}
				return d
			}
			a = b.Get("/next")
			if got := strings.HasPrefix(a.Body.String(), "signed in as "); got != tt.openid || !got &&
				!strings.Contains(a.Body.String(), "access_denied") {
				t.Errorf("by OpenID Connect: %d %s, want a sign-in %v", a.Code, a.Body, tt.openid)
			}
			_, err := h.CheckPassword(t.Context(), "wiki", identitytest.Demo, identitytest.DemoPassword, audit.Origin{ClientIP: "203.0.113.7"})
			if refusal := new(authn.Refusal); errors.As(err, &refusal) == tt.openid {
				t.Errorf("by the password grant: %v", err)
			}
		})
	}
	t.Run("attack 868: the service provider of the Caddyfile, which an organisation makes one of OpenID Connect", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewServing(t)
		u := settings.Defaults()
		u.Organisations = []settings.Organisation{{
			ID:               "acme",
			ServiceProviders: map[string]settings.ServiceProvider{"wiki": {ID: "wiki", Type: "OIDC"}},
		}}
		h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
		h.Serve(identitytest.Wiki())
		if a := h.Browser().Request(h.AuthnRequest("_t2"), ""); a.Code != http.StatusBadRequest {
			t.Errorf("by SAML: status %d, want 400\n%s", a.Code, a.Body)
		}
	})
}
