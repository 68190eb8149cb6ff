package provider_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// samlProvider is a provider whose script a test may change.
func samlProvider(t *testing.T, script func(q samltest.Request) samltest.Answer) (*samltest.Provider, string) {
	t.Helper()
	p := samltest.New("https://idp.example/metadata", time.Now)
	web := httptest.NewServer(p.Handler(func(_ http.ResponseWriter, _ *http.Request, q samltest.Request) (samltest.Answer, bool) {
		return script(q), true
	}))
	t.Cleanup(web.Close)
	p.SSO = web.URL + "/sso"
	return p, web.URL + "/metadata"
}

func annAtPartner(q samltest.Request) samltest.Answer {
	a := samltest.Honest(q, "ann-4711")
	a.Attributes = []samltest.Attribute{
		{Name: "mail", Values: []string{"ann@partner.example"}},
		{Name: "role", Values: []string{"buyer", "clerk"}},
	}
	return a
}

const remoteSite = "protect {\n\t\tlogin\n\t\theaders Remote-User username\n\t\theaders Remote-Email email\n\t}\n\trespond `[{http.request.header.Remote-User}] [{http.request.header.Remote-Email}]`"

// TestRemoteProviders walks people through a protected site by way of a SAML provider, an OpenID provider and a
// password.
func TestRemoteProviders(t *testing.T) {
	_, metadata := samlProvider(t, annAtPartner)
	op := oidctest.New(t)
	op.Change(func(s *oidctest.Script) {
		s.UserInfo = map[string]any{"email": "bob@corp.example", "email_verified": true, "given_name": "Bob"}
	})
	dir := t.TempDir()
	icon := filepath.Join(dir, "partner.png")
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(icon, picture.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CORP_SECRET", oidctest.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `
		idp partner saml {
			metadata ` + metadata + `
			map mail email
			map mail username
			map role role
			constant branch north
			level 2
			icon ` + icon + `
			name Partner account
		}
		idp corp oidc {
			issuer ` + op.URL + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.CORP_SECRET}
			scopes openid email
			map email email
			domains corp.example
		}
		idp off saml {
			metadata ` + metadata + `
			disabled
		}`
	s.MustLoad()
	site := "http://" + s.API + "/"

	b := servertest.NewBrowser(t)
	page, body := b.Open(site)
	for _, want := range []string{"Continue with Partner account", "Continue with corp", `name="username"`, `src="/assets/provider`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s: page without %q:\n%s", page.Request.URL, want, body)
		}
	}
	if strings.Contains(body, "Continue with off") {
		t.Error("the page offers a provider that is disabled")
	}
	link := func(body, id string) string {
		t.Helper()
		for part := range strings.SplitSeq(body, `href="`) {
			if u, _, _ := strings.Cut(part, `"`); strings.HasPrefix(u, "/sign-in/provider") && strings.HasSuffix(u, "idp="+id) {
				return s.Issuer() + strings.ReplaceAll(u, "&amp;", "&")
			}
		}
		t.Fatalf("no link to %s in\n%s", id, body)
		return ""
	}
	page, form := b.Open(link(body, "partner"))
	if !strings.Contains(form, "SAMLResponse") {
		t.Fatalf("at the provider: %d %s\n%s", page.StatusCode, page.Request.URL, form)
	}
	page, body = b.Submit(page, form, url.Values{})
	if page.Request.URL.String() != site || body != "[ann@partner.example] [ann@partner.example]" {
		t.Errorf("by SAML ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}

	b = servertest.NewBrowser(t)
	page, body = b.Open(site)
	page, body = b.Submit(page, body, url.Values{"username": {"bob@corp.example"}})
	if refresh := page.Header.Get("Refresh"); !strings.HasPrefix(refresh, "0; url=/sign-in/provider?") {
		t.Fatalf("the domain led to %s: %d\n%s", page.Request.URL, page.StatusCode, body)
	} else if page, body = b.Open(s.Issuer() + strings.TrimPrefix(refresh, "0; url=")); body != "[bob@corp.example] [bob@corp.example]" {
		t.Errorf("by OpenID Connect ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	if res, raw := s.Get("/saml/partner/metadata"); res.StatusCode != http.StatusOK || !strings.Contains(raw, "/saml/partner/acs") {
		t.Errorf("our metadata: %d\n%s", res.StatusCode, raw)
	}
	for _, path := range []string{
		"/saml/off/metadata", "/saml/corp/metadata", "/saml/none/metadata",
		"/oidc/partner/metadata", "/saml/partner/none",
	} {
		if res, _ := s.Get(path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, res.StatusCode)
		}
	}
	if out := s.Run("", "check"); !strings.Contains(out, "partner: ok") || !strings.Contains(out, "corp: ok") {
		t.Errorf("check says:\n%s", out)
	}
	for id, want := range map[string][]string{
		"partner": {
			"ok       metadata: of https://idp.example/metadata", "ok       signing certificate 1: valid until",
			"/saml/partner/metadata",
		},
		"corp": {
			"ok       metadata: fetched from " + op.URL, "ok       clock:", "ok       keys: 2 ",
			"ok       client authentication: the provider knows the client", "/oidc/corp/callback",
		},
		"off": {"warning  state: it is switched off"},
	} {
		out := s.Run("", "idp", "test", id)
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("idp test %s without %q:\n%s", id, line, out)
			}
		}
	}
	// The same over a reload, in the browser that has signed in.
	s.MustLoad()
	b.CloseIdleConnections() // those of the configuration before
	if page, body = b.Open(site); body != "[bob@corp.example] [bob@corp.example]" {
		t.Errorf("after a reload: %s %d %s", page.Request.URL, page.StatusCode, body)
	}
}

// TestRemoteProviderRefused holds what is wrong at load although it could be read: a mistake in the configuration stops
// it, and a file that is not there is a finding about its provider.
func TestRemoteProviderRefused(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = "idp corp oidc {\n issuer https://corp.example\n client_id x\n client_secret {env.NOT_SET_AT_ALL}\n}"
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "NOT_SET_AT_ALL") {
		t.Errorf("secret that is not set: load = %v, want its name", err)
	}
	for name, tc := range map[string]struct {
		idp  string
		want []string
	}{
		"metadata": {
			"idp partner saml {\n metadata ./none/there.xml\n}",
			[]string{"idp partner: no one can sign in", "none/there.xml: no such file"},
		},
		"icon": {
			"idp partner saml {\n metadata https://idp.example/m\n icon ./none.png\n}",
			[]string{"idp partner: icon: there is no picture", "none.png: no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := servertest.NewServer(t)
			s.Extra = tc.idp
			s.MustLoad()
			s.WantFinding(append([]string{"warning", "Caddyfile:"}, tc.want...)...)
		})
	}
}

