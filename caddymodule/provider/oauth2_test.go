package provider_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oauth2/oauth2test"
)

// TestGitHub walks a person through a site by way of GitHub, and says what GitHub cannot do.
func TestGitHub(t *testing.T) {
	at := oauth2test.New(t, "github").URL
	t.Setenv("CODE_SECRET", oauth2test.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `
		idp code github {
			client_id ` + oauth2test.ClientID + `
			client_secret {env.CODE_SECRET}
			authorization_url ` + at + `/authorize
			token_url ` + at + `/token
			profile_url ` + at + `/profile
			emails_url ` + at + `/emails
			map login username
			map email email
			name GitHub
		}`
	s.MustLoad()
	site := "http://" + s.API + "/"
	b := servertest.NewBrowser(t)
	page, body := b.Open(site)
	if !strings.Contains(body, "Continue with GitHub") {
		t.Fatalf("the page does not offer GitHub:\n%s", body)
	}
	flow := page.Request.URL.Query().Get("flow")
	page, body = b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"code"}}.Encode())
	if page.Request.URL.String() != site || body != "[octocat] [octocat@github.com]" {
		t.Errorf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	if out := s.Run("", "check"); !strings.Contains(out, "code: ok") {
		t.Errorf("check says:\n%s", out)
	}
	t.Run("a wrong secret", func(t *testing.T) {
		t.Setenv("CODE_SECRET", "another secret")
		s.MustLoad()
		s.Refused("client authentication: the provider does not accept the client", "", "idp", "test", "code")
		b := servertest.NewBrowser(t)
		page, _ := b.Open(site)
		flow := page.Request.URL.Query().Get("flow")
		page, body := b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"code"}}.Encode())
		if page.StatusCode != http.StatusBadGateway || strings.Contains(body, "another secret") {
			t.Errorf("%s: %d %s", page.Request.URL, page.StatusCode, body)
		}
	})
}

// TestSocialLoginMethod: a login method of the API needs what the provider knows Gatehouse by, and then leads there.
func TestSocialLoginMethod(t *testing.T) {
	s := servertest.Configured(t, "")
	s.Site = remoteSite
	s.MustLoad()
	method := func(members string) any {
		return servertest.Decode[any](t,
			`{"login_methods":{"login_methods":[{"id":"x","name":"X","type":"TWITTER","enabled":true,"twitter_attributes":{`+members+`}}]}}`)
	}
	for members, want := range map[string]string{``: "clientId", `"clientId":"gatehouse"`: "client_secret"} {
		if body := s.MustCall(http.MethodPost, "/api/v2/config", method(members), http.StatusBadRequest); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %q", members, body, want)
		}
	}
	s.MustCall(http.MethodPost, "/api/v2/config", method(`"clientId":"gatehouse","client_secret":"a secret of X"`), http.StatusNoContent)
	b := servertest.NewBrowser(t)
	page, body := b.Open("http://" + s.API + "/")
	if !strings.Contains(body, "Continue with X") {
		t.Fatalf("the page does not offer X:\n%s", body)
	}
	flow := page.Request.URL.Query().Get("flow")
	b.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	page, _ = b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"x"}}.Encode())
	to, err := page.Location()
	if err != nil || to.Host != "x.com" || to.Query().Get("code_challenge_method") != "S256" ||
		!strings.HasSuffix(to.Query().Get("redirect_uri"), "/oidc/x/callback") {
		t.Errorf("the browser is sent to %v, %v", to, err)
	}
}

// TestAttributeThatNeverComes: check names an attribute under `map` that the provider has sent in none of many
// sign-ins.
func TestAttributeThatNeverComes(t *testing.T) {
	at := oauth2test.New(t, "github").URL
	t.Setenv("CODE_SECRET", oauth2test.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = remoteSite
	s.Extra = `
		idp code oauth2 {
			client_id ` + oauth2test.ClientID + `
			client_secret {env.CODE_SECRET}
			authorization_url ` + at + `/authorize
			token_url ` + at + `/token
			profile_url ` + at + `/profile
			subject id
			map login username
			map emial email
			name Forge
		}`
	s.MustLoad()
	const finding = "map emial email: the attribute has come in none of"
	if out := s.Run("", "check"); strings.Contains(out, finding) {
		t.Errorf("check before the first sign-in says:\n%s", out)
	}
	for range 20 {
		b := servertest.NewBrowser(t)
		page, _ := b.Open("http://" + s.API + "/")
		flow := page.Request.URL.Query().Get("flow")
		page, body := b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"code"}}.Encode())
		if page.StatusCode != http.StatusOK {
			t.Fatalf("sign-in = %d %s", page.StatusCode, body)
		}
	}
	s.WantFinding("warning", "Caddyfile:", "idp code: "+finding+" 20 sign-ins", "other attributes that have come: ", "name")
	if out := s.Run("", "check"); strings.Contains(out, "map login") {
		t.Errorf("check says of an attribute that has come:\n%s", out)
	}
}
