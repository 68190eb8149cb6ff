package federation_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestProviderEndpointsAreBounded: endpoints where strangers can have signatures verified are limited per network.
func TestProviderEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	var full atomic.Bool
	e.Admit = func(*http.Request, int) bool { return !full.Load() }
	e.Start()
	handled := map[string]int{}
	e.Corp.OnHandle(func(w http.ResponseWriter, _ *http.Request, op string, _ idp.Host) bool {
		handled[op]++
		w.WriteHeader(http.StatusNoContent)
		return true
	})
	e.At("partner")
	b := e.Browser()
	away := b.Leave("/next?client")
	full.Store(true)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		a := b.Do(method, "/saml/corp/slo", "SAMLRequest=x")
		if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" || handled["slo"] != 0 {
			t.Errorf("%s of a sign-out: %d with Retry-After %q, %d were looked at; want 503 and none", method, a.Code,
				a.Header().Get("Retry-After"), handled["slo"])
		}
	}
	if a := b.Do(http.MethodGet, "/saml/corp/metadata", ""); a.Code != http.StatusNoContent {
		t.Errorf("metadata: %d, want that they are there", a.Code)
	}
	stranger := e.Browser()
	if a := stranger.Get("/oidc/partner/callback?ticket=" +
		e.Partner.Answer(identitytest.Ann(), nil)); a.Code != http.StatusServiceUnavailable || stranger.IsSignedIn() {
		t.Errorf("an answer that nobody has asked for: %d, signed in %t; want 503", a.Code, stranger.IsSignedIn())
	}
	if a := b.Come(away, e.Partner.Answer(identitytest.Ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("an answer to what was begun before: %d\n%s", a.Code, a.Body)
	}
	full.Store(false)
	if a := b.Do(http.MethodPost, "/saml/corp/slo", "SAMLRequest=x"); a.Code != http.StatusNoContent || handled["slo"] != 1 {
		t.Errorf("a sign-out later: %d, %d were looked at", a.Code, handled["slo"])
	}
}

// TestUnaskedAnswerWithoutCookies: at an issuer without https, another site posts an unsolicited answer without our
// cookies. It must not replace the flow that the browser has started.
func TestUnaskedAnswerWithoutCookies(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, func(c *identity.Config) { c.Issuer = "http://localhost:8080" })
	e.Asking(func(d *authn.Demand) { d.Provider = "partner" })
	b := e.Browser()
	away := b.Leave("/next")
	before := b.Cookie("tracker")
	cross := &identitytest.Browser{
		H: b.H, Cookies: map[string]string{}, Address: b.Address,
		Header: http.Header{"Sec-Fetch-Site": {"cross-site"}},
	}
	form := url.Values{"ticket": {e.Partner.Answer(identitytest.Ann(), nil)}}
	a := cross.Do(http.MethodPost, "/oidc/partner/callback", form.Encode())
	if a.Code != http.StatusOK || len(a.Result().Cookies()) != 0 || !strings.Contains(a.Body.String(), "gatehouse_again") {
		t.Fatalf("an answer without cookies: %d, cookies %v; want a page that posts it again, and no cookie\n%s", a.Code,
			a.Result().Cookies(), a.Body)
	}
	form.Set("gatehouse_again", "1")
	if a = b.Do(http.MethodPost, "/oidc/partner/callback", form.Encode()); a.Code != http.StatusOK || b.Cookie("tracker") != before {
		t.Errorf("posted again: %d, the cookie that binds flows changed: %t", a.Code, b.Cookie("tracker") != before)
	}
	if a = b.Come(away, e.Partner.Answer(identitytest.Ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("what was begun before: %d\n%s", a.Code, a.Body)
	}
}

// TestTypedNameGoesToItsProvider: a typed username is passed only to the provider of its domain, even if the person
// then chooses another provider.
func TestTypedNameGoesToItsProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Domains = []string{"partner.example"} }))
	e.Asking(func(d *authn.Demand) { d.Hint = "hint@shop.example" })
	b := e.Browser()
	page := b.Get("/next")
	b.Post(page, "username", "ann@partner.example")
	b.Leave("/sign-in/provider?" + url.Values{"flow": {strings.TrimPrefix(page.URL, "/sign-in?flow=")}, "idp": {"corp"}}.Encode())
	b.Leave("/sign-in/provider?" + url.Values{"flow": {strings.TrimPrefix(page.URL, "/sign-in?flow=")}, "idp": {"partner"}}.Encode())
	if got := e.Corp.Requests()[0].Hint; got != "hint@shop.example" {
		t.Errorf("corp was told %q, want what the client has said", got)
	}
	if got := e.Partner.Requests()[0].Hint; got != "ann@partner.example" {
		t.Errorf("partner was told %q, want what was typed", got)
	}
	if again := b.Get(page.URL + "&choose=1"); !strings.Contains(again.Body.String(), `value="ann@partner.example"`) {
		t.Errorf("the form has forgotten what was typed:\n%s", again.Body)
	}
}
