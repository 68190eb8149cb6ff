package caddymodule_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// github stands in for GitHub: it lets the person at the browser in at once, and checks what we send.
func github(t *testing.T) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(text string) { io.WriteString(w, text) } //nolint:errcheck // the client is gone
		switch r.URL.Path {
		case "/login/oauth/authorize":
			q := r.URL.Query()
			back := q.Get("redirect_uri") + "?" + url.Values{"code": {"code-of-" + q.Get("code_challenge")}, "state": {q.Get("state")}}.Encode()
			http.Redirect(w, r, back, http.StatusFound)
		case "/login/oauth/access_token":
			if r.PostFormValue("client_secret") != "secret of code" || r.PostFormValue("code") == "" || r.PostFormValue("code_verifier") == "" {
				answer(`{"error":"incorrect_client_credentials"}`)
				return
			}
			if !strings.HasPrefix(r.PostFormValue("code"), "code-of-") {
				answer(`{"error":"bad_verification_code"}`)
				return
			}
			answer(`{"access_token":"gho_16C7e42F292c6912E7710c838347Ae178B4a","scope":"read:user,user:email","token_type":"bearer"}`)
		case "/api/user":
			if r.Header.Get("Authorization") != "Bearer gho_16C7e42F292c6912E7710c838347Ae178B4a" {
				w.WriteHeader(http.StatusUnauthorized)
				answer(`{"message":"Requires authentication"}`)
				return
			}
			answer(`{"login":"octocat","id":583231,"name":"The Octocat","email":null}`)
		case "/api/user/emails":
			answer(`[{"email":"octocat@corp.example","primary":true,"verified":true,"visibility":"private"}]`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestGitHub walks a person through a site by way of GitHub, and says what GitHub cannot do.
func TestGitHub(t *testing.T) {
	at := github(t)
	t.Setenv("CODE_SECRET", "secret of code")
	s := newServer(t)
	s.site = remoteSite
	s.extra = `
		idp code github {
			client_id Iv1.8a61f9b3a7aba766
			client_secret {env.CODE_SECRET}
			authorization_url ` + at + `/login/oauth/authorize
			token_url ` + at + `/login/oauth/access_token
			profile_url ` + at + `/api/user
			emails_url ` + at + `/api/user/emails
			map login username
			map email email
			name GitHub
		}`
	s.mustLoad()
	site := "http://" + s.api + "/"
	b := newBrowser(t)
	page, body := b.open(site)
	if !strings.Contains(body, "Continue with GitHub") {
		t.Fatalf("the page does not offer GitHub:\n%s", body)
	}
	flow := page.Request.URL.Query().Get("flow")
	page, body = b.open(s.issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"code"}}.Encode())
	if page.Request.URL.String() != site || body != "[octocat] [octocat@corp.example]" {
		t.Errorf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	if out := s.run("", "check"); !strings.Contains(out, "code: ok") {
		t.Errorf("check says:\n%s", out)
	}
	t.Run("a wrong secret", func(t *testing.T) {
		t.Setenv("CODE_SECRET", "another secret")
		s.mustLoad()
		s.refused("client authentication: the provider does not accept the client", "", "idp", "test", "code")
		b := newBrowser(t)
		page, _ := b.open(site)
		flow := page.Request.URL.Query().Get("flow")
		page, body := b.open(s.issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"code"}}.Encode())
		if page.StatusCode != http.StatusBadGateway || strings.Contains(body, "another secret") {
			t.Errorf("%s: %d %s", page.Request.URL, page.StatusCode, body)
		}
	})
}

// TestSocialLoginMethod: a login method of the API needs what the provider knows Gatehouse by, and then leads there.
func TestSocialLoginMethod(t *testing.T) {
	s := configured(t, "")
	s.site = remoteSite
	s.mustLoad()
	method := func(members string) any {
		return decode[any](t, `{"login_methods":{"login_methods":[{"id":"x","name":"X","type":"TWITTER","enabled":true,"twitter_attributes":{`+members+`}}]}}`)
	}
	for members, want := range map[string]string{``: "clientId", `"clientId":"gatehouse"`: "client_secret"} {
		if body := s.mustCall(http.MethodPost, "/api/v2/config", method(members), http.StatusBadRequest); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %q", members, body, want)
		}
	}
	s.mustCall(http.MethodPost, "/api/v2/config", method(`"clientId":"gatehouse","client_secret":"a secret of X"`), http.StatusNoContent)
	b := newBrowser(t)
	page, body := b.open("http://" + s.api + "/")
	if !strings.Contains(body, "Continue with X") {
		t.Fatalf("the page does not offer X:\n%s", body)
	}
	flow := page.Request.URL.Query().Get("flow")
	b.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	page, _ = b.open(s.issuer() + "/sign-in/provider?" + url.Values{"flow": {flow}, "idp": {"x"}}.Encode())
	to, err := page.Location()
	if err != nil || to.Host != "x.com" || to.Query().Get("code_challenge_method") != "S256" || !strings.HasSuffix(to.Query().Get("redirect_uri"), "/oidc/x/callback") {
		t.Errorf("the browser is sent to %v, %v", to, err)
	}
}
