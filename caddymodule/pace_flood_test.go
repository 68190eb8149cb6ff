package caddymodule_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// What strangers begin is stored for hours, so one of them could fill the disk: then no one gets a token or can
// revoke one.
func TestFloodOfBeginnings(t *testing.T) {
	w := servertest.NewWalk(t)
	w.Storage, w.Key = "storage memory "+t.Name(), "encryption_key "+servertest.TestKey
	w.Options += "\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32 ::1/128\n\t}"
	w.Extra = "client shop {\n\t\t\tpublic\n\t\t\tredirect_uris http://127.0.0.1/cb\n\t\t\tgrants authorization_code\n\t\t\tscopes openid\n\t\t}"
	w.Reload()
	ask := func(from, target string) *http.Response {
		r := w.Request(http.MethodGet, target, nil)
		r.Header.Set("X-Forwarded-For", from)
		r.Header.Set("Accept", "text/html")
		res, _ := w.Do(r)
		return res
	}
	authorize := w.Issuer() + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {"shop"}, "redirect_uri": {"http://127.0.0.1/cb"}, "scope": {"openid"},
		"code_challenge": {strings.Repeat("c", 43)}, "code_challenge_method": {"S256"},
	}.Encode()
	const stranger, other = "203.0.113.9", "203.0.113.10"
	n, res := 0, ask(stranger, authorize)
	for ; res.StatusCode == http.StatusSeeOther && n < 6000; n++ {
		res = ask(stranger, authorize)
	}
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || n < 1000 {
		t.Errorf("after %d sign-ins were begun from one address: %d with Retry-After %q, want 503 with one after some thousands", n,
			res.StatusCode, res.Header.Get("Retry-After"))
	}
	for range 6000 {
		if res = ask(stranger, w.Wiki+"/"); res.StatusCode != http.StatusFound {
			break
		}
	}
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a site = %d with Retry-After %q, want 429 with one", res.StatusCode, res.Header.Get("Retry-After"))
	}
	for _, target := range []string{authorize, w.Issuer() + "/account", w.Wiki + "/"} {
		if res := ask(other, target); res.StatusCode != http.StatusSeeOther && res.StatusCode != http.StatusFound {
			t.Errorf("%s for another address = %d, want that a sign-in begins", target, res.StatusCode)
		}
	}
	if w.Token() == "" {
		t.Error("no token")
	}
}
