package sitesession_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	files = "https://files.example.com"
)

// wantNotGood fails the test unless err says invalid_grant.
func wantNotGood(t *testing.T, what string, err error) {
	t.Helper()
	if e := new(oauth.Error); !errors.As(err, &e) || e.Code != "invalid_grant" {
		t.Errorf("FinishSite(%s) = %v, want invalid_grant", what, err)
	}
}

func TestSite(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := authztest.OpenSite(t, h, b)
	if in.Return != authztest.WikiOrigin+"/page?a=1&b" || in.MaxAge != 0 {
		t.Errorf("SiteLogin = %+v", in)
	}
	got, err := h.Server().SiteSession(t.Context(), authztest.WikiOrigin, in.Token, "")
	if err != nil || !got.Active || got.Subject != authztest.Demo || got.Person == nil ||
		got.Person.Username != "demo@example.com" || got.Level != 1 ||
		got.SessionID != b.Session() || !got.AuthTime.Equal(authztest.Start) {
		t.Errorf("SiteSession = %+v, %v", got, err)
	}
	for name, active := range map[string]bool{
		"at another site": authztest.SiteActive(t, h, files, in.Token),
		"cut":             authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token[:len(in.Token)-1]),
		"empty":           authztest.SiteActive(t, h, authztest.WikiOrigin, ""),
		"an access token": authztest.SiteActive(t, h, authztest.WikiOrigin, h.Tokens("shop", authztest.Demo).Access),
	} {
		if active {
			t.Errorf("SiteSession(%s) is active", name)
		}
	}
	// The second site shows no page: the person is already signed in.
	if code := authztest.SiteCode(t, h, h.Browser("").SignIn(authztest.Demo),
		authz.SiteDemand{Origin: files, Return: files + "/"}); code == "" {
		t.Error("no code for the second site")
	}
	if h.Active(in.Token) {
		t.Error("a site's session is an active token at the introspection endpoint")
	}
	h.Invariants(t)
}

// TestSiteFragment: a browser that says that it keeps what is after # in the address goes to the site by a page, on
// which a script adds that. It names nothing else, and no other sign-in.
func TestSiteFragment(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	mark := regexp.MustCompile(`data-fragment="([0-9a-f]{16})" data-cookie="([a-zA-Z0-9_-]+)"`)
	begin := func() string {
		start, err := h.Server().BeginSite(t.Context(),
			authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/page?a=1"}, authztest.SiteBinding)
		if err != nil {
			t.Fatalf("BeginSite = %v", err)
		}
		return start
	}
	nameOf := func(start string) string {
		_, id, _ := strings.Cut(start, "?flow=")
		sum := sha256.Sum256([]byte(id))
		return hex.EncodeToString(sum[:8])
	}
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	another := nameOf(begin())
	for what, tt := range map[string]struct {
		cookie func(name string) string
		page   bool
	}{
		"nothing kept":                {func(string) string { return "" }, false},
		"kept for this sign-in":       {func(name string) string { return "0123456789abcdef." + name }, true},
		"kept for another sign-in":    {func(string) string { return another }, false},
		"a name that begins like it":  {func(name string) string { return name[:8] }, false},
		"an address in place of it":   {func(string) string { return "https://evil.example" }, false},
		"a name with something added": {func(name string) string { return name + "x" }, false},
	} {
		start := begin()
		res := b.Get(start, "Cookie", cookie.For(h.Issuer).Name("fragment")+"="+tt.cookie(nameOf(start)))
		m := mark.FindStringSubmatch(res.Body)
		if got := res.Status == http.StatusOK && m != nil; got != tt.page {
			t.Errorf("%s: %d to %q, a page: %t, want %t", what, res.Status, res.Location(), got, tt.page)
		}
		if tt.page && !strings.Contains(res.Body, `href="`+authztest.WikiOrigin+"/page?a=1&amp;"+authz.SiteCodeParam+"=") {
			t.Errorf("%s: the page does not lead to the site\n%s", what, res.Body)
		}
	}
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
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		},
		"password changed": func(h *authztest.Harness, _ *authztest.Browser, _ authz.SiteLogin) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
		},
		"left the site": func(h *authztest.Harness, _ *authztest.Browser, in authz.SiteLogin) {
			if _, err := h.Server().EndSite(h.T.Context(), authztest.WikiOrigin, in.Token); err != nil {
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
			in := authztest.OpenSite(t, h, b)
			if !authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token) {
				t.Fatal("the session is not active")
			}
			end(h, b, in)
			if authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token) {
				t.Error("the session is still active")
			}
		})
	}
}

