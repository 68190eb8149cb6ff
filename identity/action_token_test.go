package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const appWelcome = "https://app.example.com/welcome?from=token"

// tokens is a harness with every feature of action tokens switched on.
type tokens struct {
	*elsewhere
	mu sync.Mutex // guards u
	u  config.Units
}

func newActionTokens(t testing.TB) *tokens {
	t.Helper()
	h := &tokens{u: config.Defaults()}
	f := &h.u.Features.ActionToken
	f.Login.Enabled, f.AppToWeb.Enabled, f.Coupling.Enabled = true, true, true
	f.WhitelistedURLs = []config.WhitelistedURL{{ID: "1", URL: "https://app.example.com/welcome"}}
	h.elsewhere = newElsewhere(t)
	h.units = func(storage.Tx) (*config.Units, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		u := h.u
		return &u, nil
	}
	h.start()
	return h
}

func (h *tokens) set(change func(*config.Units)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.u)
}

// process makes a token for demo and processes it.
func (h *tokens) process(n actiontoken.NewActionToken) (actiontoken.ActionsDone, error) {
	h.t.Helper()
	made, err := h.ActionToken.Make(h.t.Context(), h.demoID(), n, event.Actor{ID: "ops"})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.ActionToken.Process(h.t.Context(), made.Token, "", event.Actor{ID: "ops"})
}

// link returns the path of the page that a LOGIN action leads to.
func (h *tokens) link(n actiontoken.NewActionToken) string {
	h.t.Helper()
	n.Actions = append(n.Actions, actiontoken.Action{Type: actiontoken.ActionLogin})
	d, err := h.process(n)
	if err != nil {
		h.t.Fatal(err)
	}
	path, ok := strings.CutPrefix(d.RedirectURI, issuer)
	if !ok {
		h.t.Fatalf("redirect_uri = %q, want one of ours", d.RedirectURI)
	}
	return path
}

// TestActionTokenLevel: a LOGIN action signs in at the level in the token, or else at the configured level.
func TestActionTokenLevel(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	h.set(func(u *config.Units) {
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
		b := h.browser()
		page := b.get(h.link(tt.n))
		if page.Code != 200 || page.url != "/sign-in/token" || !strings.Contains(page.Body.String(), demo) || b.isSignedIn() {
			t.Fatalf("%s: the link leads to %s, %d:\n%s", tt.name, page.url, page.Code, page.Body)
		}
		if a := b.post(page); a.Code != 303 || a.Header().Get("Location") != "/account" {
			t.Errorf("%s: POST = %d to %q, want 303 to the account page", tt.name, a.Code, a.Header().Get("Location"))
		}
		si, err := h.session(b)
		if err != nil || si.Level != tt.want || si.Subject != h.demoID() || len(si.AMR) != 1 || si.AMR[0] != "CUSTOM_AUTHENTICATOR" || si.Provider != "identity" {
			t.Errorf("%s: session %+v, %v, want level %d", tt.name, si, err, tt.want)
		}
	}
}

func TestActionTokenLeadsOn(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	b := h.browser()
	page := b.get(h.link(actiontoken.NewActionToken{RedirectURI: appWelcome}))
	if csp := page.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://app.example.com") {
		t.Errorf("policy %q lets the form lead nowhere", csp)
	}
	if a := b.post(page); a.Code != 303 || a.Header().Get("Location") != appWelcome {
		t.Errorf("POST = %d to %q, want %q", a.Code, a.Header().Get("Location"), appWelcome)
	}
	// A URL that was taken off the list in the meantime is ignored.
	page = b.get(h.link(actiontoken.NewActionToken{RedirectURI: appWelcome}))
	h.set(func(u *config.Units) { u.Features.ActionToken.WhitelistedURLs = nil })
	if a := b.post(page); a.Code != 303 || a.Header().Get("Location") != "/account" {
		t.Errorf("POST = %d to %q, want the account page", a.Code, a.Header().Get("Location"))
	}
}

