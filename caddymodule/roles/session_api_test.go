package roles_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestSessionAPI: the id of a session that a browser has opened leads to the session, and ends it.
func TestSessionAPI(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	s.MustCall(http.MethodPost, "/api/v2/config/features", map[string]any{"session_api_enabled": true}, http.StatusNoContent)
	b := servertest.NewBrowser(t)
	page, body := b.Open(s.Issuer() + "/account")
	b.Submit(page, body, url.Values{"username": {"demo@example.com"}, "password": {servertest.TestPassword}})

	person := servertest.Decode[struct {
		ID string `json:"id"`
	}](t, s.Run("", "person", "show", "demo@example.com", "--json"))
	of := "/api/persons/" + person.ID + "/sessions"
	type open struct {
		ID     string `json:"id"`
		Person string `json:"person_id"`
	}
	list := servertest.Decode[struct {
		Sessions []open `json:"sessions"`
	}](t, s.MustCall(http.MethodGet, of, nil, http.StatusOK)).Sessions
	if len(list) != 1 || list[0].ID == "" {
		t.Fatalf("GET %s = %v, want the session of the browser", of, list)
	}
	at := "/api/sessions/" + list[0].ID
	if got := servertest.Decode[open](t, s.MustCall(http.MethodGet, at, nil, http.StatusOK)); got != list[0] {
		t.Errorf("GET %s = %v, want %v", at, got, list[0])
	}
	s.MustCall(http.MethodDelete, at, nil, http.StatusNoContent)
	s.MustCall(http.MethodGet, at, nil, http.StatusNotFound)
	if res, _ := b.Open(s.Issuer() + "/account"); res.Request.URL.Path != "/sign-in" {
		t.Errorf("after the end of the session the account opens %s, want the sign-in", res.Request.URL)
	}
}
