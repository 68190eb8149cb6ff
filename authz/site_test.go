package authz_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	wiki    = "https://wiki.example.com"
	files   = "https://files.example.com"
	binding = "the value of the site's cookie, as random as it must be"
)

// siteCode sends a browser through the sign-in for a site and returns the one-time code.
func siteCode(t *testing.T, h *authztest.Harness, b *authztest.Browser, d authz.SiteDemand) string {
	t.Helper()
	start, err := h.Server().BeginSite(t.Context(), d, binding)
	if err != nil {
		t.Fatalf("BeginSite = %v", err)
	}
	res := b.Follow(start)
	u, err := url.Parse(res.Location())
	if err != nil || res.Status != http.StatusFound || u.Query().Get(authz.SiteCodeParam) == "" {
		t.Fatalf("Site = %d %q, want a code", res.Status, res.Location())
	}
	clean := strings.TrimSuffix(res.Location(), authz.SiteCodeParam+"="+u.Query().Get(authz.SiteCodeParam))
	if strings.TrimRight(clean, "?&") != strings.TrimRight(d.Return, "?&") {
		t.Errorf("Site leads to %s, want the very URL %s", res.Location(), d.Return)
	}
	return u.Query().Get(authz.SiteCodeParam)
}

func finish(t *testing.T, h *authztest.Harness, origin, code, binding string) (authz.SiteLogin, error) {
	t.Helper()
	return h.Server().FinishSite(t.Context(), origin, code, binding, event.Origin{ClientIP: "192.0.2.1"})
}

// wantNotGood fails the test unless err says invalid_grant.
func wantNotGood(t *testing.T, what string, err error) {
	t.Helper()
	if e := new(oauth.Error); !errors.As(err, &e) || e.Code != "invalid_grant" {
		t.Errorf("FinishSite(%s) = %v, want invalid_grant", what, err)
	}
}

func siteActive(t *testing.T, h *authztest.Harness, origin, token string) bool {
	t.Helper()
	in, err := h.Server().SiteSession(t.Context(), origin, token)
	if err != nil {
		t.Fatalf("SiteSession = %v", err)
	}
	return in.Active
}

func openSite(t *testing.T, h *authztest.Harness, b *authztest.Browser) authz.SiteLogin {
	t.Helper()
	in, err := finish(t, h, wiki, siteCode(t, h, b, authz.SiteDemand{Origin: wiki, Return: wiki + "/page?a=1&b"}), binding)
	if err != nil {
		t.Fatalf("FinishSite = %v", err)
	}
	return in
}

func TestSite(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := openSite(t, h, b)
	if in.Return != wiki+"/page?a=1&b" || in.MaxAge != 0 {
		t.Errorf("SiteLogin = %+v", in)
	}
	got, err := h.Server().SiteSession(t.Context(), wiki, in.Token)
	if err != nil || !got.Active || got.Subject != authztest.Demo || got.Person == nil || got.Person.Username != "demo@example.com" || got.Level != 1 ||
		got.SessionID != b.Session() || !got.AuthTime.Equal(authztest.Start) {
		t.Errorf("SiteSession = %+v, %v", got, err)
	}
	for name, active := range map[string]bool{
		"at another site": siteActive(t, h, files, in.Token), "cut": siteActive(t, h, wiki, in.Token[:len(in.Token)-1]),
		"empty": siteActive(t, h, wiki, ""), "an access token": siteActive(t, h, wiki, h.Tokens("shop", authztest.Demo).Access),
	} {
		if active {
			t.Errorf("SiteSession(%s) is active", name)
		}
	}
	// The second site shows no page: the person is already signed in.
	if code := siteCode(t, h, h.Browser("").SignIn(authztest.Demo), authz.SiteDemand{Origin: files, Return: files + "/"}); code == "" {
		t.Error("no code for the second site")
	}
	if h.Active(in.Token) {
		t.Error("a site's session is an active token at the introspection endpoint")
	}
	h.Invariants(t)
}

// TestSiteSessionEnds: it depends on the issuer's session and the person.
func TestSiteSessionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*authztest.Harness, *authztest.Browser, authz.SiteLogin){
		"signed out": func(h *authztest.Harness, b *authztest.Browser, _ authz.SiteLogin) {
			_, fields := authztest.Form(b.Get("/oauth/logout").Body)
			b.Post("/oauth/logout", fields)
		},
		"session ended":   func(h *authztest.Harness, b *authztest.Browser, _ authz.SiteLogin) { h.People.EndSession(b.Session()) },
		"session expired": func(h *authztest.Harness, _ *authztest.Browser, _ authz.SiteLogin) { h.Clock.Advance(12 * time.Hour) },
		"blocked": func(h *authztest.Harness, _ *authztest.Browser, _ authz.SiteLogin) {
			h.People.Change(authztest.Demo, func(s *login.Subject) { s.Active = false })
		},
		"password changed": func(h *authztest.Harness, _ *authztest.Browser, _ authz.SiteLogin) {
			h.People.Change(authztest.Demo, func(s *login.Subject) { s.Epoch++ })
		},
		"left the site": func(h *authztest.Harness, _ *authztest.Browser, in authz.SiteLogin) {
			if _, err := h.Server().EndSite(h.T.Context(), wiki, in.Token); err != nil {
				h.T.Error(err)
			}
		},
		"everything ended": func(h *authztest.Harness, _ *authztest.Browser, _ authz.SiteLogin) {
			if err := token.EndEverything(h.T.Context(), h.Store.Store); err != nil {
				h.T.Error(err)
			}
			h.Restart(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t)
			b := h.Browser(authztest.Demo)
			in := openSite(t, h, b)
			if !siteActive(t, h, wiki, in.Token) {
				t.Fatal("the session is not active")
			}
			end(h, b, in)
			if siteActive(t, h, wiki, in.Token) {
				t.Error("the session is still active")
			}
		})
	}
}