// TestLoginMethodsSignIn changes the login methods by the configuration API while the server runs: they sign people in
// at once, and no more when they are gone.
func TestLoginMethodsSignIn(t *testing.T) {
	p, _ := samlProvider(t, annAtPartner)
	op := oidctest.New(t)
	op.Change(func(s *oidctest.Script) {
		s.UserInfo = map[string]any{"email": "bob@corp.example", "email_verified": true}
	})
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = "api_client admin {\n secret " + servertest.TestSecret + "\n apis configuration\n}\noutbound {\n allow 127.0.0.0/8 ::1\n}"
	s.MustLoad()
	site := "http://" + s.API + "/"
	configure := func(methods ...map[string]any) (int, string) {
		if methods == nil {
			methods = []map[string]any{}
		}
		t.Helper()
		raw, err := json.Marshal(map[string]any{"login_methods": map[string]any{"login_methods": methods}})
		if err != nil {
			t.Fatal(err)
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/api/v2/config", bytes.NewReader(raw))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("admin", servertest.TestSecret)
		res, body := s.Do(r)
		return res.StatusCode, body
	}
	mapping := []map[string]any{{"id": "m1", "map_from": "mail", "map_to": "email"}}
	saml := map[string]any{
		"id": "partner", "name": "Partner account", "type": "SAML", "enabled": true, "authentication_level": 2, "attribute_mappings": mapping,
		"saml_attributes": map[string]any{
			"idp_metadata": string(p.Metadata()), "comparison": "MINIMUM",
			"authentication_level_mappings": []map[string]any{{"authn_context_class_ref_name": "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport", "authentication_level": 3}},
		},
	}
	oidc := map[string]any{
		"id": "corp", "name": "Corp", "type": "OPEN_ID_CONNECT", "enabled": true,
		"attribute_mappings": []map[string]any{{"id": "m2", "map_from": "email", "map_to": "email"}},
		"open_id_connect_attributes": map[string]any{
			"client_authentication_method": "CLIENT_SECRET_BASIC", "client_id": oidctest.ClientID, "client_secret": oidctest.ClientSecret,
			"discovery_url": op.URL + "/.well-known/openid-configuration", "scopes": []string{"openid", "email"},
		},
	}
	offers := func() string {
		t.Helper()
		_, body := servertest.NewBrowser(t).Open(site)
		var out []string
		for _, name := range []string{"Partner account", "Corp"} {
			if strings.Contains(body, "Continue with "+name) {
				out = append(out, name)
			}
		}
		return strings.Join(out, ", ")
	}
	if got := offers(); got != "" {
		t.Fatalf("offered at first: %s", got)
	}
	if status, body := configure(saml, oidc); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, body)
	}
	if got := offers(); got != "Partner account, Corp" {
		t.Errorf("offered: %s", got)
	}
	enterBy := func(b *servertest.Browser, id string) string {
		t.Helper()
		_, body := b.Open(site)
		_, rest, ok := strings.Cut(body, `href="/sign-in/provider?`)
		for ok && !strings.HasPrefix(strings.SplitN(rest, `"`, 2)[0][strings.LastIndex(strings.SplitN(rest, `"`, 2)[0], "idp="):], "idp="+id) {
			_, rest, ok = strings.Cut(rest, `href="/sign-in/provider?`)
		}
		if !ok {
			return "not offered"
		}
		page, body := b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(strings.SplitN(rest, `"`, 2)[0], "&amp;", "&"))
		if strings.Contains(body, "SAMLResponse") {
			page, body = b.Submit(page, body, url.Values{})
		}
		if page.Request.URL.String() != site {
			return fmt.Sprintf("%s: %d %s", page.Request.URL, page.StatusCode, body)
		}
		return body
	}
	enter := func(id string) string {
		t.Helper()
		return enterBy(servertest.NewBrowser(t), id)
	}
	visitor := servertest.NewBrowser(t)
	if got := enterBy(visitor, "partner"); !madeUp.MatchString(got) {
		t.Errorf("by SAML: %s", got)
	}
	if _, body := visitor.Open(site); !madeUp.MatchString(body) {
		t.Errorf("by SAML, once more: %s", body)
	}
	if got := enter("corp"); !madeUp.MatchString(got) {
		t.Errorf("by OpenID Connect: %s", got)
	}
	// Another name is another name at once; a method that is off, or gone, is nowhere.
	saml["enabled"], oidc["name"] = false, "Corp"
	if status, body := configure(saml, oidc); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, body)
	}
	if got := offers(); got != "Corp" {
		t.Errorf("with one switched off: %s", got)
	}
	if page, body := visitor.Open(site); madeUp.MatchString(body) || page.Request.URL.Path != "/sign-in" {
		t.Errorf("attack 1811: a session by a provider that is switched off opens the site: %s: %s", page.Request.URL, body)
	}
	if status, body := configure(); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, body)
	}
	if got := offers(); got != "" {
		t.Errorf("with none: %s", got)
	}
	if res, _ := s.Get("/saml/partner/metadata"); res.StatusCode != http.StatusNotFound {
		t.Errorf("metadata for a method that is gone: %d", res.StatusCode)
	}
	// A provider that cannot be reached does not break the other ways to sign in.
	oidc["id"], oidc["name"] = "dead", "Corp"
	oidc["open_id_connect_attributes"].(map[string]any)["discovery_url"] = "https://127.0.0.1:1/.well-known/openid-configuration"
	saml["enabled"] = true
	if status, body := configure(saml, oidc); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, body)
	}
	if got := enter("partner"); !madeUp.MatchString(got) {
		t.Errorf("by SAML beside a dead one: %s", got)
	}
	if _, err := servertest.Run(t, "", "check", "--address", s.Admin); err == nil ||
		!strings.Contains(err.Error(), `the identity provider "dead"`) {
		t.Errorf("check with a dead provider: %v", err)
	}
	if got := enter("dead"); !strings.Contains(got, "responding") || !strings.Contains(got, "502") {
		t.Errorf("by a dead one: %s", got)
	}
}

// madeUp matches the view that a site has of people whose provider is not trusted to name them.
var madeUp = regexp.MustCompile(`^\[(partner|corp)-[0-9a-f]{16}\] \[[a-z]+@[a-z]+\.example\]$`)
