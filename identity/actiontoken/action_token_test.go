package actiontoken_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestActionTokenLevel: a LOGIN action signs in at the level in the token, or else at the configured level.
func TestActionTokenLevel(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	h.Set(func(u *settings.Units) {
		u.Features.ActionToken.Login.AuthenticationLevel, u.Features.ActionToken.AppToWeb.AuthenticationLevel = 2, 3
	})
	for _, tt := range []struct {
		name string
		n    actiontoken.NewActionToken
		want int
	}{
		{"as its maker says", actiontoken.NewActionToken{Level: 4}, 4},
		{"less than the configuration says", actiontoken.NewActionToken{Level: 1}, 1},
		{"a ceiling below what the configuration says", actiontoken.NewActionToken{Ceiling: 1}, 1},
		{"as configured", actiontoken.NewActionToken{}, 2},
		{"app to web, as configured", actiontoken.NewActionToken{AppToWeb: true}, 3},
	} {
		b := h.Browser()
		page := b.Get(h.Link(tt.n))
		if page.Code != 200 || page.URL != "/sign-in/token" || !strings.Contains(page.Body.String(), identitytest.Demo) || b.IsSignedIn() {
			t.Fatalf("%s: the link leads to %s, %d:\n%s", tt.name, page.URL, page.Code, page.Body)
		}
		if a := b.Post(page); a.Code != 303 || a.Header().Get("Location") != "/account" {
			t.Errorf("%s: POST = %d to %q, want 303 to the account page", tt.name, a.Code, a.Header().Get("Location"))
		}
		si, err := h.SessionOf(b)
		if err != nil || si.Level != tt.want || si.Subject != h.DemoID() || len(si.AMR) != 1 || si.AMR[0] != "CUSTOM_AUTHENTICATOR" ||
			si.Provider != "identity" {
			t.Errorf("%s: session %+v, %v, want level %d", tt.name, si, err, tt.want)
		}
	}
}

func TestActionTokenLeadsOn(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	b := h.Browser()
	page := b.Get(h.Link(actiontoken.NewActionToken{RedirectURI: identitytest.AppWelcome}))
	if csp := page.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://app.example.com") {
		t.Errorf("policy %q lets the form lead nowhere", csp)
	}
	if a := b.Post(page); a.Code != 303 || a.Header().Get("Location") != identitytest.AppWelcome {
		t.Errorf("POST = %d to %q, want %q", a.Code, a.Header().Get("Location"), identitytest.AppWelcome)
	}
	// A URL that was taken off the list in the meantime is ignored.
	page = b.Get(h.Link(actiontoken.NewActionToken{RedirectURI: identitytest.AppWelcome}))
	h.Set(func(u *settings.Units) { u.Features.ActionToken.WhitelistedURLs = nil })
	if a := b.Post(page); a.Code != 303 || a.Header().Get("Location") != "/account" {
		t.Errorf("POST = %d to %q, want the account page", a.Code, a.Header().Get("Location"))
	}
}

// TestActionTokenLinkEnds: everything that invalidates a link.
func TestActionTokenLinkEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*identitytest.ActionTokens){
		"two minutes": func(h *identitytest.ActionTokens) { h.Clock.Advance(2 * time.Minute) },
		"another password": func(h *identitytest.ActionTokens) {
			must(h, h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another password 2"), audit.Actor{}))
		},
		"the person is blocked": func(h *identitytest.ActionTokens) {
			must(h, h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, audit.Actor{}))
		},
		"all sessions ended": func(h *identitytest.ActionTokens) {
			must(h, h.Person.EndSessions(t.Context(), identitytest.Demo, identitytest.Admin))
		},
		"everything ended": func(h *identitytest.ActionTokens) {
			must(h, h.Store.Update(t.Context(), session.EndAllSessions))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.NewActionTokens(t)
			b, late, link := h.Browser(), h.Browser(), h.Link(actiontoken.NewActionToken{})
			page := b.Get(link)
			end(h)
			if a := b.Post(page); a.Code != 400 || b.IsSignedIn() {
				t.Errorf("POST after %s = %d, want 400", name, a.Code)
			}
			if a := late.Get(link); a.Code != 400 {
				t.Errorf("GET after %s = %d, want 400", name, a.Code)
			}
		})
	}
	h := identitytest.NewActionTokens(t)
	b, link := h.Browser(), h.Link(actiontoken.NewActionToken{})
	page := b.Get(link)
	h.Set(func(u *settings.Units) { u.Features.LoginEnabled = false })
	if a := b.Post(page); a.Code != 403 || b.IsSignedIn() {
		t.Errorf("POST while nobody may sign in = %d, want 403", a.Code)
	}
	h.Set(func(u *settings.Units) { u.Features.LoginEnabled = true })
	if a := b.Post(page); a.Code != 303 || !b.IsSignedIn() {
		t.Errorf("POST afterwards = %d, want 303", a.Code)
	}
}

