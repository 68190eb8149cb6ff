package settings_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestPeers: how the settings of others were reached, or turned against them. (docs/attacks/peers.md)
func TestPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 17: paths that begin like those of the API", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for _, path := range []string{
			"/api/v2/configX", "/api/v2/config/featuresX", "/api/v2/config/features/x", "/api/configX", "/api/v2/confi", "/v2/config/certificatesX",
			"/v2/configX/certificates",
			"/api/v2/config/features/action-token/whitelisted-urlsX", "/api/v2/config//features", "/api/v2/config/./features",
			"/api/v2/config/features;x", "/api/v2/config/%66eatures/..",
		} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
				r := httptest.NewRequest(method, "https://auth.example.com/", strings.NewReader(`{"login_enabled":false}`))
				raw, err := url.Parse("https://auth.example.com" + path)
				if err != nil {
					t.Fatal(err)
				}
				r.URL = raw
				r.SetBasicAuth("ops", "secret")
				r.Header.Set("Content-Type", "application/json")
				rec := httptest.NewRecorder()
				w.handler.ServeHTTP(rec, r)
				if rec.Code != http.StatusNotFound && rec.Code != http.StatusMethodNotAllowed {
					t.Errorf("%s %s = %d, want 404", method, path, rec.Code)
				}
			}
		}
		if !w.units(w.service).Features.LoginEnabled {
			t.Error("a path that is not one of the API has changed it")
		}
	})
	list := []settings.WhitelistedURL{
		{URL: "https://portal.example.com"},
		{URL: "https://app.example.com/cb"},
		{URL: "https://port.example.com:8443/"},
	}
	t.Run("peer 58: addresses that begin like a whitelisted one", func(t *testing.T) {
		t.Parallel()
		for _, raw := range []string{
			"https://portal.example.com.evil", "https://portal.example.com.evil/x", "https://portal.example.comevil",
			"https://portal.example.com@evil.example", "https://portal.example.com:x@evil.example/",
			"https://portal.example.com%2eevil/", "https://portal.example.com%00.evil/", `https://portal.example.com\.evil/`,
			"https://portal.example.com:444/", "http://portal.example.com/",
			"https://app.example.com/", "https://app.example.com/cbx", "https://app.example.com/cb.evil", "https://app.example.com/cb/../x",
			"https://app.example.com/cb/..;/x", "https://app.example.com/cb%2f..%2fx",
			"https://app.example.com/CB", "https://port.example.com/", "https://port.example.com:84430/", "https://port.example.com:844/",
			"https://evil.example/https://portal.example.com", "//portal.example.com",
			"https:portal.example.com", "https:///portal.example.com", "https://xportal.example.com/", "https://portal.example.com./",
			"https://portal.example.co/",
		} {
			// A segment such as "..;" is no dot segment to a browser, and stays below the path.
			if settings.Whitelisted(list, raw) && raw != "https://app.example.com/cb/..;/x" {
				t.Errorf("%q is whitelisted", raw)
			}
		}
		for _, raw := range []string{
			"https://portal.example.com", "https://portal.example.com/", "https://portal.example.com/x?y=1#z",
			"https://app.example.com/cb/x", "https://port.example.com:8443/x",
		} {
			if !settings.Whitelisted(list, raw) {
				t.Errorf("%q is not whitelisted", raw)
			}
		}
	})
	t.Run("peer 38: a change that swaps a member for a privileged one", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		const methods = `{"login_methods":{"login_methods":[%s]}}`
		w.must(204, "POST", "/api/v2/config",
			strings.Replace(methods, "%s",
				`{"id":"partner","name":"P","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`, 1))
		before := w.read("/api/v2/config/login-methods")
		for what, method := range map[string]string{
			"another's type":               `{"id":"partner","name":"P","type":"USERNAME_AND_PASSWORD","enabled":true}`,
			"the type of trusted headers":  `{"id":"partner","name":"P","type":"HEADER","enabled":true}`,
			"the own method's type":        `{"id":"identity","name":"P","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`,
			"a stronger password":          `{"id":"identity","name":"P","type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":4}`,
			"a level that there is not":    `{"id":"partner","name":"P","type":"SAML","enabled":true,"authentication_level":5,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`,
			"a method of the Caddyfile":    `{"id":"edge","name":"Mine","type":"HEADER","enabled":true}`,
			"its id for another":           `{"id":"edge","name":"Mine","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`,
			"a member of the inside":       `{"id":"partner","name":"P","type":"SAML","enabled":true,"trusted":true}`,
			"the attributes of two types":  `{"id":"partner","name":"P","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example/m"},"open_id_connect_attributes":{"client_id":"x"}}`,
			"a method that cannot be made": `{"id":"partner","name":"impossible","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`,
		} {
			if a := w.call("POST", "/api/v2/config", strings.Replace(methods, "%s", method, 1)); a.status != http.StatusBadRequest &&
				a.status != http.StatusConflict {
				t.Errorf("%s: %d %s, want 400 or 409", what, a.status, a.body)
			}
		}
		a := w.call("POST", "/api/v2/config",
			strings.Replace(methods, "%s",
				`{"id":"partner","name":"P","type":"SAML","enabled":true,"removable":false,"saml_attributes":{"idp_metadata":"https://p.example/m"}}`, 1))
		if a.status != http.StatusNoContent || w.read("/api/v2/config/login-methods") != before {
			t.Errorf("a read-only member: %d, then %s\nwant\n%s", a.status, w.read("/api/v2/config/login-methods"), before)
		}
	})
}
