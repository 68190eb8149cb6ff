package provider_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestProviderPeers plays what other products have fallen for with providers that the configuration API adds.
func TestProviderPeers(t *testing.T) {
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		http.Error(w, "here", http.StatusNotFound)
	}))
	t.Cleanup(inside.Close)
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// open is a host that the operator has opened. It leads into what is not open: by redirects and by what it publishes.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	open := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		own := "http://" + listener.Addr().String()
		switch {
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, inside.URL+"/", http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q,"userinfo_endpoint":%q,"end_session_endpoint":%q,`+
				`"id_token_signing_alg_values_supported":["RS256"]}`, own, own+"/authorize", inside.URL+"/token", inside.URL+"/jwks",
				inside.URL+"/userinfo", inside.URL+"/end")
		case r.URL.Path == "/authorize":
			http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {r.URL.Query().Get("state")}}.Encode(),
				http.StatusFound)
		}
	}))
	open.Listener.Close()
	open.Listener = listener
	open.Start()
	t.Cleanup(open.Close)

	s := servertest.Configured(t, "outbound {\n allow 127.0.0.2/32\n}")
	s.Site = remoteSite
	s.MustLoad()
	method := func(kind, attributes string) (int, string) {
		t.Helper()
		resp, body := s.Call(http.MethodPost, "/api/v2/config",
			servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"corp","name":"Corp","type":"`+kind+
				`","enabled":true,`+attributes+`}]}}`))
		return resp.StatusCode, body
	}
	visit := func(what string) {
		t.Helper()
		b := servertest.NewBrowser(t)
		_, body := b.Open("http://" + s.API + "/")
		_, link, ok := strings.Cut(body, `href="/sign-in/provider?`)
		if !ok {
			t.Fatalf("%s is not offered: %s", what, body)
		}
		link, _, _ = strings.Cut(link, `"`)
		page, body := b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
		if page.StatusCode < 400 || strings.Contains(body, port) || strings.Contains(body, "not a public one") {
			t.Errorf("%s = %d %.300s, want a page that says nothing of addresses", what, page.StatusCode, body)
		}
	}
	t.Run("peer 53: addresses of SAML metadata", func(t *testing.T) {
		taken := 0
		for _, at := range []string{
			"http://127.0.0.1:" + port + "/m", "http://localhost:" + port + "/m", "https://127.0.0.1:" + port + "/m", "https://169.254.169.254/m",
			"https://[::ffff:127.0.0.1]:" + port + "/m",
			"http://" + listener.Addr().String() + "/redirect", "file:///etc/passwd", "/etc/passwd", "ftp://127.0.0.1/",
		} {
			switch status, body := method("SAML", `"saml_attributes":{"idp_metadata":"`+at+`"}`); status {
			case http.StatusNoContent:
				taken++
				visit(at)
			case http.StatusBadRequest:
			default:
				t.Errorf("%s = %d %s", at, status, body)
			}
		}
		if n := reached.Load(); n != 0 || taken < 4 || asked.Load() == 0 {
			t.Errorf("%d requests arrived, %d addresses taken, the open host was asked %d times", n, taken, asked.Load())
		}
	})
	t.Run("peer 36: addresses that a provider publishes, and that it redirects to", func(t *testing.T) {
		own := "http://" + listener.Addr().String()
		for what, attributes := range map[string]string{
			"published": `"discovery_url":"` + own + `/.well-known/openid-configuration"`,
			"redirect":  `"discovery_url":"` + own + `/redirect/.well-known/openid-configuration"`,
			"manual": `"manual_metadata_setup":true,"issuer":"` + own + `","authorization_url":"` + own + `/authorize","id_token_url":"` +
				inside.URL + `/token","jwks_url":"` +
				inside.URL + `/jwks","user_info_url":"` + inside.URL + `/userinfo"`,
		} {
			status, body := method("OPEN_ID_CONNECT",
				`"open_id_connect_attributes":{"client_id":"x","client_secret":"a secret of corp","scopes":["openid"],`+attributes+`}`)
			if status != http.StatusNoContent {
				t.Fatalf("%s = %d %s", what, status, body)
			}
			visit(what)
		}
		if n := reached.Load(); n != 0 {
			t.Errorf("%d requests arrived, want none", n)
		}
	})
	t.Run("peer 48: addresses with a scheme that runs", func(t *testing.T) {
		members := []string{"url_after_login", "url_after_logout", "url_after_sign_up", "url_after_activation", "default_origin_url"}
		for _, member := range members {
			s.MustCall(http.MethodPost, "/api/v2/config", servertest.Decode[any](t, `{"redirects":{"`+member+`":"https://www.example.com"}}`),
				http.StatusNoContent)
		}
		for _, scheme := range []string{
			"javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x",
			"blob:https://evil.example/x", "https:javascript:alert(1)", "\\u0001javascript:alert(1)", "//evil.example",
		} {
			for _, member := range members {
				resp, body := s.Call(http.MethodPost, "/api/v2/config", servertest.Decode[any](t, `{"redirects":{"`+member+`":"`+scheme+`"}}`))
				if resp.StatusCode != http.StatusBadRequest {
					t.Errorf("%s %s = %d %s, want 400", member, scheme, resp.StatusCode, body)
				}
			}
			for _, member := range []string{"authorization_url", "end_session_url", "id_token_url", "jwks_url", "issuer", "discovery_url"} {
				status, body := method("OPEN_ID_CONNECT",
					`"open_id_connect_attributes":{"client_id":"x","manual_metadata_setup":true,"issuer":"https://c.example","authorization_url":"https://c.example/a",`+
						`"id_token_url":"https://c.example/t","jwks_url":"https://c.example/j","`+member+`":"`+scheme+`"}`)
				if status != http.StatusBadRequest {
					t.Errorf("%s %s = %d %s, want 400", member, scheme, status, body)
				}
			}
		}
	})
}