// TestActionTokenLinkEnds: everything that invalidates a link.
func TestActionTokenLinkEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*tokens){
		"two minutes": func(h *tokens) { h.clock.Advance(2 * time.Minute) },
		"another password": func(h *tokens) {
			h.must(h.Person.SetPassword(t.Context(), demo, secret.New("another password 2"), event.Actor{}))
		},
		"the person is blocked": func(h *tokens) { h.must(h.Person.SetState(t.Context(), demo, person.Blocked, event.Actor{})) },
		"all sessions ended":    func(h *tokens) { h.must(h.Person.EndSessions(t.Context(), demo, admin)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newActionTokens(t)
			b, late, link := h.browser(), h.browser(), h.link(actiontoken.NewActionToken{})
			page := b.get(link)
			end(h)
			if a := b.post(page); a.Code != 400 || b.isSignedIn() {
				t.Errorf("POST after %s = %d, want 400", name, a.Code)
			}
			if a := late.get(link); a.Code != 400 {
				t.Errorf("GET after %s = %d, want 400", name, a.Code)
			}
		})
	}
	h := newActionTokens(t)
	b, link := h.browser(), h.link(actiontoken.NewActionToken{})
	page := b.get(link)
	h.set(func(u *config.Units) { u.Features.LoginEnabled = false })
	if a := b.post(page); a.Code != 403 || b.isSignedIn() {
		t.Errorf("POST while nobody may sign in = %d, want 403", a.Code)
	}
	h.set(func(u *config.Units) { u.Features.LoginEnabled = true })
	if a := b.post(page); a.Code != 303 || !b.isSignedIn() {
		t.Errorf("POST afterwards = %d, want 303", a.Code)
	}
}

func (h *tokens) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestActionTokenLinkAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h := newActionTokens(t)
		link := h.link(actiontoken.NewActionToken{})
		ticket := link[strings.Index(link, "=")+1:]
		for range 3 {
			h.browser().get(link)
			h.browser().do(http.MethodHead, link, "")
		}
		b := h.browser()
		first := b.do(http.MethodGet, link, "")
		if to := first.Header().Get("Location"); first.Code != 303 || to != "/sign-in/token" || first.Header().Get("Referrer-Policy") != "no-referrer" || first.Header().Get("Cache-Control") != "no-store" || first.Body.Len() != 0 {
			t.Errorf("GET of the link = %d to %q, want a redirect without the ticket and without a page", first.Code, to)
		}
		page := b.get("/sign-in/token")
		if strings.Contains(page.Body.String(), ticket) {
			t.Error("the page holds the ticket")
		}
		if a := b.post(page); a.Code != 303 || !b.isSignedIn() {
			t.Errorf("POST = %d, want a session", a.Code)
		}
		for _, e := range h.logs.All() {
			for _, v := range e.ContextMap() {
				if strings.Contains(toString(v), ticket) {
					t.Errorf("log line tells the ticket: %s", e.Message)
				}
			}
		}
	})
	t.Run("attack 231: a link twice, and sixty-four times at once", func(t *testing.T) {
		t.Parallel()
		h := newActionTokens(t)
		link := h.link(actiontoken.NewActionToken{})
		one, two := h.browser(), h.browser()
		pageOne, pageTwo := one.get(link), two.get(link)
		if a := one.post(pageOne); a.Code != 303 || !one.isSignedIn() {
			t.Errorf("first POST = %d, want a session", a.Code)
		}
		if a := two.post(pageTwo); a.Code != 400 || two.isSignedIn() {
			t.Errorf("second POST = %d, want 400", a.Code)
		}
		link = h.link(actiontoken.NewActionToken{})
		var mu sync.Mutex
		codes := map[int]int{}
		var all sync.WaitGroup
		browsers, pages := make([]*browser, 64), make([]*answer, 64)
		for i := range browsers {
			browsers[i] = h.browser()
			pages[i] = browsers[i].get(link)
		}
		for i, b := range browsers {
			all.Go(func() {
				a := b.post(pages[i])
				mu.Lock()
				defer mu.Unlock()
				codes[a.Code]++
			})
		}
		all.Wait()
		if codes[303] != 1 || codes[400] != 63 {
			t.Errorf("statuses %v, want one 303", codes)
		}
	})
	t.Run("attack 26,28: the form of another browser, without its token, of another site", func(t *testing.T) {
		t.Parallel()
		h := newActionTokens(t)
		b, other := h.browser(), h.browser()
		link := h.link(actiontoken.NewActionToken{})
		page := b.get(link)
		other.get(link)
		foreign := url.Values{"csrf": {page.csrf()}}.Encode()
		if a := other.do(http.MethodPost, "/sign-in/token", foreign); a.Code != 403 || other.isSignedIn() {
			t.Errorf("another browser's form = %d, want 403", a.Code)
		}
		if a := b.do(http.MethodPost, "/sign-in/token", ""); a.Code != 403 || b.isSignedIn() {
			t.Errorf("a form without its token = %d, want 403", a.Code)
		}
		b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.do(http.MethodPost, "/sign-in/token", foreign); a.Code != 403 || b.isSignedIn() {
			t.Errorf("a form of another site = %d, want 403", a.Code)
		}
		b.header = nil
		if a := b.post(page); a.Code != 303 {
			t.Errorf("its own form = %d, want 303", a.Code)
		}
		for _, bad := range []string{"x", "ghlt_" + strings.Repeat("A", 49), "ghss_" + strings.Repeat("A", 49)} {
			if a := h.browser().get("/sign-in/token?ticket=" + bad); a.Code != 400 {
				t.Errorf("ticket %q = %d, want 400", bad, a.Code)
			}
		}
		if a := h.browser().get("/sign-in/token"); a.Code != 400 {
			t.Errorf("no ticket = %d, want 400", a.Code)
		}
	})
}