// TestActionTokenEndsWithEverything: after "End everything" or a restore, a token from before does nothing, and one
// that is made afterwards works.
func TestActionTokenEndsWithEverything(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	login := actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}, TTL: 365 * 24 * 3600}
	before, err := h.ActionToken.Make(t.Context(), h.DemoID(), login, identitytest.Admin)
	must(h, err)
	must(h, h.Store.Update(t.Context(), session.EndAllSessions))
	if err := h.ActionToken.Check(t.Context(), before.Token, ""); !errors.Is(err, actiontoken.ErrNoToken) {
		t.Errorf("attack 6418: check of a token from before = %v, want %v", err, actiontoken.ErrNoToken)
	}
	if done, err := h.ActionToken.Process(t.Context(), before.Token, "", identitytest.Admin); !errors.Is(err, actiontoken.ErrNoToken) {
		t.Errorf("attack 6418: a token from before gives %+v, %v, want %v", done, err, actiontoken.ErrNoToken)
	}
	if _, err := h.Process(actiontoken.NewActionToken{Actions: login.Actions}); err != nil {
		t.Errorf("a token from afterwards: %v", err)
	}
}

func must(h *identitytest.ActionTokens, err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

func TestActionTokenLinkAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewActionTokens(t)
		link := h.Link(actiontoken.NewActionToken{})
		ticket := link[strings.Index(link, "=")+1:]
		for range 3 {
			h.Browser().Get(link)
			h.Browser().Do(http.MethodHead, link, "")
		}
		b := h.Browser()
		first := b.Do(http.MethodGet, link, "")
		if to := first.Header().Get("Location"); first.Code != 303 || to != "/sign-in/token" ||
			first.Header().Get("Referrer-Policy") != "no-referrer" || first.Header().Get("Cache-Control") != "no-store" || first.Body.Len() != 0 {
			t.Errorf("GET of the link = %d to %q, want a redirect without the ticket and without a page", first.Code, to)
		}
		page := b.Get("/sign-in/token")
		if strings.Contains(page.Body.String(), ticket) {
			t.Error("the page holds the ticket")
		}
		if a := b.Post(page); a.Code != 303 || !b.IsSignedIn() {
			t.Errorf("POST = %d, want a session", a.Code)
		}
		for _, e := range h.Logs.All() {
			for _, v := range e.ContextMap() {
				if strings.Contains(identitytest.ToString(v), ticket) {
					t.Errorf("log line tells the ticket: %s", e.Message)
				}
			}
		}
	})
	t.Run("attack 231: a link twice, and sixty-four times at once", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewActionTokens(t)
		link := h.Link(actiontoken.NewActionToken{})
		one, two := h.Browser(), h.Browser()
		pageOne, pageTwo := one.Get(link), two.Get(link)
		if a := one.Post(pageOne); a.Code != 303 || !one.IsSignedIn() {
			t.Errorf("first POST = %d, want a session", a.Code)
		}
		if a := two.Post(pageTwo); a.Code != 400 || two.IsSignedIn() {
			t.Errorf("second POST = %d, want 400", a.Code)
		}
		if codes := h.AtOnce(h.Link(actiontoken.NewActionToken{}), 64); codes[303] != 1 || codes[400] != 63 {
			t.Errorf("statuses %v, want one 303", codes)
		}
	})
	t.Run("attack 26,28: the form of another browser, without its token, of another site", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewActionTokens(t)
		b, other := h.Browser(), h.Browser()
		link := h.Link(actiontoken.NewActionToken{})
		page := b.Get(link)
		other.Get(link)
		foreign := url.Values{"csrf": {page.CSRF()}}.Encode()
		if a := other.Do(http.MethodPost, "/sign-in/token", foreign); a.Code != 403 || other.IsSignedIn() {
			t.Errorf("another browser's form = %d, want 403", a.Code)
		}
		if a := b.Do(http.MethodPost, "/sign-in/token", ""); a.Code != 403 || b.IsSignedIn() {
			t.Errorf("a form without its token = %d, want 403", a.Code)
		}
		b.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.Do(http.MethodPost, "/sign-in/token", foreign); a.Code != 403 || b.IsSignedIn() {
			t.Errorf("a form of another site = %d, want 403", a.Code)
		}
		b.Header = nil
		if a := b.Post(page); a.Code != 303 {
			t.Errorf("its own form = %d, want 303", a.Code)
		}
		for _, bad := range []string{"x", "ghlt_" + strings.Repeat("A", 49), "ghss_" + strings.Repeat("A", 49)} {
			if a := h.Browser().Get("/sign-in/token?ticket=" + bad); a.Code != 400 {
				t.Errorf("ticket %q = %d, want 400", bad, a.Code)
			}
		}
		if a := h.Browser().Get("/sign-in/token"); a.Code != 400 {
			t.Errorf("no ticket = %d, want 400", a.Code)
		}
	})
}