func TestSiteTouches(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := authztest.OpenSite(t, h, b)
	for range 5 {
		authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token)
	}
	if n := h.People.Touched(b.Session()); n != 0 {
		t.Errorf("touched %d times within a minute", n)
	}
	h.Clock.Advance(time.Minute)
	for range 5 {
		authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token)
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
	in, err := authztest.FinishSite(t, h, authztest.WikiOrigin,
		authztest.SiteCode(t, h, b, authz.SiteDemand{
			Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/", Level: 2,
			MaxAge: time.Minute,
		}), authztest.SiteBinding)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Server().SiteSession(t.Context(), authztest.WikiOrigin, in.Token, "")
	if err != nil || got.Level != 2 || !got.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("SiteSession = %+v, %v, want level 2 and a fresh sign-in", got, err)
	}
	res := b.Follow(authztest.BeginSite(t, h, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/", Level: 4}))
	authztest.WantPage(t, "a level out of reach", res, http.StatusForbidden)
	h.Invariants(t)
}

func TestSiteRefuses(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, d := range []authz.SiteDemand{
		{Origin: authztest.Evil, Return: authztest.Evil + "/"},
		{Origin: authztest.WikiOrigin, Return: authztest.Evil + "/"},
		{Origin: authztest.WikiOrigin, Return: "https://wiki.example.com.evil.example/"},
		{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin},
		{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/\r\nX-Evil: 1"},
		{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/#frag"},
		{Origin: authztest.WikiOrigin, Return: "/page"},
		{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/" + strings.Repeat("x", 20<<10)},
	} {
		if start, err := h.Server().BeginSite(t.Context(), d, authztest.SiteBinding); err == nil {
			t.Errorf("BeginSite(%.80q) = %s, want an error", d.Return, start)
		}
	}
	b := h.Browser(authztest.Demo)
	authztest.WantPage(t, "unknown flow", b.Follow("/oauth/site?flow=nothing"), http.StatusBadRequest)
	authztest.WantPage(t, "no flow", b.Follow("/oauth/site"), http.StatusBadRequest)
	start := authztest.BeginSite(t, h, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/page"})
	h.Clock.Advance(time.Hour)
	if res := b.Follow(start); res.Location() != authztest.WikiOrigin+"/page" {
		t.Errorf("Site(expired flow) = %d %q, want back to the site, which begins anew", res.Status, res.Location())
	}
	start = authztest.BeginSite(t, h, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/page"})
	h.Restart(func(c *authz.Config) { c.SiteOrigins = []string{files} })
	authztest.WantPage(t, "site that is gone", b.Follow(start), http.StatusBadRequest)
	h.Invariants(t)
}

func TestSiteCode(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	fresh := func() string {
		return authztest.SiteCode(t, h, b, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"})
	}
	for name, try := range map[string]func(code string) error{
		"at another site": func(code string) error {
			_, err := authztest.FinishSite(t, h, files, code, authztest.SiteBinding)
			return err
		},
		"in another browser": func(code string) error {
			_, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, "another cookie")
			return err
		},
		"without a cookie": func(code string) error {
			_, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, "")
			return err
		},
	} {
		code := fresh()
		wantNotGood(t, name, try(code))
		_, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
		wantNotGood(t, "after "+name, err) // burned
	}
	_, err := authztest.FinishSite(t, h, authztest.WikiOrigin, fresh()[:20], authztest.SiteBinding)
	wantNotGood(t, "cut", err)
	code := fresh()
	h.Clock.Advance(61 * time.Second)
	_, err = authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
	wantNotGood(t, "too late", err)

	code = fresh()
	in, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
	if err != nil {
		t.Fatal(err)
	}
	_, err = authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
	wantNotGood(t, "replay", err)
	if authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token) {
		t.Error("the session of a replayed code is still active")
	}
	code = fresh()
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
	_, err = authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
	wantNotGood(t, "blocked in between", err)
	h.Invariants(t)
}

func TestSiteCodeRace(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	code := authztest.SiteCode(t, h, h.Browser(authztest.Demo),
		authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"})
	var good atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding); err == nil {
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
	in := authztest.OpenSite(t, h, b)
	start := authztest.BeginSite(t, h, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"})
	code := authztest.SiteCode(t, h, b, authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"})
	h.Store.Fail(storage.ErrUnavailable)
	if _, err := h.Server().SiteSession(t.Context(), authztest.WikiOrigin, in.Token, ""); err == nil {
		t.Error("SiteSession = nil error while storage fails")
	}
	if _, err := h.Server().BeginSite(t.Context(), authz.SiteDemand{Origin: authztest.WikiOrigin, Return: authztest.WikiOrigin + "/"},
		authztest.SiteBinding); err == nil {
		t.Error("BeginSite = nil error while storage fails")
	}
	_, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding)
	if e := new(oauth.Error); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("FinishSite = %v, want 503", err)
	}
	if res := b.Get(start); res.Status != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("Site = %d, want 503 with Retry-After", res.Status)
	}
	h.Store.Fail(nil)
	if _, err := authztest.FinishSite(t, h, authztest.WikiOrigin, code, authztest.SiteBinding); err != nil {
		t.Errorf("FinishSite afterwards = %v", err)
	}
	h.Invariants(t)
}

// A person who leaves by the site's own link is not asked again. The address is worth nothing for another session.
func TestSignOutFromSite(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b, other := h.Browser(authztest.Demo), h.Browser(authztest.Demo)
	in := authztest.OpenSite(t, h, b)
	elsewhere := authztest.OpenSite(t, h, other)
	out, err := h.Server().EndSite(t.Context(), authztest.WikiOrigin, in.Token)
	if err != nil || authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token) {
		t.Fatalf("EndSite = %v, the session must have ended", err)
	}
	asks := func(name string, b *authztest.Browser, link string) {
		t.Helper()
		if res := b.Get(link); res.Status != http.StatusOK || res.Location() != "" {
			t.Errorf("%s: Logout = %d %q, want a question", name, res.Status, res.Location())
		}
	}
	asks("another session", other, out)
	asks("another value", b, h.Server().LogoutURL(authztest.WikiOrigin)+"&site_request=AAAA")
	if again, err := h.Server().EndSite(t.Context(), authztest.WikiOrigin, in.Token); err != nil || strings.Contains(again, "site_request") {
		t.Errorf("EndSite of an ended session = %q, %v, want the question", again, err)
	}
	if res := b.Get(out); res.Location() != authztest.WikiOrigin+authz.SiteSignedOut {
		t.Errorf("Logout = %d %q, want the site's page at once", res.Status, res.Location())
	}
	asks("signed out elsewhere", other, h.Server().LogoutURL(authztest.WikiOrigin))
	if !authztest.SiteActive(t, h, authztest.WikiOrigin, elsewhere.Token) {
		t.Error("the sign-out of one browser ended another's session")
	}
	h.Invariants(t)
}

// Someone who is signed in with the wrong account signs in with another one.
func TestSiteAsksForAnotherAccount(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	authztest.OpenSite(t, h, b)
	begin := func(d authz.SiteDemand) string {
		t.Helper()
		d.Origin, d.Return = authztest.WikiOrigin, authztest.WikiOrigin+"/page"
		to, err := h.Server().BeginSite(t.Context(), d, authztest.SiteBinding)
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	h.Clock.Advance(time.Minute)
	if res := b.Get(begin(authz.SiteDemand{})); !strings.HasPrefix(res.Location(), authztest.WikiOrigin+"/page?") {
		t.Errorf("Site = %d %q, want the way back", res.Status, res.Location())
	}
	if res := b.Get(begin(authz.SiteDemand{Another: true})); strings.HasPrefix(res.Location(), authztest.WikiOrigin) || res.Location() == "" {
		t.Errorf("Site with Another = %d %q, want the sign-in", res.Status, res.Location())
	}
	h.Invariants(t)
}

func TestLogoutURL(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	in := authztest.OpenSite(t, h, b)
	res := b.Follow(h.Server().LogoutURL(authztest.WikiOrigin))
	action, fields := authztest.Form(res.Body)
	if res = b.Post(action, fields); res.Location() != authztest.WikiOrigin+authz.SiteSignedOut {
		t.Errorf("Logout = %d %q, want back to the site", res.Status, res.Location())
	}
	if authztest.SiteActive(t, h, authztest.WikiOrigin, in.Token) {
		t.Error("the site's session goes on after the sign-out")
	}
	h.Invariants(t)
}
