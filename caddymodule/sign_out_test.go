package caddymodule_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddytest"
)

// A person who follows the sign-out link of a site is signed out there, at the issuer and at every other site, reads
// so, and has a way back.
func TestSignOutOfSiteAtOnce(t *testing.T) {
	w := newWalk(t)
	b := newBrowser(t)
	b.signIn(w.wiki + "/")
	b.open(w.shop + "/app/")
	r, err := http.NewRequest(http.MethodGet, w.wiki+"/.gatehouse/logout", nil) //nolint:noctx // set in send
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	res, body := b.send(r, err)
	if res.Request.URL.String() != w.wiki+"/.gatehouse/signed-out" || !strings.Contains(body, "You’re signed out") || !strings.Contains(body, `href="/"`) {
		t.Errorf("sign-out ends at %s by way of %q: %s", res.Request.URL, b.hops, body)
	}
	for _, site := range []string{w.shop, w.wiki} {
		if res, _ := b.open(site + "/"); !strings.HasPrefix(res.Request.URL.String(), w.issuer()+"/sign-in") {
			t.Errorf("after sign-out: %s leads to %s, want the sign-in page", site, res.Request.URL)
		}
	}
}

// The wrong account for a site: the page names it, and signing in with another one comes back to the same address.
func TestAnotherAccountForSite(t *testing.T) {
	w := newWalk(t)
	w.run("the password of guest\n", "person", "add", "guest@example.com")
	b := newBrowser(t)
	page, form := b.open(w.wiki + "/plans?a=1")
	res, body := b.submit(page, form, map[string][]string{"username": {"guest@example.com"}, "password": {"the password of guest"}})
	if res.StatusCode != http.StatusForbidden || !strings.Contains(body, "guest@example.com") {
		t.Fatalf("without the group: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	_, link, _ := strings.Cut(body, `href="/.gatehouse/another-account`)
	link, _, _ = strings.Cut(link, `"`)
	res, body = b.signIn(w.wiki + "/.gatehouse/another-account" + link)
	if res.StatusCode != http.StatusOK || res.Request.URL.String() != w.wiki+"/plans?a=1" || !strings.Contains(body, "demo@example.com") {
		t.Errorf("with another account: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.hops, body)
	}
}

// A client that holds a body back until it is asked for gets the issuer's refusal at once.
func TestExpectContinueAtIssuer(t *testing.T) {
	s := newServer(t)
	s.mustLoad()
	for _, target := range []string{"/nothing", "/api/v2/config", "/oauth/authorize", "/scim/v2/Users", "/healthz", "/oauth/userinfo"} {
		conn := caddytest.Dial(t, s.addr)
		if _, err := conn.Write([]byte("PUT " + target + " HTTP/1.1\r\nHost: " + s.addr + "\r\nExpect: 100-continue\r\nContent-Length: 2000\r\nContent-Type: application/json\r\n\r\n")); err != nil {
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