// lost is a Manager that cannot read its providers.
type lost struct{}

func (lost) Providers(context.Context, *settings.Units) ([]federation.Provider, uint64, error) {
	return nil, 0, storage.ErrUnavailable
}

// TestActionTokenWithoutProviders: if the providers cannot be read, tokens that need no provider still work.
func TestActionTokenWithoutProviders(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	h.Manager = lost{}
	h.Start()
	couple := actiontoken.Action{Type: actiontoken.ActionCouple, Parameters: map[string]string{"idp_id": "partner", "external_id": "1"}}
	if _, err := h.Process(actiontoken.NewActionToken{Actions: []actiontoken.Action{couple}}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("coupling = %v, want that nobody can tell", err)
	}
	if _, err := h.Process(actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}}); err != nil {
		t.Errorf("login = %v, want nil", err)
	}
}

// TestActionTokenCouplesSession: a provider sign-in that waits for the password of a person can be coupled by a token
// instead.
func TestActionTokenCouplesSession(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	h.At("partner")
	b := h.Browser()
	asked := h.WantAsked("a known address", b, identitytest.Known())
	u, err := url.Parse(asked.URL)
	if err != nil {
		t.Fatal(err)
	}
	session := func(id string) actiontoken.NewActionToken {
		return actiontoken.NewActionToken{Actions: []actiontoken.Action{{
			Type:       actiontoken.ActionCoupleSession,
			Parameters: map[string]string{"session_id": id},
		}}}
	}
	d, err := h.Process(session(u.Query().Get("flow")))
	if err != nil || len(d.Results) != 1 || d.Results[0].Parameters["idp_id"] != "partner" ||
		d.Results[0].Parameters["external_id"] != identitytest.Known().Subject {
		t.Fatalf("Process = %+v, %v", d, err)
	}
	if si := h.MustEnter(h.Browser(), identitytest.Known()); si.Subject != h.DemoID() {
		t.Errorf("the identity signs in %s, want the person of the token", si.Subject)
	}
	// A session opened by the provider also carries its identity, which here is already the person's own.
	in := h.Browser()
	si := h.MustEnter(in, identitytest.Known())
	if _, err := h.Process(session(si.SessionID)); err != nil {
		t.Errorf("coupling the identity of the own session = %v, want nil", err)
	}
}

// TestActionTokenCouplesNothingUnasked: an attacker who forces their own provider answer on a browser does not get
// their identity coupled with an account.
func TestActionTokenCouplesNothingUnasked(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	h.At("partner")
	a := h.Browser().Do(http.MethodGet, "/oidc/partner/callback?ticket="+h.Partner.Answer(identitytest.Ann(), nil), "")
	u, err := url.Parse(a.Header().Get("Location"))
	if err != nil || u.Query().Get("flow") == "" {
		t.Fatalf("callback leads to %q, want a flow", a.Header().Get("Location"))
	}
	var failed *actiontoken.FailedError
	n := actiontoken.NewActionToken{Actions: []actiontoken.Action{{
		Type:       actiontoken.ActionCoupleSession,
		Parameters: map[string]string{"session_id": u.Query().Get("flow")},
	}}}
	if _, err := h.Process(n); !errors.As(err, &failed) || !errors.Is(err, actiontoken.ErrAction) {
		t.Fatalf("Process = %v, want a failed action", err)
	}
	if si := h.MustEnter(h.Browser(), identitytest.Ann()); si.Subject == h.DemoID() {
		t.Error("the stranger's identity signs in the person of the token")
	}
}

