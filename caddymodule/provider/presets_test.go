package provider_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// by signs in at a provider, in a browser of its own, and returns the page where that ends.
func by(s *servertest.Server, id string) (page *http.Response, body string) {
	s.T.Helper()
	b := servertest.NewBrowser(s.T)
	page, _ = b.Open("http://" + s.API + "/")
	flow := page.Request.URL.Query().Get("flow")
	return b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {id}}.Encode())
}

// TestGoogleAndMicrosoft walks people through a site by way of Google and Microsoft, and keeps others out.
func TestGoogleAndMicrosoft(t *testing.T) {
	google, microsoft := oidctest.NewGoogle(t), oidctest.NewMicrosoft(t)
	t.Setenv("CORP_SECRET", oidctest.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `
		idp google google {
			issuer ` + google.URL + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.CORP_SECRET}
			hosted_domain example.com
			map email email
			map email username
			couple email
		}
		idp entra microsoft {
			issuer ` + microsoft.URL + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.CORP_SECRET}
			tenant organizations
			tenants ` + oidctest.Tenant + `
			map email email
			couple email
		}`
	s.MustLoad()
	site := "http://" + s.API + "/"
	ann := "[ann@example.com] [ann@example.com]"
	if page, body := by(s, "google"); page.Request.URL.String() != site || body != ann {
		t.Fatalf("Google ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	for id, want := range map[string]string{
		"google": "the provider knows the client",
		"entra":  "fetched from " + microsoft.URL + "/organizations/v2.0",
	} {
		if out := s.Run("", "idp", "test", id); !strings.Contains(out, want) {
			t.Errorf("idp test %s says:\n%s", id, out)
		}
	}
	google.Change(func(g *oidctest.Script) { g.IDToken["hd"] = "evil.example" })
	if page, body := by(s, "google"); page.Request.URL.String() == site || page.StatusCode < 400 {
		t.Errorf("another domain ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	// A tenant that says of its own person to be Ann does not open the account of Ann.
	claim := func(tenant string, more map[string]any) {
		microsoft.Change(func(m *oidctest.Script) {
			m.IDToken = microsoft.OfTenant(tenant, map[string]any{"email": "ann@example.com", "email_verified": true})
			for k, v := range more {
				m.IDToken[k] = v
			}
		})
	}
	claim(oidctest.Tenant, nil)
	if page, body := by(s, "entra"); page.Request.URL.String() != site || strings.Contains(body, "ann@example.com]") {
		t.Errorf("a claimed address ended at %s: %d %s, want an account of its own", page.Request.URL, page.StatusCode, body)
	}
	claim(oidctest.Tenant, map[string]any{"sub": "another-sub-of-the-tenant", "oid": "00000000-0000-0000-0000-000000000002", "xms_edov": true})
	microsoft.Change(func(m *oidctest.Script) { m.Sub = "another-sub-of-the-tenant" })
	if page, body := by(s, "entra"); page.Request.URL.String() != site || body != ann {
		t.Errorf("an address of a domain of the tenant ended at %s: %d %s, want Ann", page.Request.URL, page.StatusCode, body)
	}
	claim(oidctest.OtherTenant, map[string]any{"xms_edov": true})
	if page, body := by(s, "entra"); page.Request.URL.String() == site || page.StatusCode < 400 {
		t.Errorf("another tenant ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
}

// TestAzureADB2C walks a person through a site by way of a policy, and keeps out who has passed another one.
func TestAzureADB2C(t *testing.T) {
	b2c := oidctest.NewAzureADB2C(t)
	t.Setenv("CORP_SECRET", oidctest.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `
		idp customers azure_ad_b2c {
			issuer ` + b2c.URL + `
			tenant contoso
			policy ` + oidctest.Policy + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.CORP_SECRET}
			map emails email
		}`
	s.MustLoad()
	site := "http://" + s.API + "/"
	if page, body := by(s, "customers"); page.Request.URL.String() != site || !strings.HasPrefix(body, "[customers-") {
		t.Errorf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	b2c.Change(func(o *oidctest.Script) { o.IDToken["tfp"] = oidctest.AnotherPolicy })
	if page, body := by(s, "customers"); page.Request.URL.String() == site || page.StatusCode < 400 {
		t.Errorf("by another policy ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
}

// TestGoogleAndMicrosoftMethods: login methods of the API need what the provider knows Gatehouse by. Then people are
// offered them.
func TestGoogleAndMicrosoftMethods(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	for _, kind := range []string{"GOOGLE", "MICROSOFT"} {
		name := strings.ToLower(kind)
		method := func(members string) any {
			return servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"x","name":"X","type":"`+kind+`","enabled":true,"`+name+
				`_attributes":{`+members+`}}]}}`)
		}
		for members, want := range map[string]string{``: "clientId", `"clientId":"gatehouse"`: "client_secret"} {
			if body := s.MustCall(http.MethodPost, "/api/v2/config", method(members), http.StatusBadRequest); !strings.Contains(body, want) {
				t.Errorf("%s: %s, want %q", members, body, want)
			}
		}
		s.MustCall(http.MethodPost, "/api/v2/config", method(`"clientId":"gatehouse","client_secret":"a secret"`), http.StatusNoContent)
		if page := s.SignInPage(); !strings.Contains(page, "Continue with X") {
			t.Errorf("the page does not offer %s:\n%s", kind, page)
		}
	}
}
