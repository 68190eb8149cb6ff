package federation_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

var actionOf = regexp.MustCompile(`(?i)(?:action|formaction|href|src)="([^"]*)"`)

// TestProviderPeers plays what other products have fallen for on the way to a provider and back.
func TestProviderPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 29: a provider that is switched off while somebody is there, and before it answers unasked", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		m, source := &managerStub{version: 1}, idptest.New()
		m.list = []federation.Provider{{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"}}
		e.Manager = m
		e.Start()
		e.Asking(func(d *authn.Demand) { d.Provider = "managed" })
		ticket := source.Answer(identitytest.Ann(), nil)
		answer := func(flow string) string {
			return "/oidc/managed/callback?" + url.Values{"state": {flow}, "ticket": {ticket}}.Encode()
		}
		there, back := e.Browser(), e.Browser()
		flow := identitytest.State(t, there.Leave("/next"))
		done := back.Do(http.MethodGet, answer(identitytest.State(t, back.Leave("/next"))), "").Header().Get("Location")
		if !strings.HasPrefix(done, "/sign-in/provider/done?") {
			t.Fatalf("the answer leads to %q", done)
		}
		for name, off := range map[string]func(){
			"gone": func() { m.list, m.version = nil, m.version+1 },
			"switched off": func() {
				m.list, m.version = []federation.Provider{{ID: "managed", Source: source, Path: "oidc", Disabled: true}}, m.version+1
			},
			"of another protocol": func() {
				m.list, m.version = []federation.Provider{{ID: "managed", Source: source, Path: "saml"}}, m.version+1
			},
		} {
			off()
			stranger := e.Browser()
			for what, a := range map[string]*answerIn{
				"the answer":                    {there, answer(flow)},
				"an answer that nobody awaited": {stranger, "/oidc/managed/callback?ticket=" + ticket},
			} {
				if got := a.b.Get(a.target); got.Code != http.StatusForbidden || a.b.IsSignedIn() {
					t.Errorf("%s, %s: %d, signed in %t, want 403", name, what, got.Code, a.b.IsSignedIn())
				}
			}
			if name == "of another protocol" {
				continue
			}
			if got := back.Get(done); got.Code != http.StatusForbidden || back.IsSignedIn() {
				t.Errorf("%s, the last step: %d, signed in %t, want 403", name, got.Code, back.IsSignedIn())
			}
		}
	})
	t.Run("peer 29: sign-in that is switched off altogether", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		u := settings.Defaults()
		e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
		e.Start()
		e.At("partner")
		ticket := e.Partner.Answer(identitytest.Ann(), nil)
		there, back, stranger := e.Browser(), e.Browser(), e.Browser()
		target := identitytest.Callback(identitytest.State(t, there.Leave("/next")), ticket)
		done := back.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, back.Leave("/next")), ticket), "").Header().Get("Location")
		u.Features.LoginEnabled = false
		for what, a := range map[string]*answerIn{
			"the answer": {there, target}, "the last step": {back, done},
			"an answer that nobody awaited": {stranger, "/oidc/partner/callback?ticket=" + ticket},
		} {
			if got := a.b.Get(a.target); got.Code != http.StatusForbidden || a.b.IsSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", what, got.Code, a.b.IsSignedIn())
			}
		}
	})
	t.Run("peer 51: the answer of a provider, 64 times", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		b := e.Browser()
		replay := func(what, target string, good func(a *identitytest.Answer) bool) {
			t.Helper()
			var wait sync.WaitGroup
			answers := make(chan *identitytest.Answer, 64)
			for i := range 64 {
				same := &identitytest.Browser{H: b.H, Cookies: map[string]string{}, Address: b.Address}
				if i%2 == 0 { // half of them in the browser itself
					for name, v := range b.Cookies {
						same.Cookies[name] = v
					}
				}
				wait.Go(func() { answers <- same.Do(http.MethodGet, target, "") })
			}
			wait.Wait()
			close(answers)
			n := 0
			for a := range answers {
				if good(a) {
					n++
				} else if a.Code != http.StatusBadRequest && a.Code != http.StatusForbidden {
					t.Errorf("%s: %d %s, want 400 or 403", what, a.Code, a.Header().Get("Location"))
				}
			}
			if n != 1 {
				t.Errorf("%s was good for %d of 64, want one", what, n)
			}
		}
		done := ""
		var once sync.Mutex
		replay("the callback", identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(identitytest.Ann(), nil)),
			func(a *identitytest.Answer) bool {
				to := a.Header().Get("Location")
				if !strings.HasPrefix(to, "/sign-in/provider/done?") {
					return false
				}
				once.Lock()
				defer once.Unlock()
				done = to
				return true
			})
		replay("the last step", done, func(a *identitytest.Answer) bool { return a.Code == http.StatusSeeOther })
		if n := e.Events()["login.LoginSucceededEvent"]; n != 1 {
			t.Errorf("%d sign-ins, want one", n)
		}
	})
	t.Run("peer 48: the form that a page of ours posts goes where we say", func(t *testing.T) {
		t.Parallel()
		const own = "http://localhost:8080"
		e := identitytest.NewFederated(t, func(c *identity.Config) { c.Issuer = own })
		e.Asking(func(d *authn.Demand) { d.Provider = "partner" })
		b, without := e.Browser(), e.Browser()
		without.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "X-Forwarded-Host": {"evil.example"}}
		form := url.Values{"state": {identitytest.State(t, b.Leave("/next"))}, "ticket": {e.Partner.Answer(identitytest.Ann(), nil)}}
		for _, name := range []string{"action", "formaction", "url", "to", "target", "return", "redirect", "RelayState"} {
			form.Set(name, "javascript:alert(1)")
		}
		a := without.Do(http.MethodPost, "/oidc/partner/callback?"+url.Values{"action": {"https://evil.example/"}}.Encode(), form.Encode())
		page := a.Body.String()
		if a.Code != http.StatusOK || !strings.Contains(page, `action="`+own+`/oidc/partner/callback"`) {
			t.Errorf("the page posts elsewhere: %d\n%s", a.Code, page)
		}
		for _, m := range actionOf.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "javascript:") || strings.Contains(m[1], "evil") {
				t.Errorf("the page leads to %q", m[1])
			}
		}
	})
}

type answerIn struct {
	b      *identitytest.Browser
	target string
}
