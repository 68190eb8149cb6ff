package provider_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestAssertionOfCompany: a person who has signed in by the provider of their company is known by its assertions, and
// an application that shows one enters the site in their name. Before, no one is.
func TestAssertionOfCompany(t *testing.T) {
	op := oidctest.New(t)
	keys := oidctest.NewKeys(t, "assertions")
	op.SetKeys(keys)
	op.Change(func(s *oidctest.Script) {
		s.UserInfo = map[string]any{"email": "bob@corp.example", "email_verified": true}
	})
	t.Setenv("CORP_SECRET", oidctest.ClientSecret)
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlogin\n\t}"
	s.Extra = `
		idp corp oidc {
			issuer ` + op.URL + `
			client_id ` + oidctest.ClientID + `
			client_secret {env.CORP_SECRET}
			scopes openid email
			map email email
		}
		client wiki {
			secret ` + servertest.TestSecret + `
			grants jwt_bearer
			scopes orders.read
			idps corp
		}
		trust_issuer ` + op.URL + ` {
			id_jag corp
			client wiki
		}`
	s.MustLoad()
	show := func(subject, id string) (token, failure string) {
		t.Helper()
		now := time.Now().Unix()
		assertion := oidctest.Sign(t, jose.RS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID, jose.HeaderType: "oauth-id-jag+jwt"},
			map[string]any{
				"iss": op.URL, "sub": subject, "aud": s.Issuer(), "client_id": "wiki", "jti": id, "iat": now, "exp": now + 300, "scope": "orders.read",
				"email": "demo@example.com", "email_verified": true,
			})
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion},
		}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("wiki", servertest.TestSecret)
		_, body := s.Do(r)
		answer := servertest.Decode[struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}](t, body)
		return answer.Token, answer.Error
	}
	if token, failure := show("bob", "1"); token != "" || failure != "invalid_grant" {
		t.Errorf("before the first sign-in: token %t, %q, want invalid_grant", token != "", failure)
	}
	b := servertest.NewBrowser(t)
	_, body := b.Open("http://" + s.API + "/")
	_, link, _ := strings.Cut(body, `href="/sign-in/provider?`)
	link, _, _ = strings.Cut(link, `"`)
	page, body := b.Open(s.Issuer() + "/sign-in/provider?" + strings.ReplaceAll(link, "&amp;", "&"))
	if body != "in" {
		t.Fatalf("the sign-in ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	subject, _ := op.Claims()["sub"].(string)
	token, failure := show(subject, "2")
	if token == "" || s.Enters(token) != http.StatusOK {
		t.Errorf("after it: %q, want a token that enters", failure)
	}
	if token, failure = show(subject, "2"); token != "" || failure != "invalid_grant" {
		t.Errorf("the same again: token %t, %q, want invalid_grant", token != "", failure)
	}
	if token, failure = show("demo@example.com", "3"); token != "" || failure != "invalid_grant" {
		t.Errorf("by an address: token %t, %q, want invalid_grant", token != "", failure)
	}
}