// TestPeerLinks: no API moves the link between a person and their account at a provider.
func TestPeerLinks(t *testing.T) {
	op := oidctest.New(t)
	op.Change(func(s *oidctest.Script) {
		s.UserInfo = map[string]any{"email": "alice@corp.example", "email_verified": true}
	})
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `client hr {
		secret ` + servertest.TestSecret + `
		grants client_credentials
		scopes scim
	}
	api_client registrar {
		secret ` + servertest.TestSecret + `
		apis persons configuration
	}
	idp corp oidc {
		issuer ` + op.URL + `
		client_id ` + oidctest.ClientID + `
		client_secret "` + oidctest.ClientSecret + `"
		scopes openid email
	}`
	s.MustLoad()
	p := &servertest.Provisioning{Server: s}
	p.Bearer = p.Token("hr", url.Values{"grant_type": {"client_credentials"}, "scope": {"scim"}})
	enter := func() string {
		t.Helper()
		b := servertest.NewBrowser(t)
		_, body := b.Open("http://" + s.API + "/")
		_, link, ok := strings.Cut(body, `href="/sign-in/provider?`)
		if !ok {
			t.Fatalf("corp is not offered: %s", body)
		}
		link, _, _ = strings.Cut(link, `"`)
		_, body = b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
		return body
	}
	first := enter()
	if !strings.Contains(first, "alice@corp.example") {
		t.Fatalf("the first sign-in: %s", first)
	}
	status, o := p.SCIM(http.MethodPost, "/Users", `{"schemas":["`+servertest.UserURN+`"],"userName":"mallory"}`)
	if status != http.StatusCreated {
		t.Fatalf("POST /Users = %d %v", status, o)
	}
	mallory, _ := o["id"].(string)
	link := `{"provider":"corp","issuer":` + quoted(op.URL) + `,"subject":"alice","personId":"` + mallory + `","id":"` + mallory + `"}`
	t.Run("peer 54: a link is written by SCIM and the persons API", func(t *testing.T) {
		for _, member := range []string{
			"identities", "externalIdentities", "externalIds", "linkedAccounts", "federatedIdentities",
			"external_identities", "idp", "External", "PersonID",
		} {
			for _, value := range []string{"[" + link + "]", link, `"` + mallory + `"`} {
				p.SCIM(http.MethodPatch, "/Users/"+mallory, `{"schemas":["`+servertest.PatchURN+`"],"Operations":[{"op":"replace","path":"`+
					member+`","value":`+value+`}]}`)
				p.SCIM(http.MethodPatch, "/Users/"+mallory,
					`{"schemas":["`+servertest.PatchURN+`"],"Operations":[{"op":"add","value":{"`+member+`":`+value+`}}]}`)
				p.SCIM(http.MethodPut, "/Users/"+mallory, `{"schemas":["`+servertest.UserURN+`"],"userName":"mallory","`+member+`":`+value+`}`)
			}
		}
		p.SCIM(http.MethodPut, "/Users/"+mallory,
			`{"schemas":["`+servertest.UserURN+
				`"],"userName":"mallory","externalId":"alice","emails":[{"value":"alice@corp.example","primary":true}]}`)
		if again := enter(); again != first {
			t.Errorf("the account at the provider opens %s, want %s", again, first)
		}
	})
}

func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