func TestSiteTouches(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := openSite(t, h, b)
	for range 5 {
		siteActive(t, h, wiki, in.Token)
	}
	if n := h.People.Touched(b.Session()); n != 0 {
		t.Errorf("touched %d times within a minute", n)
	}
	h.Clock.Advance(time.Minute)
	for range 5 {
		siteActive(t, h, wiki, in.Token)
	}
	if n := h.People.Touched(b.Session()); n != 1 {
		t.Errorf("touched %d times after a minute, want once", n)
	}
}

func TestSiteDemands(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	h.Clock.Advance(time.Hour)
	in, err := finish(t, h, wiki, siteCode(t, h, b, authz.SiteDemand{Origin: wiki, Return: wiki + "/", Level: 2, MaxAge: time.Minute}), binding)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Server().SiteSession(t.Context(), wiki, in.Token)
	if err != nil || got.Level != 2 || !got.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("SiteSession = %+v, %v, want level 2 and a fresh sign-in", got, err)
	}
	res := b.Follow(begin(t, h, authz.SiteDemand{Origin: wiki, Return: wiki + "/", Level: 4}))
	wantPage(t, "a level out of reach", res, http.StatusForbidden)
	h.Invariants(t)
}

func begin(t *testing.T, h *authztest.Harness, d authz.SiteDemand) string {
	t.Helper()
	start, err := h.Server().BeginSite(t.Context(), d, binding)
	if err != nil {
		t.Fatal(err)
	}
	return start
}

func TestSiteRefuses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, d := range []authz.SiteDemand{
		{Origin: evil, Return: evil + "/"},
		{Origin: wiki, Return: evil + "/"},
		{Origin: wiki, Return: "https://wiki.example.com.evil.example/"},
		{Origin: wiki, Return: wiki},
		{Origin: wiki, Return: wiki + "/\r\nX-Evil: 1"},
		{Origin: wiki, Return: wiki + "/#frag"},
		{Origin: wiki, Return: "/page"},
		{Origin: wiki, Return: wiki + "/" + strings.Repeat("x", 20<<10)},
	} {
		if start, err := h.Server().BeginSite(t.Context(), d, binding); err == nil {
			t.Errorf("BeginSite(%.80q) = %s, want an error", d.Return, start)
		}
	}
	b := h.Browser(authztest.Demo)
	wantPage(t, "unknown flow", b.Follow("/oauth/site?flow=nothing"), http.StatusBadRequest)
	wantPage(t, "no flow", b.Follow("/oauth/site"), http.StatusBadRequest)
	start := begin(t, h, authz.SiteDemand{Origin: wiki, Return: wiki + "/page"})
	h.Clock.Advance(time.Hour)
	if res := b.Follow(start); res.Location() != wiki+"/page" {
		t.Errorf("Site(expired flow) = %d %q, want back to the site, which begins anew", res.Status, res.Location())
	}
	start = begin(t, h, authz.SiteDemand{Origin: wiki, Return: wiki + "/page"})
	h.Restart(func(c *authz.Config) { c.SiteOrigins = []string{files} })
	wantPage(t, "site that is gone", b.Follow(start), http.StatusBadRequest)
	h.Invariants(t)
}

func TestSiteCode(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	fresh := func() string { return siteCode(t, h, b, authz.SiteDemand{Origin: wiki, Return: wiki + "/"}) }
	for name, try := range map[string]func(code string) error{
		"at another site":    func(code string) error { _, err := finish(t, h, files, code, binding); return err },
		"in another browser": func(code string) error { _, err := finish(t, h, wiki, code, "another cookie"); return err },
		"without a cookie":   func(code string) error { _, err := finish(t, h, wiki, code, ""); return err },
	} {
		code := fresh()
		wantNotGood(t, name, try(code))
		_, err := finish(t, h, wiki, code, binding)
		wantNotGood(t, "after "+name, err) // burned
	}
	_, err := finish(t, h, wiki, fresh()[:20], binding)
	wantNotGood(t, "cut", err)
	code := fresh()
	h.Clock.Advance(61 * time.Second)
	_, err = finish(t, h, wiki, code, binding)
	wantNotGood(t, "too late", err)

	code = fresh()
	in, err := finish(t, h, wiki, code, binding)
	if err != nil {
		t.Fatal(err)
	}
	_, err = finish(t, h, wiki, code, binding)
	wantNotGood(t, "replay", err)
	if siteActive(t, h, wiki, in.Token) {
		t.Error("the session of a replayed code is still active")
	}
	code = fresh()
	h.People.Change(authztest.Demo, func(s *login.Subject) { s.Active = false })
	_, err = finish(t, h, wiki, code, binding)
	wantNotGood(t, "blocked in between", err)
	h.Invariants(t)
}