// TestTicketOfAnAdministrator: a sign-in that an API client has prepared ends when the person gets a role in the
// console; one of the command line and one that the person has prepared do not.
func TestTicketOfAnAdministrator(t *testing.T) {
	t.Parallel()
	var role atomic.Bool
	h := identitytest.NewActionTokens(t, func(c *identity.Config) {
		c.HasRole = func(string, []string) bool { return role.Load() }
	})
	for name, tt := range map[string]struct {
		n    actiontoken.NewActionToken
		want bool
	}{
		"attack 7229: of an API client": {actiontoken.NewActionToken{Ceiling: 2}, false},
		"of the command line":           {actiontoken.NewActionToken{Roles: true}, true},
	} {
		role.Store(false)
		b := h.Browser()
		link := h.Link(tt.n)
		page := b.Get(link)
		role.Store(true)
		b.Post(page)
		if b.IsSignedIn() != tt.want {
			t.Errorf("%s: the form opened before signs in: %v, want %v", name, b.IsSignedIn(), tt.want)
		}
		role.Store(false)
		in := h.Browser()
		in.Post(in.Get(h.Link(tt.n)))
		if !in.IsSignedIn() {
			t.Errorf("%s: not signed in before the role", name)
		}
		role.Store(true)
		if in.IsSignedIn() != tt.want {
			t.Errorf("%s: a session from before the role is open: %v, want %v", name, in.IsSignedIn(), tt.want)
		}
		role.Store(false)
		late := h.Browser()
		link = h.Link(tt.n)
		role.Store(true)
		if a := late.Get(link); (a.Code == http.StatusOK) != tt.want {
			t.Errorf("%s: GET = %d, want a page that signs in: %v", name, a.Code, tt.want)
		}
	}
}

// TestCredentialsOfAnAPIClient: what is added in a session that an API client opened, or linked by it, signs in no one
// who has a role in the console by then.
func TestCredentialsOfAnAPIClient(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own  bool // the person has signed in themselves
		want bool // the sign-in with a role
	}{
		"attack 7247: in the session of an API client": {false, false},
		"in a session of the person":                   {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var role atomic.Bool
			h := identitytest.NewActionTokens(t, identitytest.PasskeysOn, func(c *identity.Config) {
				c.HasRole = func(string, []string) bool { return role.Load() }
			})
			h.At("identity")
			b, key, id := h.Browser(), identitytest.NewAuthenticator(t), &idp.Identity{Issuer: identitytest.Known().Issuer, Subject: "somewhere"}
			if tt.own {
				b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			} else {
				b.Post(b.Get(h.Link(actiontoken.NewActionToken{Ceiling: 1})))
			}
			const accounts = "/account/security/accounts"
			away := b.Leave(b.Fill(b.Get(accounts), accounts, "do", "connect", "provider", "partner").Header().Get("Location"))
			if a := b.Come(away, h.Partner.Answer(id, nil)); !strings.HasSuffix(a.URL, "?done=connected") {
				t.Fatalf("connecting ends at %s: %d", a.URL, a.Code)
			}
			b.AddPasskey(key)
			for _, admin := range []bool{false, true} {
				role.Store(admin)
				want := !admin || tt.want
				h.At("identity")
				in := h.Browser()
				in.TryPasskey(key)
				if in.IsSignedIn() != want {
					t.Errorf("role %v: the passkey signs in: %v, want %v", admin, in.IsSignedIn(), want)
				}
				h.At("partner")
				in = h.Browser()
				h.Through(in, id)
				if in.IsSignedIn() != want {
					t.Errorf("role %v: the linked account signs in: %v, want %v", admin, in.IsSignedIn(), want)
				}
			}
		})
	}
}

// TestLinkOfAnAPIClient: an account that an API client has linked signs the person in until they get a role, and again
// once they have connected it themselves.
func TestLinkOfAnAPIClient(t *testing.T) {
	t.Parallel()
	var role atomic.Bool
	h := identitytest.NewActionTokens(t, func(c *identity.Config) {
		c.HasRole = func(string, []string) bool { return role.Load() }
	})
	h.At("partner")
	id := &idp.Identity{Issuer: identitytest.Known().Issuer, Subject: "somewhere"}
	couple := actiontoken.Action{Type: actiontoken.ActionCouple, Parameters: map[string]string{"idp_id": "partner", "external_id": id.Subject}}
	if _, err := h.Process(actiontoken.NewActionToken{Actions: []actiontoken.Action{couple}}); err != nil {
		t.Fatal(err)
	}
	enters := func(what string, want bool) {
		t.Helper()
		b := h.Browser()
		h.Through(b, id)
		if b.IsSignedIn() != want {
			t.Errorf("%s: signed in: %v, want %v", what, b.IsSignedIn(), want)
		}
	}
	enters("without a role", true)
	role.Store(true)
	enters("attack 7247: with a role", false)
}
