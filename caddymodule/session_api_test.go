package caddymodule_test

import (
	"net/http"
	"net/url"
	"testing"
)

// TestSessionAPI: the id of a session that a browser has opened leads to the session, and ends it.
func TestSessionAPI(t *testing.T) {
	s := configured(t, "")
	s.mustLoad()
	s.mustCall(http.MethodPost, "/api/v2/config/features", map[string]any{"session_api_enabled": true}, http.StatusNoContent)
	b := newBrowser(t)
	page, body := b.open(s.issuer() + "/account")
	b.submit(page, body, url.Values{"username": {"demo@example.com"}, "password": {testPassword}})

	person := decode[struct {
		ID string `json:"id"`
	}](t, s.run("", "person", "show", "demo@example.com", "--json"))
	of := "/api/persons/" + person.ID + "/sessions"
	type open struct {
		ID     string `json:"id"`
		Person string `json:"person_id"`
	}
	list := decode[struct {
		Sessions []open `json:"sessions"`
	}](t, s.mustCall(http.MethodGet, of, nil, http.StatusOK)).Sessions
	if len(list) != 1 || list[0].ID == "" {
		t.Fatalf("GET %s = %v, want the session of the browser", of, list)
	}
	at := "/api/sessions/" + list[0].ID
	if got := decode[open](t, s.mustCall(http.MethodGet, at, nil, http.StatusOK)); got != list[0] {
		t.Errorf("GET %s = %v, want %v", at, got, list[0])
	}
	s.mustCall(http.MethodDelete, at, nil, http.StatusNoContent)
	s.mustCall(http.MethodGet, at, nil, http.StatusNotFound)
	if res, _ := b.open(s.issuer() + "/account"); res.Request.URL.Path != "/sign-in" {
		t.Errorf("after the end of the session the account opens %s, want the sign-in", res.Request.URL)
	}
}