func TestSiteCodeRace(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	code := siteCode(t, h, h.Browser(authztest.Demo), authz.SiteDemand{Origin: wiki, Return: wiki + "/"})
	var good atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := finish(t, h, wiki, code, binding); err == nil {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	if good.Load() != 1 {
		t.Errorf("%d of 50 redemptions succeeded, want 1", good.Load())
	}
	h.Invariants(t)
}

func TestSiteStorageFails(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.AllowFailures()
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	in := openSite(t, h, b)
	start := begin(t, h, authz.SiteDemand{Origin: wiki, Return: wiki + "/"})
	code := siteCode(t, h, b, authz.SiteDemand{Origin: wiki, Return: wiki + "/"})
	h.Store.Fail(storage.ErrUnavailable)
	if _, err := h.Server().SiteSession(t.Context(), wiki, in.Token); err == nil {
		t.Error("SiteSession = nil error while storage fails")
	}
	if _, err := h.Server().BeginSite(t.Context(), authz.SiteDemand{Origin: wiki, Return: wiki + "/"}, binding); err == nil {
		t.Error("BeginSite = nil error while storage fails")
	}
	_, err := finish(t, h, wiki, code, binding)
	if e := new(oauth.Error); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("FinishSite = %v, want 503", err)
	}
	if res := b.Get(start); res.Status != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("Site = %d, want 503 with Retry-After", res.Status)
	}
	h.Store.Fail(nil)
	if _, err := finish(t, h, wiki, code, binding); err != nil {
		t.Errorf("FinishSite afterwards = %v", err)
	}
	h.Invariants(t)
}

// A person who leaves by the site's own link is not asked again. The address is worth nothing for another session.
func TestSignOutFromSite(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b, other := h.Browser(authztest.Demo), h.Browser(authztest.Demo)
	in := openSite(t, h, b)
	elsewhere := openSite(t, h, other)
	out, err := h.Server().EndSite(t.Context(), wiki, in.Token)
	if err != nil || siteActive(t, h, wiki, in.Token) {
		t.Fatalf("EndSite = %v, the session must have ended", err)
	}
	asks := func(name string, b *authztest.Browser, link string) {
		t.Helper()
		if res := b.Get(link); res.Status != http.StatusOK || res.Location() != "" {
			t.Errorf("%s: Logout = %d %q, want a question", name, res.Status, res.Location())
		}
	}
	asks("another session", other, out)
	asks("another value", b, h.Server().LogoutURL(wiki)+"&site_request=AAAA")
	if again, err := h.Server().EndSite(t.Context(), wiki, in.Token); err != nil || strings.Contains(again, "site_request") {
		t.Errorf("EndSite of an ended session = %q, %v, want the question", again, err)
	}
	if res := b.Get(out); res.Location() != wiki+authz.SiteSignedOut {
		t.Errorf("Logout = %d %q, want the site's page at once", res.Status, res.Location())
	}
	asks("signed out elsewhere", other, h.Server().LogoutURL(wiki))
	if !siteActive(t, h, wiki, elsewhere.Token) {
		t.Error("the sign-out of one browser ended another's session")
	}
	h.Invariants(t)
}

// Somebody who is signed in with the wrong account signs in with another one.
func TestSiteAsksForAnotherAccount(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	openSite(t, h, b)
	begin := func(d authz.SiteDemand) string {
		t.Helper()
		d.Origin, d.Return = wiki, wiki+"/page"
		to, err := h.Server().BeginSite(t.Context(), d, binding)
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	h.Clock.Advance(time.Minute)
	if res := b.Get(begin(authz.SiteDemand{})); !strings.HasPrefix(res.Location(), wiki+"/page?") {
		t.Errorf("Site = %d %q, want the way back", res.Status, res.Location())
	}
	if res := b.Get(begin(authz.SiteDemand{Another: true})); strings.HasPrefix(res.Location(), wiki) || res.Location() == "" {
		t.Errorf("Site with Another = %d %q, want the sign-in", res.Status, res.Location())
	}
	h.Invariants(t)
}

func TestLogoutURL(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := openSite(t, h, b)
	res := b.Follow(h.Server().LogoutURL(wiki))
	action, fields := authztest.Form(res.Body)
	if res = b.Post(action, fields); res.Location() != wiki+authz.SiteSignedOut {
		t.Errorf("Logout = %d %q, want back to the site", res.Status, res.Location())
	}
	if siteActive(t, h, wiki, in.Token) {
		t.Error("the site's session goes on after the sign-out")
	}
	h.Invariants(t)
}
