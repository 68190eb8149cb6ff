package federation_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestProviderAttacks covers attacks on the way to a provider and back. The answers themselves are judged by the
// providers in package idp.
func TestProviderAttacks(t *testing.T) {
	t.Parallel()
	newAt := func(t *testing.T, change ...func(*identity.Config)) *identitytest.Federated {
		t.Helper()
		e := identitytest.NewFederated(t, change...)
		e.Asking(func(d *authn.Demand) { // /next?corp demands corp, everything else partner
			if d.Provider = "partner"; strings.HasPrefix(d.Return, "/next?corp") {
				d.Provider = "corp"
			}
		})
		return e
	}
	t.Run("attack 116: the attacker's callback opened in the victim's browser", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		attacker, victim := e.Browser(), e.Browser()
		away := attacker.Leave("/next")
		ticket := e.Partner.Answer(identitytest.Ann(), nil)
		for name, b := range map[string]*identitytest.Browser{
			"a browser without cookies":      e.Browser(),
			"a browser in a flow of its own": victim,
		} {
			if b == victim {
				b.Leave("/next")
			}
			if a := b.Come(away, ticket); a.Code != http.StatusForbidden || b.IsSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", name, a.Code, b.IsSignedIn())
			}
		}
		// The answer is still valid in the browser that it belongs to.
		if a := attacker.Come(away, ticket); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("the browser that began: %d\n%s", a.Code, a.Body)
		}
		// The last step, after the answer was verified, does not work in another browser either.
		attacker = e.Browser()
		away = attacker.Leave("/next?2")
		done := attacker.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, away), ticket), "").Header().Get("Location")
		if a := victim.Get(done); a.Code != http.StatusForbidden || victim.IsSignedIn() {
			t.Errorf("last step in another browser: %d", a.Code)
		}
	})
	t.Run("attack 117: callback replayed, unknown, or with markup", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		away, ticket := b.Leave("/next"), e.Partner.Answer(identitytest.Ann(), nil)
		b.Come(away, ticket)
		delete(b.Cookies, sessionName(b))
		for name, target := range map[string]string{
			"replayed": identitytest.Callback(identitytest.State(t, away), ticket),
			"unknown":  identitytest.Callback(strings.Repeat("A", 43), ticket), "long": identitytest.Callback(strings.Repeat("A", 5000), ticket),
			"another's path": "/oidc/partner/callback?state=..%2f..&ticket=" + ticket,
			"twice":          identitytest.Callback(identitytest.State(t, away), ticket) + "&state=x",
		} {
			if a := b.Get(target); a.Code != http.StatusBadRequest || b.IsSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 400", name, a.Code, b.IsSignedIn())
			}
		}
		for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete} {
			if a := b.Do(method, identitytest.Callback(identitytest.State(t, b.Leave("/next?"+method)), ticket),
				""); a.Code != http.StatusMethodNotAllowed || b.IsSignedIn() {
				t.Errorf("%s: %d, want 405", method, a.Code)
			}
		}
		const markup = "<script>alert(1)</script>"
		a := b.Get("/oidc/partner/callback?" + url.Values{
			"state": {identitytest.State(t, b.Leave("/next?2"))}, "error": {markup},
			"error_description": {markup},
		}.Encode())
		if a.Code != http.StatusBadRequest || strings.Contains(a.Body.String(), markup) {
			t.Errorf("markup: %d\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 117: one answer twenty times at once", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		target := identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(identitytest.Ann(), nil))
		var wg sync.WaitGroup
		codes := make(chan int, 20)
		for range 20 {
			same := &identitytest.Browser{H: b.H, Cookies: map[string]string{}, Address: b.Address}
			for name, v := range b.Cookies {
				same.Cookies[name] = v
			}
			wg.Go(func() { codes <- same.Do(http.MethodGet, target, "").Code })
		}
		wg.Wait()
		close(codes)
		good := 0
		for code := range codes {
			if code == http.StatusSeeOther {
				good++
			} else if code != http.StatusBadRequest {
				t.Errorf("answer %d, want 303 or 400", code)
			}
		}
		if good != 1 {
			t.Errorf("%d answers were taken, want 1", good)
		}
	})
	t.Run("attack 118: a provider that hangs keeps nobody else", func(t *testing.T) {
		t.Parallel()
		e := newAt(t, identitytest.WithProvider("corp", func(p *federation.Provider) { p.Timeout = time.Minute }))
		entered, release := make(chan struct{}), make(chan struct{})
		e.Corp.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
			close(entered)
			<-release
			return nil, context.DeadlineExceeded
		})
		slow := e.Browser()
		hung := make(chan *identitytest.Answer)
		go func() { hung <- slow.Get("/next?corp") }()
		<-entered
		e.MustEnter(e.Browser(), identitytest.Ann())
		close(release)
		if a := <-hung; a.Code != http.StatusGatewayTimeout {
			t.Errorf("the one that hung: %d, want 504", a.Code)
		}
	})
	t.Run("attack 121: the same subject at two providers", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		first := e.MustEnter(e.Browser(), identitytest.Ann())
		b := e.Browser()
		same := identitytest.Ann()
		same.Email, same.EmailVerified, same.Username = "", false, "ann.at.corp"
		a := b.Get("/saml/corp/acs?" +
			url.Values{"state": {identitytest.State(t, b.Leave("/next?corp"))}, "ticket": {e.Corp.Answer(same, nil)}}.Encode())
		if si, err := e.SessionOf(b); err != nil || si.Subject == first.Subject {
			t.Errorf("at the other provider: %d, %+v, %v, want another person", a.Code, si, err)
		}
		other := identitytest.Ann()
		other.Issuer, other.Username, other.Email = "https://other.example", "ann.at.other", ""
		if si := e.MustEnter(e.Browser(), other); si.Subject == first.Subject {
			t.Error("the same subject of another issuer is the same person")
		}
	})
	t.Run("attack 122: the page that connects X, sent for Y", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		pageX := e.WantAsked("X", b, identitytest.Known())
		y := identitytest.Known()
		y.Subject = "y"
		pageY := e.WantAsked("Y", b, y)
		form := url.Values{"csrf": {pageX.CSRF()}, "username": {identitytest.Demo}, "password": {identitytest.DemoPassword}}.Encode()
		if a := b.Do(http.MethodPost, pageY.URL, form); a.Code != http.StatusForbidden || b.IsSignedIn() {
			t.Errorf("form of X for Y: %d, want 403", a.Code)
		}
		if a := e.Browser().Get(pageX.URL); a.Code != http.StatusForbidden {
			t.Errorf("the page of X in another browser: %d, want 403", a.Code)
		}
	})
	t.Run("attack 122: an answer forced upon the victim, whose password would connect it", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		forced := "/oidc/partner/callback?ticket=" + e.Partner.Answer(identitytest.Known(), nil)
		done := b.Do(http.MethodGet, forced, "").Header().Get("Location")
		if away := b.Leave(done); !strings.HasPrefix(away, idptest.Place) || b.IsSignedIn() {
			t.Errorf("the browser was sent to %q, want the provider, which says who really is there", away)
		}
		connect := strings.Replace(done, "/sign-in/provider/done", "/sign-in/connect", 1)
		if a := b.Get(connect); a.Code != http.StatusBadRequest || strings.Contains(a.Body.String(), "password") {
			t.Errorf("the page that connects: %d, want 400", a.Code)
		}
		if a := b.Do(http.MethodPost, connect,
			url.Values{"username": {identitytest.Demo}, "password": {identitytest.DemoPassword}}.Encode()); a.Code != http.StatusBadRequest ||
			b.IsSignedIn() {
			t.Errorf("the form that connects: %d, want 400", a.Code)
		}
		// A sign-in that starts in this browser leads to the page.
		if a := b.Come(b.Leave(done), e.Partner.Answer(identitytest.Known(), nil)); !strings.HasPrefix(a.URL, "/sign-in/connect") {
			t.Errorf("the sign-in that was begun ended at %s", a.URL)
		}
	})
	t.Run("attack 122: an account put there for somebody who comes later", func(t *testing.T) {
		t.Parallel()
		e := newAt(t, identitytest.WithProvider("corp", func(p *federation.Provider) { p.CoupleEmail = true }))
		squatter := e.MustEnter(e.Browser(),
			&idp.Identity{
				Issuer: identitytest.PartnerIssuer, Subject: "evil", Username: "evil", Email: "chief@corp.example",
				EmailVerified: true, Level: 1,
			})
		b := e.Browser()
		away := b.Leave("/next?corp")
		chief := &idp.Identity{Issuer: "https://corp.example", Subject: "chief", Email: "chief@corp.example", EmailVerified: true, Level: 1}
		a := b.Get("/saml/corp/acs?" + url.Values{"state": {identitytest.State(t, away)}, "ticket": {e.Corp.Answer(chief, nil)}}.Encode())
		if si, err := e.SessionOf(b); err == nil && si.Subject == squatter.Subject {
			t.Error("the newcomer was given the account of who has claimed their address at a provider whose addresses count for nothing")
		}
		if !strings.HasPrefix(a.URL, "/sign-in/connect") {
			t.Errorf("ended at %s with %d, want to be asked", a.URL, a.Code)
		}
	})
	t.Run("attack 122: an old or weak sign-in made good by the page that connects", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		e.WithoutStepUp()
		for name, change := range map[string]func(*authn.Demand, *idp.Identity){
			"old": func(d *authn.Demand, id *idp.Identity) {
				d.NotBefore, id.AuthTime = e.Clock.Now(), e.Clock.Now().Add(-time.Hour)
			},
			"aged": func(d *authn.Demand, id *idp.Identity) {
				d.MaxAge, id.AuthTime = time.Minute, e.Clock.Now().Add(-time.Hour)
			},
			"weak": func(d *authn.Demand, id *idp.Identity) { d.Level, id.Level = 3, 2 },
		} {
			id := identitytest.Known()
			e.Asking(func(d *authn.Demand) { d.MaxAge, d.NotBefore, d.Level = -1, time.Time{}, 0; change(d, id) })
			b := e.Browser()
			to := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(id, nil)),
				"").Header().Get("Location")
			a := b.Get(strings.Replace(to, "/sign-in/provider/done", "/sign-in/connect", 1))
			if strings.Contains(a.Body.String(), `name="password"`) || b.IsSignedIn() {
				t.Errorf("%s: ended at %s with %d, want it refused", name, a.URL, a.Code)
			}
		}
	})
	t.Run("attack 122: a password that has leaked, on the page that connects, while passwords are off", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		u := settings.Defaults()
		e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
		e.Start()
		b := e.Browser()
		page := e.WantAsked("address of somebody", b, identitytest.Known())
		u.LoginMethods.LoginMethods[0].Enabled = false
		if a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusForbidden ||
			b.IsSignedIn() {
			t.Errorf("form: %d, want 403", a.Code)
		}
		if a := b.Get(page.URL); a.Code != http.StatusForbidden {
			t.Errorf("page: %d, want 403", a.Code)
		}
	})
	t.Run("attack 98: a sign-in of unknown age passed off as a new one", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		for name, change := range map[string]func(*authn.Demand){
			"max_age":      func(d *authn.Demand) { d.MaxAge = time.Hour },
			"prompt=login": func(d *authn.Demand) { d.NotBefore = e.Clock.Now().Add(-time.Second) }, // from another tab
		} {
			e.Asking(func(d *authn.Demand) { d.MaxAge, d.NotBefore = -1, time.Time{} })
			b := e.Browser()
			e.MustEnter(b, identitytest.Ann()) // the answer does not say when Ann signed in
			e.Asking(change)
			away := b.Leave("/next?" + name)
			if q := e.Partner.Requests(); !strings.HasPrefix(away, idptest.Place) || (q[len(q)-1].MaxAge < 0 && !q[len(q)-1].Force) {
				t.Errorf("%s: sent to %q, want the provider to prove it", name, away)
			}
			if a := b.Come(away, e.Partner.Answer(identitytest.Ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("%s: ended at %s with %d", name, a.URL, a.Code)
			}
		}
	})
	t.Run("attack 129: a provider that is switched off between start and callback", func(t *testing.T) {
		t.Parallel()
		for name, step := range map[string]func(e *identitytest.Federated, b *identitytest.Browser) func() *identitytest.Answer{
			"before the answer": func(e *identitytest.Federated, b *identitytest.Browser) func() *identitytest.Answer {
				away := b.Leave("/next")
				return func() *identitytest.Answer { return b.Come(away, e.Partner.Answer(identitytest.Ann(), nil)) }
			},
			"before the last step": func(e *identitytest.Federated, b *identitytest.Browser) func() *identitytest.Answer {
				done := b.Do(http.MethodGet,
					identitytest.Callback(identitytest.State(e.T, b.Leave("/next")), e.Partner.Answer(identitytest.Ann(), nil)),
					"").Header().Get("Location")
				return func() *identitytest.Answer { return b.Get(done) }
			},
		} {
			e := newAt(t)
			b := e.Browser()
			finish := step(e, b)
			identitytest.WithProvider("partner", func(p *federation.Provider) { p.Disabled = true })(&e.Config)
			e.Start()
			if a := finish(); a.Code != http.StatusForbidden || b.IsSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", name, a.Code, b.IsSignedIn())
			}
		}
	})
	t.Run("attack 162: an answer to a flow that is another's, over, or unknown", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		away, ticket := b.Leave("/next"), e.Partner.Answer(identitytest.Ann(), nil)
		e.Clock.Advance(time.Hour)
		if a := b.Come(away, ticket); a.Code != http.StatusBadRequest || b.IsSignedIn() {
			t.Errorf("an hour later: %d, want 400", a.Code)
		}
	})
	t.Run("attack 167: an answer of one provider in a flow of another", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.Browser()
		atCorp, ticket := identitytest.State(t, b.Leave("/next?corp")), e.Partner.Answer(identitytest.Ann(), nil)
		e.Corp.Answer(identitytest.Ann(), nil)
		for name, target := range map[string]string{
			"corp's flow at partner":    identitytest.Callback(atCorp, ticket),
			"partner's ticket at corp":  "/saml/corp/acs?" + url.Values{"state": {atCorp}, "ticket": {ticket}}.Encode(),
			"partner under corp's path": "/saml/partner/acs?" + url.Values{"state": {atCorp}, "ticket": {ticket}}.Encode(),
		} {
			if a := b.Get(target); (a.Code != http.StatusBadRequest && a.Code != http.StatusForbidden) || b.IsSignedIn() {
				t.Errorf("%s: %d, signed in %t, want it refused", name, a.Code, b.IsSignedIn())
			}
		}
	})
	t.Run("attack 171: subjects that look alike, and attributes named like fields of ours", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		seen := map[string]string{}
		for _, subject := range []string{"ann", "Ann", "ann ", " ann", "ａｎｎ", "a\u0301nn", "\u00e1nn"} {
			id := &idp.Identity{
				Issuer: identitytest.PartnerIssuer, Subject: subject, Username: "u" + string(rune('a'+len(seen))), Level: 1,
				Details: map[string][]string{
					"sub": {"admin"}, "active": {"true"}, "groups": {"admins"}, "level": {"4"}, "sid": {"x"}, "email": {"one@a.example", "two@a.example"},
				},
			}
			si := e.MustEnter(e.Browser(), id)
			if other, ok := seen[si.Subject]; ok {
				t.Errorf("%q is the same person as %q", subject, other)
			}
			seen[si.Subject] = subject
			p, err := e.Person.Person(t.Context(), si.Subject)
			if err != nil || len(p.Groups) > 0 || si.Level != 1 || si.SessionID == "x" || len(si.Details["email"]) != 0 {
				t.Errorf("%q: %+v, %+v, %v, want nothing of ours overwritten", subject, p, si, err)
			}
		}
	})
}

func sessionName(b *identitytest.Browser) string {
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-session") {
			return name
		}
	}
	return ""
}
