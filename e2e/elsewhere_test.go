package e2e

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLoginElsewhere: on the way to an application, a person first sees a page on the operator's own site, continues
// from there, signs in and arrives.
func TestLoginElsewhere(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/welcome/in" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><title>Welcome</title><h1>Welcome</h1><p id="client">%s</p><a id="on" href="%s">Go on</a>`,
			html.EscapeString(r.URL.Query().Get("client_id")), html.EscapeString(r.URL.Query().Get("return")))
	}))
	t.Cleanup(site.Close)
	p, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	if status, text := s.configure("POST", "/api/v2/config/ui-extension",
		`{"base_url":"`+site.URL+`/welcome","login_path":"/in","enable_login_redirect":true}`); status != http.StatusNoContent {
		t.Fatalf("POST of ui-extension = %d %s", status, text)
	}
	b := s.browse(t)
	b.open(p.address + "/")
	b.reaches(site.URL + "/welcome/in?")
	if got := b.text("#client"); got != "shop" {
		t.Errorf("the page elsewhere knows the client as %q, want shop", got)
	}
	b.click("#on")
	if !strings.HasPrefix(b.location(), s.Issuer+"/sign-in?") {
		t.Fatalf("the browser is at %s, want the sign-in page", b.location())
	}
	if status := b.signIn(person, "not the password"); status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password = %d, want the page again", status)
	}
	b.signIn(person, s.Password)
	b.click("button[value=allow]")
	b.reaches(p.address + "/callback")
	// A person who is signed in does not see that page again.
	b.open(p.address + "/")
	b.reaches(p.address + "/callback")
	b.open(s.Issuer + "/account")
	if b.text("h1") == "Welcome" {
		t.Error("a person who is signed in is sent elsewhere")
	}
}
