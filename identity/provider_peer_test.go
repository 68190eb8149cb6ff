package identity_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

var actionOf = regexp.MustCompile(`(?i)(?:action|formaction|href|src)="([^"]*)"`)

// TestProviderPeers plays what other products have fallen for on the way to a provider and back.
func TestProviderPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 29: a provider that is switched off while somebody is there, and before it answers unasked", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t)
		m, source := &managerStub{version: 1}, idptest.New()
		m.list = []federation.Provider{{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"}}
		e.manager = m
		e.start()
		e.asking(func(d *login.Demand) { d.Provider = "managed" })
		ticket := source.Answer(ann(), nil)
		answer := func(flow string) string {
			return "/oidc/managed/callback?" + url.Values{"state": {flow}, "ticket": {ticket}}.Encode()
		}
		there, back := e.browser(), e.browser()
		flow := state(t, there.leave("/next"))
		done := back.do(http.MethodGet, answer(state(t, back.leave("/next"))), "").Header().Get("Location")
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
			stranger := e.browser()
			for what, a := range map[string]*answerIn{
				"the answer":                    {there, answer(flow)},
				"an answer that nobody awaited": {stranger, "/oidc/managed/callback?ticket=" + ticket},
			} {
				if got := a.b.get(a.target); got.Code != http.StatusForbidden || a.b.isSignedIn() {
					t.Errorf("%s, %s: %d, signed in %t, want 403", name, what, got.Code, a.b.isSignedIn())
				}
			}
			if name == "of another protocol" {
				continue
			}
			if got := back.get(done); got.Code != http.StatusForbidden || back.isSignedIn() {
				t.Errorf("%s, the last step: %d, signed in %t, want 403", name, got.Code, back.isSignedIn())
			}
		}
	})
	t.Run("peer 29: sign-in that is switched off altogether", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t)
		u := config.Defaults()
		e.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
		e.start()
		e.at("partner")
		ticket := e.partner.Answer(ann(), nil)
		there, back, stranger := e.browser(), e.browser(), e.browser()
		target := callback(state(t, there.leave("/next")), ticket)
		done := back.do(http.MethodGet, callback(state(t, back.leave("/next")), ticket), "").Header().Get("Location")
		u.Features.LoginEnabled = false
		for what, a := range map[string]*answerIn{
			"the answer": {there, target}, "the last step": {back, done}, "an answer that nobody awaited": {stranger, "/oidc/partner/callback?ticket=" + ticket},
		} {
			if got := a.b.get(a.target); got.Code != http.StatusForbidden || a.b.isSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", what, got.Code, a.b.isSignedIn())
			}
		}
	})
	t.Run("peer 51: the answer of a provider, 64 times", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t)
		e.at("partner")
		b := e.browser()
		replay := func(what, target string, good func(a *answer) bool) {
			t.Helper()
			var wait sync.WaitGroup
			answers := make(chan *answer, 64)
			for i := range 64 {
				same := &browser{h: b.h, cookies: map[string]string{}, address: b.address}
				if i%2 == 0 { // half of them in the browser itself
					for name, v := range b.cookies {
						same.cookies[name] = v
					}
				}
				wait.Go(func() { answers <- same.do(http.MethodGet, target, "") })
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
		replay("the callback", callback(state(t, b.leave("/next")), e.partner.Answer(ann(), nil)), func(a *answer) bool {
			to := a.Header().Get("Location")
			if !strings.HasPrefix(to, "/sign-in/provider/done?") {
				return false
			}
			once.Lock()
			defer once.Unlock()
			done = to
			return true
		})
		replay("the last step", done, func(a *answer) bool { return a.Code == http.StatusSeeOther })
		if n := e.events()["login.LoginSucceededEvent"]; n != 1 {
			t.Errorf("%d sign-ins, want one", n)
		}
	})
	t.Run("peer 48: the form that a page of ours posts goes where we say", func(t *testing.T) {
		t.Parallel()
		const own = "http://localhost:8080"
		e := newElsewhere(t, func(c *identity.Config) { c.Issuer = own })
		e.asking(func(d *login.Demand) { d.Provider = "partner" })
		b, without := e.browser(), e.browser()
		without.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "X-Forwarded-Host": {"evil.example"}}
		form := url.Values{"state": {state(t, b.leave("/next"))}, "ticket": {e.partner.Answer(ann(), nil)}}
		for _, name := range []string{"action", "formaction", "url", "to", "target", "return", "redirect", "RelayState"} {
			form.Set(name, "javascript:alert(1)")
		}
		a := without.do(http.MethodPost, "/oidc/partner/callback?"+url.Values{"action": {"https://evil.example/"}}.Encode(), form.Encode())
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
	b      *browser
	target string
}
