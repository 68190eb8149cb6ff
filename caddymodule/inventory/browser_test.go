package inventory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

func TestProtectWithBrowser(t *testing.T) {
	w := servertest.NewWalk(t)
	b := servertest.NewBrowser(t)
	const path = "/a%20page?x=1&y=%2F"

	res, body := b.SignIn(w.Wiki + path)
	var got struct {
		Header http.Header `json:"header"`
		Target string      `json:"target"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK || res.Request.URL.String() != w.Wiki+path {
		t.Fatalf("after sign-in: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.Hops, body)
	}
	if got.Target != path || got.Header.Get("Remote-User") != "demo@example.com" || got.Header.Get("Remote-Name") != "Demo Person" ||
		got.Header.Get("Remote-Groups") != "staff" || got.Header.Get("Cookie") != "" {
		t.Errorf("the upstream saw %s with %v", got.Target, got.Header)
	}
	// The second site signs in without a question.
	res, body = b.Open(w.Shop + "/app/cart?id=7")
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK ||
		res.Request.URL.String() != w.Shop+"/app/cart?id=7" || got.Target != "/cart?id=7" {
		t.Fatalf("the second site: %d at %s by way of %q: %s", res.StatusCode, res.Request.URL, b.Hops, body)
	}
	if user := got.Header.Get("X-Auth-User"); len(user) != 36 || got.Header.Get("Cookie") != "" {
		t.Errorf("the upstream saw X-Auth-User %q, Cookie %q", user, got.Header.Get("Cookie"))
	}
	// A reload ends no session.
	w.Reload()
	if res, _ := b.Open(w.Wiki + "/"); res.StatusCode != http.StatusOK || len(b.Hops) != 0 {
		t.Errorf("after a reload: %d by way of %q", res.StatusCode, b.Hops)
	}
	// Signing out at one site leads to the issuer, which asks, and ends the sessions of all sites.
	res, body = b.Open(w.Wiki + "/.gatehouse/logout")
	if !strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
		t.Fatalf("sign-out led to %s", res.Request.URL)
	}
	b.Submit(res, body, url.Values{})
	for _, site := range []string{w.Wiki, w.Shop} {
		if res, _ := b.Open(site + "/"); !strings.HasPrefix(res.Request.URL.String(), w.Issuer()+"/sign-in") {
			t.Errorf("after sign-out: %s leads to %s, want the sign-in page", site, res.Request.URL)
		}
	}
	log, err := os.ReadFile(w.Log)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"ghsc_", "ghsi_", "ghss_", "panic", servertest.TestPassword} {
		if strings.Contains(string(log), s) {
			i := strings.Index(string(log), s)
			t.Errorf("%q is in the log: %s", s, log[strings.LastIndexByte(string(log[:i]), 10)+1:i+20])
		}
	}
}

func TestProtectCodeInAnotherBrowser(t *testing.T) {
	w := servertest.NewWalk(t)
	thief, victim := servertest.NewBrowser(t), servertest.NewBrowser(t)
	// The thief signs in and stops the browser where it would bring the code home.
	thief.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Query().Has("gatehouse_code") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	res, _ := thief.SignIn(w.Wiki + "/")
	link := res.Header.Get("Location")
	if !strings.Contains(link, "gatehouse_code=") {
		t.Fatalf("no code in %d to %q", res.StatusCode, link)
	}
	if res, _ := victim.Open(link); res.StatusCode == http.StatusOK && !strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
		t.Errorf("another browser is let in at %s", res.Request.URL)
	}
	// It was burned by that.
	thief.CheckRedirect = nil
	if res, _ := thief.Open(link); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.Wiki+"/" {
		t.Errorf("the thief, who is signed in at the issuer, ends at %s with %d", res.Request.URL, res.StatusCode)
	}
}

func TestProtectBlockedPerson(t *testing.T) {
	w := servertest.NewWalk(t)
	b := servertest.NewBrowser(t)
	if res, body := b.SignIn(w.Wiki + "/"); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.Wiki+"/" {
		t.Fatalf("after sign-in: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	state := func(to string) {
		t.Helper()
		r := w.Request(http.MethodPost, "http://"+w.Admin+"/gatehouse/persons/state",
			strings.NewReader(`{"person":"demo@example.com","state":"`+to+`"}`))
		r.Header.Set("Content-Type", "application/json")
		if res, body := w.Do(r); res.StatusCode != http.StatusOK {
			t.Fatalf("state %s: %d %s", to, res.StatusCode, body)
		}
	}
	state("BLOCKED")
	if res, _ := b.Open(w.Wiki + "/"); !strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
		t.Errorf("a blocked person ends at %s with %d, want the issuer's sign-in", res.Request.URL, res.StatusCode)
	}
	if res, _ := b.SignIn(w.Wiki + "/"); res.Request.URL.String() == w.Wiki+"/" {
		t.Error("a blocked person signs in")
	}
	// A person who is unblocked has to sign in again.
	state("ACTIVE")
	if res, _ := b.Open(w.Wiki + "/"); !strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
		t.Errorf("the old session is back: %d at %s", res.StatusCode, res.Request.URL)
	}
}

// A site is a client of the issuer: the level of a scope that it asks for holds for browsers too.
func TestProtectScopeWithLevel(t *testing.T) {
	w := servertest.NewWalk(t)
	config := w.Config
	site := "http://" + servertest.FreeAddr(t)
	w.Extra = "scope ledger.read {\n\t\t\tlevel 2\n\t\t}"
	w.Config = func() string {
		return config() + fmt.Sprintf(`
%s {
	handle /need/* {
		protect {
			login
			allow {
				match path /need/*
				need  scopes ledger.read
			}
		}
		respond "the ledger"
	}
	handle {
		protect ledger.read {
			login
		}
		respond "the ledger"
	}
}
`, site)
	}
	w.Reload()
	b := servertest.NewBrowser(t)
	if res, body := b.SignIn(w.Wiki + "/"); res.StatusCode != http.StatusOK || res.Request.URL.String() != w.Wiki+"/" {
		t.Fatalf("after sign-in: %d at %s: %s", res.StatusCode, res.Request.URL, body)
	}
	for _, path := range []string{"/", "/need/1", "/", "/need/1"} {
		res, body := b.Open(site + path)
		if strings.Contains(body, "the ledger") || res.StatusCode != http.StatusForbidden ||
			!strings.HasPrefix(res.Request.URL.String(), w.Issuer()) {
			t.Errorf("%s with level 1: %d at %s: %.3000s, want the issuer's refusal", path, res.StatusCode, res.Request.URL, body)
		}
	}
}
