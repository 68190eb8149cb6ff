package roles_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestPromotedPerson: attack 7248: an API client makes a person with a password by SCIM, and an owner gives the
// person a role. The command, the finding and the page of the person say so, and the password opens nothing until it
// is replaced.
func TestPromotedPerson(t *testing.T) {
	s := servertest.Configured(t, "")
	s.InIdentity = "admin demo@example.com {\n\tlevel 1\n}"
	s.MustLoad()
	const username, planted = "ann@example.com", "a planted secret 7"
	made := servertest.Decode[struct{ ID string }](t, s.MustCall(http.MethodPost, "/scim/v2/Users", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": username, "password": planted,
		"emails": []any{map[string]any{"value": "mallory@example.com", "primary": true}},
	}, http.StatusCreated))
	enters := func(password string) (bool, string) {
		b := servertest.NewBrowser(t)
		page, body := b.Open(s.Issuer() + "/account")
		page, body = b.Submit(page, body, url.Values{"username": {username}, "password": {password}})
		return page.Request.URL.Path == "/account" && page.StatusCode == http.StatusOK, body
	}
	if ok, body := enters(planted); !ok {
		t.Fatalf("without a role the password does not sign in:\n%s", body)
	}
	out := s.Run("", "group", "join", "gatehouse-owner", username)
	for _, want := range []string{"warning: " + username, "the password, set by ", "the e-mail address mallory@example.com, set by "} {
		if !strings.Contains(out, want) {
			t.Errorf("group join prints no %q:\n%s", want, out)
		}
	}
	if ok, body := enters(planted); ok || !strings.Contains(body, "someone else set this password") {
		t.Errorf("with a role the password signs in: %v, want the page with the reason\n%s", ok, body)
	}
	s.WantFinding(username, "the password, set by ")
	if out := s.Run("", "person", "show", username); !strings.Contains(out, "not with a role") {
		t.Errorf("person show = %s", out)
	}
	owner := servertest.NewBrowser(t)
	if _, page := openConsole(owner, s, "/admin/persons/"+made.ID); !strings.Contains(page, "Set by ") ||
		!strings.Contains(page, "mallory@example.com") {
		t.Errorf("the person's page does not say who has set the password:\n%s", page)
	}
	s.Run("another password 5\n", "person", "passwd", username)
	if ok, body := enters("another password 5"); !ok {
		t.Errorf("the new password does not sign in:\n%s", body)
	}
	if out := s.Run("", "person", "set", username, "--email", "mallory@example.com"); out == "" {
		t.Error("person set prints nothing")
	}
	if out := s.Run("", "person", "show", username); strings.Contains(out, "not with a role") {
		t.Errorf("person show after the password and the address were replaced = %s", out)
	}
}

// TestTokensOfAPromotedPerson: tokens that an API client has got by a password that it has set end when an owner gives
// the person a role, and those of the person go on.
func TestTokensOfAPromotedPerson(t *testing.T) {
	s := servertest.Configured(t, `client legacy {
		secret `+servertest.TestSecret+`
		grants password refresh_token
		scopes orders.read
		default_scopes orders.read
	}`)
	s.InIdentity = "admin demo@example.com {\n\tlevel 1\n}"
	s.MustLoad()
	const username, planted = "ann@example.com", "a planted secret 7"
	s.MustCall(http.MethodPost, "/scim/v2/Users", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": username, "password": planted,
	}, http.StatusCreated)
	type answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	call := func(f url.Values) (int, answer) {
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(f.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("legacy", servertest.TestSecret)
		resp, body := s.Do(r)
		return resp.StatusCode, servertest.Decode[answer](t, body)
	}
	for name, tt := range map[string]struct {
		username, password string
		want               int
	}{
		"attack 2199: of an API client": {username, planted, http.StatusUnauthorized},
		"of the person":                 {"demo@example.com", servertest.TestPassword, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, tokens := call(url.Values{"grant_type": {"password"}, "username": {tt.username}, "password": {tt.password}})
			if status != http.StatusOK || tokens.Refresh == "" || s.Enters(tokens.Access) != http.StatusOK {
				t.Fatalf("the password = %d %+v, want tokens that work", status, tokens)
			}
			s.Run("", "group", "join", "gatehouse-owner", tt.username)
			if got := s.Enters(tokens.Access); got != tt.want {
				t.Errorf("the access token with a role = %d, want %d", got, tt.want)
			}
			status, _ = call(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}})
			if (status == http.StatusOK) != (tt.want == http.StatusOK) {
				t.Errorf("the refresh token with a role = %d", status)
			}
		})
	}
}
