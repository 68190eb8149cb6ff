package identity_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestProviderAttacks covers attacks on the way to a provider and back. The answers themselves are judged by the
// providers in package idp.
func TestProviderAttacks(t *testing.T) {
	t.Parallel()
	newAt := func(t *testing.T, change ...func(*identity.Config)) *elsewhere {
		t.Helper()
		e := newElsewhere(t, change...)
		e.asking(func(d *login.Demand) { // /next?corp demands corp, everything else partner
			if d.Provider = "partner"; strings.HasPrefix(d.Return, "/next?corp") {
				d.Provider = "corp"
			}
		})
		return e
	}
	t.Run("attack 116: the attacker's callback opened in the victim's browser", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		attacker, victim := e.browser(), e.browser()
		away := attacker.leave("/next")
		ticket := e.partner.Answer(ann(), nil)
		for name, b := range map[string]*browser{"a browser without cookies": e.browser(), "a browser in a flow of its own": victim} {
			if b == victim {
				b.leave("/next")
			}
			if a := b.come(away, ticket); a.Code != http.StatusForbidden || b.isSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", name, a.Code, b.isSignedIn())
			}
		}
		// The answer is still valid in the browser that it belongs to.
		if a := attacker.come(away, ticket); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("the browser that began: %d\n%s", a.Code, a.Body)
		}
		// The last step, after the answer was verified, does not work in another browser either.
		attacker = e.browser()
		away = attacker.leave("/next?2")
		done := attacker.do(http.MethodGet, callback(state(t, away), ticket), "").Header().Get("Location")
		if a := victim.get(done); a.Code != http.StatusForbidden || victim.isSignedIn() {
			t.Errorf("last step in another browser: %d", a.Code)
		}
	})
	t.Run("attack 117: callback replayed, unknown, or with markup", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		away, ticket := b.leave("/next"), e.partner.Answer(ann(), nil)
		b.come(away, ticket)
		delete(b.cookies, sessionName(b))
		for name, target := range map[string]string{
			"replayed": callback(state(t, away), ticket), "unknown": callback(strings.Repeat("A", 43), ticket), "long": callback(strings.Repeat("A", 5000), ticket),
			"another's path": "/oidc/partner/callback?state=..%2f..&ticket=" + ticket, "twice": callback(state(t, away), ticket) + "&state=x",
		} {
			if a := b.get(target); a.Code != http.StatusBadRequest || b.isSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 400", name, a.Code, b.isSignedIn())
			}
		}
		for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete} {
			if a := b.do(method, callback(state(t, b.leave("/next?"+method)), ticket), ""); a.Code != http.StatusMethodNotAllowed || b.isSignedIn() {
				t.Errorf("%s: %d, want 405", method, a.Code)
			}
		}
		const markup = "<script>alert(1)</script>"
		a := b.get("/oidc/partner/callback?" + url.Values{"state": {state(t, b.leave("/next?2"))}, "error": {markup}, "error_description": {markup}}.Encode())
		if a.Code != http.StatusBadRequest || strings.Contains(a.Body.String(), markup) {
			t.Errorf("markup: %d\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 117: one answer twenty times at once", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		target := callback(state(t, b.leave("/next")), e.partner.Answer(ann(), nil))
		var wg sync.WaitGroup
		codes := make(chan int, 20)
		for range 20 {
			same := &browser{h: b.h, cookies: map[string]string{}, address: b.address}
			for name, v := range b.cookies {
				same.cookies[name] = v
			}
			wg.Go(func() { codes <- same.do(http.MethodGet, target, "").Code })
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
		e := newAt(t, provider("corp", func(p *federation.Provider) { p.Timeout = time.Minute }))
		entered, release := make(chan struct{}), make(chan struct{})
		e.corp.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
			close(entered)
			<-release
			return nil, context.DeadlineExceeded
		})
		slow := e.browser()
		hung := make(chan *answer)
		go func() { hung <- slow.get("/next?corp") }()
		<-entered
		e.mustEnter(e.browser(), ann())
		close(release)
		if a := <-hung; a.Code != http.StatusGatewayTimeout {
			t.Errorf("the one that hung: %d, want 504", a.Code)
		}
	})
	t.Run("attack 121: the same subject at two providers", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		first := e.mustEnter(e.browser(), ann())
		b := e.browser()
		same := ann()
		same.Email, same.EmailVerified, same.Username = "", false, "ann.at.corp"
		a := b.get("/saml/corp/acs?" + url.Values{"state": {state(t, b.leave("/next?corp"))}, "ticket": {e.corp.Answer(same, nil)}}.Encode())
		if si, err := e.session(b); err != nil || si.Subject == first.Subject {
			t.Errorf("at the other provider: %d, %+v, %v, want another person", a.Code, si, err)
		}
		other := ann()
		other.Issuer, other.Username, other.Email = "https://other.example", "ann.at.other", ""
		if si := e.mustEnter(e.browser(), other); si.Subject == first.Subject {
			t.Error("the same subject of another issuer is the same person")
		}
	})
	t.Run("attack 122: the page that connects X, sent for Y", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		pageX := e.wantAsked("X", b, known())
		y := known()
		y.Subject = "y"
		pageY := e.wantAsked("Y", b, y)
		form := url.Values{"csrf": {pageX.csrf()}, "username": {demo}, "password": {demoPassword}}.Encode()
		if a := b.do(http.MethodPost, pageY.url, form); a.Code != http.StatusForbidden || b.isSignedIn() {
			t.Errorf("form of X for Y: %d, want 403", a.Code)
		}
		if a := e.browser().get(pageX.url); a.Code != http.StatusForbidden {
			t.Errorf("the page of X in another browser: %d, want 403", a.Code)
		}
	})
	t.Run("attack 122: an answer forced upon the victim, whose password would connect it", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		forced := "/oidc/partner/callback?ticket=" + e.partner.Answer(known(), nil)
		done := b.do(http.MethodGet, forced, "").Header().Get("Location")
		if away := b.leave(done); !strings.HasPrefix(away, idptest.Place) || b.isSignedIn() {
			t.Errorf("the browser was sent to %q, want the provider, which says who really is there", away)
		}
		connect := strings.Replace(done, "/sign-in/provider/done", "/sign-in/connect", 1)
		if a := b.get(connect); a.Code != http.StatusBadRequest || strings.Contains(a.Body.String(), "password") {
			t.Errorf("the page that connects: %d, want 400", a.Code)
		}
		if a := b.do(http.MethodPost, connect, url.Values{"username": {demo}, "password": {demoPassword}}.Encode()); a.Code != http.StatusBadRequest || b.isSignedIn() {
			t.Errorf("the form that connects: %d, want 400", a.Code)
		}
		// A sign-in that starts in this browser leads to the page.
		if a := b.come(b.leave(done), e.partner.Answer(known(), nil)); !strings.HasPrefix(a.url, "/sign-in/connect") {
			t.Errorf("the sign-in that was begun ended at %s", a.url)
		}
	})
	t.Run("attack 122: an account put there for somebody who comes later", func(t *testing.T) {
		t.Parallel()
		e := newAt(t, provider("corp", func(p *federation.Provider) { p.CoupleEmail = true }))
		squatter := e.mustEnter(e.browser(), &idp.Identity{Issuer: partnerIssuer, Subject: "evil", Username: "evil", Email: "chief@corp.example", EmailVerified: true, Level: 1})
		b := e.browser()
		away := b.leave("/next?corp")
		chief := &idp.Identity{Issuer: "https://corp.example", Subject: "chief", Email: "chief@corp.example", EmailVerified: true, Level: 1}
		a := b.get("/saml/corp/acs?" + url.Values{"state": {state(t, away)}, "ticket": {e.corp.Answer(chief, nil)}}.Encode())
		if si, err := e.session(b); err == nil && si.Subject == squatter.Subject {
			t.Error("the newcomer was given the account of who has claimed their address at a provider whose addresses count for nothing")
		}
		if !strings.HasPrefix(a.url, "/sign-in/connect") {
			t.Errorf("ended at %s with %d, want to be asked", a.url, a.Code)
		}
	})
	t.Run("attack 122: an old or weak sign-in made good by the page that connects", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		e.withoutStepUp()
		for name, change := range map[string]func(*login.Demand, *idp.Identity){
			"old": func(d *login.Demand, id *idp.Identity) {
				d.NotBefore, id.AuthTime = e.clock.Now(), e.clock.Now().Add(-time.Hour)
			},
			"aged": func(d *login.Demand, id *idp.Identity) {
				d.MaxAge, id.AuthTime = time.Minute, e.clock.Now().Add(-time.Hour)
			},
			"weak": func(d *login.Demand, id *idp.Identity) { d.Level, id.Level = 3, 2 },
		} {
			id := known()
			e.asking(func(d *login.Demand) { d.MaxAge, d.NotBefore, d.Level = -1, time.Time{}, 0; change(d, id) })
			b := e.browser()
			to := b.do(http.MethodGet, callback(state(t, b.leave("/next")), e.partner.Answer(id, nil)), "").Header().Get("Location")
			a := b.get(strings.Replace(to, "/sign-in/provider/done", "/sign-in/connect", 1))
			if strings.Contains(a.Body.String(), `name="password"`) || b.isSignedIn() {
				t.Errorf("%s: ended at %s with %d, want it refused", name, a.url, a.Code)
			}
		}
	})
	t.Run("attack 122: a password that has leaked, on the page that connects, while passwords are off", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		u := config.Defaults()
		e.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
		e.start()
		b := e.browser()
		page := e.wantAsked("address of somebody", b, known())
		u.LoginMethods.LoginMethods[0].Enabled = false
		if a := b.post(page, "username", demo, "password", demoPassword); a.Code != http.StatusForbidden || b.isSignedIn() {
			t.Errorf("form: %d, want 403", a.Code)
		}
		if a := b.get(page.url); a.Code != http.StatusForbidden {
			t.Errorf("page: %d, want 403", a.Code)
		}
	})
	t.Run("attack 98: a sign-in of unknown age passed off as a new one", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		for name, change := range map[string]func(*login.Demand){
			"max_age":      func(d *login.Demand) { d.MaxAge = time.Hour },
			"prompt=login": func(d *login.Demand) { d.NotBefore = e.clock.Now().Add(-time.Second) }, // from another tab
		} {
			e.asking(func(d *login.Demand) { d.MaxAge, d.NotBefore = -1, time.Time{} })
			b := e.browser()
			e.mustEnter(b, ann()) // the answer does not say when Ann signed in
			e.asking(change)
			away := b.leave("/next?" + name)
			if q := e.partner.Requests(); !strings.HasPrefix(away, idptest.Place) || (q[len(q)-1].MaxAge < 0 && !q[len(q)-1].Force) {
				t.Errorf("%s: sent to %q, want the provider to prove it", name, away)
			}
			if a := b.come(away, e.partner.Answer(ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
				t.Errorf("%s: ended at %s with %d", name, a.url, a.Code)
			}
		}
	})
	t.Run("attack 129: a provider that is switched off between start and callback", func(t *testing.T) {
		t.Parallel()
		for name, step := range map[string]func(e *elsewhere, b *browser) func() *answer{
			"before the answer": func(e *elsewhere, b *browser) func() *answer {
				away := b.leave("/next")
				return func() *answer { return b.come(away, e.partner.Answer(ann(), nil)) }
			},
			"before the last step": func(e *elsewhere, b *browser) func() *answer {
				done := b.do(http.MethodGet, callback(state(e.t, b.leave("/next")), e.partner.Answer(ann(), nil)), "").Header().Get("Location")
				return func() *answer { return b.get(done) }
			},
		} {
			e := newAt(t)
			b := e.browser()
			finish := step(e, b)
			provider("partner", func(p *federation.Provider) { p.Disabled = true })(&e.cfg)
			e.start()
			if a := finish(); a.Code != http.StatusForbidden || b.isSignedIn() {
				t.Errorf("%s: %d, signed in %t, want 403", name, a.Code, b.isSignedIn())
			}
		}
	})
	t.Run("attack 162: an answer to a flow that is another's, over, or unknown", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		away, ticket := b.leave("/next"), e.partner.Answer(ann(), nil)
		e.clock.Advance(time.Hour)
		if a := b.come(away, ticket); a.Code != http.StatusBadRequest || b.isSignedIn() {
			t.Errorf("an hour later: %d, want 400", a.Code)
		}
	})
	t.Run("attack 167: an answer of one provider in a flow of another", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		b := e.browser()
		atCorp, ticket := state(t, b.leave("/next?corp")), e.partner.Answer(ann(), nil)
		e.corp.Answer(ann(), nil)
		for name, target := range map[string]string{
			"corp's flow at partner":    callback(atCorp, ticket),
			"partner's ticket at corp":  "/saml/corp/acs?" + url.Values{"state": {atCorp}, "ticket": {ticket}}.Encode(),
			"partner under corp's path": "/saml/partner/acs?" + url.Values{"state": {atCorp}, "ticket": {ticket}}.Encode(),
		} {
			if a := b.get(target); (a.Code != http.StatusBadRequest && a.Code != http.StatusForbidden) || b.isSignedIn() {
				t.Errorf("%s: %d, signed in %t, want it refused", name, a.Code, b.isSignedIn())
			}
		}
	})
	t.Run("attack 171: subjects that look alike, and attributes named like fields of ours", func(t *testing.T) {
		t.Parallel()
		e := newAt(t)
		seen := map[string]string{}
		for _, subject := range []string{"ann", "Ann", "ann ", " ann", "ａｎｎ", "a\u0301nn", "\u00e1nn"} {
			id := &idp.Identity{Issuer: partnerIssuer, Subject: subject, Username: "u" + string(rune('a'+len(seen))), Level: 1, Details: map[string][]string{
				"sub": {"admin"}, "active": {"true"}, "groups": {"admins"}, "level": {"4"}, "sid": {"x"}, "email": {"one@a.example", "two@a.example"},
			}}
			si := e.mustEnter(e.browser(), id)
			if other, ok := seen[si.Subject]; ok {
				t.Errorf("%q is the same person as %q", subject, other)
			}
			seen[si.Subject] = subject
			p, err := e.Person.Person(t.Context(), si.Subject)
			if err != nil || len(p.Groups) > 0 || si.Level != 1 || si.SessionID == "x" || len(si.Details["email"]) != 2 {
				t.Errorf("%q: %+v, %+v, %v, want nothing of ours overwritten", subject, p, si, err)
			}
		}
	})
}

func sessionName(b *browser) string {
	for name := range b.cookies {
		if strings.HasSuffix(name, "-session") {
			return name
		}
	}
	return ""
}
