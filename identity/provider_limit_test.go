package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
)

// TestProviderEndpointsAreBounded: endpoints where strangers can have signatures verified are limited per network.
func TestProviderEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	var full atomic.Bool
	e.admit = func(*http.Request) bool { return !full.Load() }
	e.start()
	handled := map[string]int{}
	e.corp.OnHandle(func(w http.ResponseWriter, _ *http.Request, op string, _ idp.Host) bool {
		handled[op]++
		w.WriteHeader(http.StatusNoContent)
		return true
	})
	e.at("partner")
	b := e.browser()
	away := b.leave("/next?client")
	full.Store(true)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		a := b.do(method, "/saml/corp/slo", "SAMLRequest=x")
		if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" || handled["slo"] != 0 {
			t.Errorf("%s of a sign-out: %d with Retry-After %q, %d were looked at; want 503 and none", method, a.Code, a.Header().Get("Retry-After"), handled["slo"])
		}
	}
	if a := b.do(http.MethodGet, "/saml/corp/metadata", ""); a.Code != http.StatusNoContent {
		t.Errorf("metadata: %d, want that they are there", a.Code)
	}
	stranger := e.browser()
	if a := stranger.get("/oidc/partner/callback?ticket=" + e.partner.Answer(ann(), nil)); a.Code != http.StatusServiceUnavailable || stranger.isSignedIn() {
		t.Errorf("an answer that nobody has asked for: %d, signed in %t; want 503", a.Code, stranger.isSignedIn())
	}
	if a := b.come(away, e.partner.Answer(ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("an answer to what was begun before: %d\n%s", a.Code, a.Body)
	}
	full.Store(false)
	if a := b.do(http.MethodPost, "/saml/corp/slo", "SAMLRequest=x"); a.Code != http.StatusNoContent || handled["slo"] != 1 {
		t.Errorf("a sign-out later: %d, %d were looked at", a.Code, handled["slo"])
	}
}

// TestUnaskedAnswerWithoutCookies: at an issuer without https, another site posts an unsolicited answer without our
// cookies. It must not replace the flow that the browser has started.
func TestUnaskedAnswerWithoutCookies(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, func(c *identity.Config) { c.Issuer = "http://localhost:8080" })
	e.asking(func(d *login.Demand) { d.Provider = "partner" })
	b := e.browser()
	away := b.leave("/next")
	before := b.cookie("tracker")
	cross := &browser{h: b.h, cookies: map[string]string{}, address: b.address, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}
	form := url.Values{"ticket": {e.partner.Answer(ann(), nil)}}
	a := cross.do(http.MethodPost, "/oidc/partner/callback", form.Encode())
	if a.Code != http.StatusOK || len(a.Result().Cookies()) != 0 || !strings.Contains(a.Body.String(), "gatehouse_again") {
		t.Fatalf("an answer without cookies: %d, cookies %v; want a page that posts it again, and no cookie\n%s", a.Code, a.Result().Cookies(), a.Body)
	}
	form.Set("gatehouse_again", "1")
	if a = b.do(http.MethodPost, "/oidc/partner/callback", form.Encode()); a.Code != http.StatusOK || b.cookie("tracker") != before {
		t.Errorf("posted again: %d, the cookie that binds flows changed: %t", a.Code, b.cookie("tracker") != before)
	}
	if a = b.come(away, e.partner.Answer(ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("what was begun before: %d\n%s", a.Code, a.Body)
	}
}

// TestTypedNameGoesToItsProvider: a typed username is passed only to the provider of its domain, even if the person
// then chooses another provider.
func TestTypedNameGoesToItsProvider(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Domains = []string{"partner.example"} }))
	e.asking(func(d *login.Demand) { d.Hint = "hint@shop.example" })
	b := e.browser()
	page := b.get("/next")
	b.post(page, "username", "ann@partner.example")
	b.leave("/sign-in/provider?" + url.Values{"flow": {strings.TrimPrefix(page.url, "/sign-in?flow=")}, "idp": {"corp"}}.Encode())
	b.leave("/sign-in/provider?" + url.Values{"flow": {strings.TrimPrefix(page.url, "/sign-in?flow=")}, "idp": {"partner"}}.Encode())
	if got := e.corp.Requests()[0].Hint; got != "hint@shop.example" {
		t.Errorf("corp was told %q, want what the client has said", got)
	}
	if got := e.partner.Requests()[0].Hint; got != "ann@partner.example" {
		t.Errorf("partner was told %q, want what was typed", got)
	}
	if again := b.get(page.url + "&choose=1"); !strings.Contains(again.Body.String(), `value="ann@partner.example"`) {
		t.Errorf("the form has forgotten what was typed:\n%s", again.Body)
	}
}