// lost is a Manager that cannot read its providers.
type lost struct{}

func (lost) Providers(context.Context, *config.Units) ([]federation.Provider, uint64, error) {
	return nil, 0, storage.ErrUnavailable
}

// TestActionTokenWithoutProviders: if the providers cannot be read, tokens that need no provider still work.
func TestActionTokenWithoutProviders(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	h.manager = lost{}
	h.start()
	couple := actiontoken.Action{Type: actiontoken.ActionCouple, Parameters: map[string]string{"idp_id": "partner", "external_id": "1"}}
	if _, err := h.process(actiontoken.NewActionToken{Actions: []actiontoken.Action{couple}}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("coupling = %v, want that nobody can tell", err)
	}
	if _, err := h.process(actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}}); err != nil {
		t.Errorf("login = %v, want nil", err)
	}
}

// TestActionTokenCouplesSession: a provider sign-in that waits for the password of a person can be coupled by a token
// instead.
func TestActionTokenCouplesSession(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	h.at("partner")
	b := h.browser()
	asked := h.wantAsked("a known address", b, known())
	u, err := url.Parse(asked.url)
	if err != nil {
		t.Fatal(err)
	}
	session := func(id string) actiontoken.NewActionToken {
		return actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionCoupleSession, Parameters: map[string]string{"session_id": id}}}}
	}
	d, err := h.process(session(u.Query().Get("flow")))
	if err != nil || len(d.Results) != 1 || d.Results[0].Parameters["idp_id"] != "partner" || d.Results[0].Parameters["external_id"] != known().Subject {
		t.Fatalf("Process = %+v, %v", d, err)
	}
	if si := h.mustEnter(h.browser(), known()); si.Subject != h.demoID() {
		t.Errorf("the identity signs in %s, want the person of the token", si.Subject)
	}
	// A session opened by the provider also carries its identity, which here is already the person's own.
	in := h.browser()
	si := h.mustEnter(in, known())
	if _, err := h.process(session(si.SessionID)); err != nil {
		t.Errorf("coupling the identity of the own session = %v, want nil", err)
	}
}

// TestActionTokenCouplesNothingUnasked: an attacker who forces their own provider answer on a browser does not get
// their identity coupled with an account.
func TestActionTokenCouplesNothingUnasked(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	h.at("partner")
	a := h.browser().do(http.MethodGet, "/oidc/partner/callback?ticket="+h.partner.Answer(ann(), nil), "")
	u, err := url.Parse(a.Header().Get("Location"))
	if err != nil || u.Query().Get("flow") == "" {
		t.Fatalf("callback leads to %q, want a flow", a.Header().Get("Location"))
	}
	var failed *actiontoken.FailedError
	n := actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionCoupleSession, Parameters: map[string]string{"session_id": u.Query().Get("flow")}}}}
	if _, err := h.process(n); !errors.As(err, &failed) || !errors.Is(err, actiontoken.ErrAction) {
		t.Fatalf("Process = %v, want a failed action", err)
	}
	if si := h.mustEnter(h.browser(), ann()); si.Subject == h.demoID() {
		t.Error("the stranger's identity signs in the person of the token")
	}
}
