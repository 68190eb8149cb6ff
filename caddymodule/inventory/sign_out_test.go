package inventory_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
)

// A person who follows the sign-out link of a site is signed out there, at the issuer and at every other site, reads
// so, and has a way back.
func TestSignOutOfSiteAtOnce(t *testing.T) {
	w := servertest.NewWalk(t)
	b := servertest.NewBrowser(t)
	b.SignIn(w.Wiki + "/")
	b.Open(w.Shop + "/app/")
	r, err := http.NewRequest(http.MethodGet, w.Wiki+"/.gatehouse/logout", nil) //nolint:noctx // set in send
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	res, body := b.Send(r, err)
	if res.Request.URL.String() != w.Wiki+"/.gatehouse/signed-out" || !strings.Contains(body, "You’re signed out") ||
		!strings.Contains(body, `href="/"`) {
		t.Errorf("sign-out ends at %s by way of %q: %s", res.Request.URL, b.Hops, body)
	}
	for _, site := range []string{w.Shop, w.Wiki} {
		if res, _ := b.Open(site + "/"); !strings.HasPrefix(res.Request.URL.String(), w.Issuer()+"/sign-in") {
			t.Errorf("after sign-out: %s leads to %s, want the sign-in page", site, res.Request.URL)
		}
	}
}

// The wrong account for a site: the page names it, and signing in with another one comes back to the same address.
func TestAnotherAccountForSite(t *testing.T) {
	w := servertest.NewWalk(t)
	w.Run("the password of guest\n", "person", "add", "guest@example.com")
	b := servertest.NewBrowser(t)
	page, form := b.Open(w.Wiki + "/plans?a=1")
	res, body := b.Submit(page, form, map[string][]string{"username": {"guest@example.com"}, "password": {"the password of guest"}})
	if res.StatusCode != http.StatusForbidden || !strings.Contains(body, "guest@example.com") {
		t.Fatalf("without the group: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	_, link, _ := strings.Cut(body, `href="/.gatehouse/another-account`)
	link, _, _ = strings.Cut(link, `"`)
	res, body = b.SignIn(w.Wiki + "/.gatehouse/another-account" + link)
	if res.StatusCode != http.StatusOK || res.Request.URL.String() != w.Wiki+"/plans?a=1" || !strings.Contains(body, "demo@example.com") {
		t.Errorf("with another account: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.Hops, body)
	}
}

// A client that holds a body back until it is asked for gets the issuer's refusal at once.
func TestExpectContinueAtIssuer(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for _, target := range []string{"/nothing", "/api/v2/config", "/oauth/authorize", "/scim/v2/Users", "/healthz", "/oauth/userinfo"} {
		conn := caddytest.Dial(t, s.Addr)
		if _, err := conn.Write([]byte("PUT " + target + " HTTP/1.1\r\nHost: " + s.Addr +
			"\r\nExpect: 100-continue\r\nContent-Length: 2000\r\nContent-Type: application/json\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodPut})
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode < http.StatusBadRequest || !res.Close {
			t.Errorf("%s: %d, closes: %t, want a refusal that ends the connection", target, res.StatusCode, res.Close)
		}
	}
}
