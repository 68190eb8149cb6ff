package inventory_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// What an API client deletes of a person has ended at protect with the next request, and a JWT is looked up there like
// any other token.
func TestUsersAtProtect(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = `client legacy {
		secret ` + servertest.TestSecret + `
		grants password
		scopes orders.read
		default_scopes orders.read
		token_format jwt
	}
	api_client registrar {
		secret ` + servertest.TestSecret + `
		apis persons introspection
	}`
	s.MustLoad()
	call := func(method, path, id string, f url.Values) (int, string) {
		r := s.Request(method, s.Issuer()+path, strings.NewReader(f.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(id, servertest.TestSecret)
		resp, body := s.Do(r)
		return resp.StatusCode, body
	}
	_, body := call(http.MethodPost, "/oauth/token", "legacy",
		url.Values{"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {servertest.TestPassword}})
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || strings.Count(answer.AccessToken, ".") != 2 {
		t.Fatalf("Token = %s, want a JWT", body)
	}
	if status, body := call(http.MethodPost, "/oauth/token", "legacy",
		url.Values{"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {"wrong"}}); status != http.StatusBadRequest ||
		!strings.Contains(body, "invalid_grant") {
		t.Errorf("Token(wrong password) = %d %s, want invalid_grant", status, body)
	}
	if got := s.Enters(answer.AccessToken); got != http.StatusOK {
		t.Errorf("protect = %d for a JWT, want 200", got)
	}
	_, body = call(http.MethodPost, "/oauth/api/v2/token/introspect", "registrar", url.Values{"token": {answer.AccessToken}})
	var in struct{ Sub string }
	if err := json.Unmarshal([]byte(body), &in); err != nil || in.Sub == "" {
		t.Fatalf("Introspect = %s", body)
	}
	if status, body := call(http.MethodDelete, "/oauth/api/v1/users/"+in.Sub+"/tokens", "registrar", nil); status != http.StatusNoContent {
		t.Errorf("DELETE = %d %s, want 204", status, body)
	}
	if got := s.Enters(answer.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("protect = %d for a deleted token, want 401", got)
	}
}
