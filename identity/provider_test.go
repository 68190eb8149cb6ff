package identity_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// elsewhere is a harness with the providers partner and corp, which tests control.
type elsewhere struct {
	*harness
	partner, corp *idptest.Provider
}

func newElsewhere(t testing.TB, change ...func(*identity.Config)) *elsewhere {
	t.Helper()
	e := &elsewhere{partner: idptest.New(), corp: idptest.New()}
	e.harness = newHarness(t, append([]func(*identity.Config){func(c *identity.Config) {
		c.Providers = []federation.Provider{
			{ID: "partner", Name: "Partner account", Source: e.partner, Path: "oidc"}, {ID: "corp", Source: e.corp, Path: "saml"},
		}
	}}, change...)...)
	t.Cleanup(e.checkInvariants)
	return e
}

// asking applies a change to every demand.
func (e *elsewhere) asking(change func(*login.Demand)) {
	plain := e.demand
	e.demand = func(r *http.Request) login.Demand {
		d := plain(r)
		change(&d)
		return d
	}
}

func (e *elsewhere) at(providers ...string) {
	e.asking(func(d *login.Demand) { d.Providers = providers })
}

// provider returns a change of one of the configured providers.
func provider(id string, change func(*federation.Provider)) func(*identity.Config) {
	return func(c *identity.Config) {
		for i := range c.Providers {
			if c.Providers[i].ID == id {
				change(&c.Providers[i])
			}
		}
	}
}

// leave follows redirects until one leads away from the issuer, and returns its target.
func (b *browser) leave(target string) string {
	b.h.t.Helper()
	for range 10 {
		a := b.do(http.MethodGet, target, "")
		if to := a.Header().Get("Refresh"); strings.HasPrefix(to, "0; url=") {
			target = strings.TrimPrefix(to, "0; url=")
			continue
		}
		target = a.Header().Get("Location")
		if target == "" {
			b.h.t.Fatalf("GET %s leads nowhere: %d\n%s", a.url, a.Code, a.Body)
		}
		if !strings.HasPrefix(target, "/") {
			return target
		}
	}
	b.h.t.Fatal("leads in circles")
	return ""
}

// state returns the state parameter that was sent to the provider.
func state(t testing.TB, away string) string {
	t.Helper()
	u, err := url.Parse(away)
	if err != nil || u.Query().Get("state") == "" {
		t.Fatalf("the browser was sent to %q, want a state", away)
	}
	return u.Query().Get("state")
}

func callback(flow, ticket string) string {
	return "/oidc/partner/callback?" + url.Values{"state": {flow}, "ticket": {ticket}}.Encode()
}

// come delivers an answer of partner and follows the redirects.
func (b *browser) come(away, ticket string) *answer {
	b.h.t.Helper()
	return b.get(callback(state(b.h.t, away), ticket))
}

// through signs in at partner from /next and returns the last page.
func (e *elsewhere) through(b *browser, id *idp.Identity) *answer {
	e.t.Helper()
	return b.come(b.leave("/next"), e.partner.Answer(id, nil))
}

// mustEnter is through for a sign-in that must succeed, and returns the session.
func (e *elsewhere) mustEnter(b *browser, id *idp.Identity) login.Session {
	e.t.Helper()
	a := e.through(b, id)
	if !strings.HasPrefix(a.Body.String(), "signed in as ") {
		e.t.Fatalf("sign-in at partner ended at %s: %d\n%s", a.url, a.Code, a.Body)
	}
	si, err := e.session(b)
	if err != nil {
		e.t.Fatal(err)
	}
	return si
}

const partnerIssuer = "https://partner.example"

func ann() *idp.Identity {
	return &idp.Identity{
		Issuer: partnerIssuer, Subject: "4711", Email: "ann@partner.example", EmailVerified: true, Level: 2,
		Details: map[string][]string{"email": {"ann@partner.example"}, "firstName": {"Ann"}, "lastName": {"Partner"}},
	}
}

func TestProviderSignIn(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	e.asking(func(d *login.Demand) {
		d.Hint, d.Locales, d.CustomParams, d.Level = "ann", []string{"nl"}, map[string][]string{"k": {"v"}}, 2
	})
	b := e.browser()
	id := ann()
	id.AuthTime, id.AMR = e.clock.Now().Add(-10*time.Minute), []string{"CUSTOM_AUTHENTICATOR"}
	got := e.mustEnter(b, id)
	p, err := e.Person.Person(t.Context(), got.Subject)
	if err != nil || p.Name != "Ann Partner" || p.GivenName != "Ann" || !p.EmailVerified || p.State != person.Active {
		t.Fatalf("Person = %+v, %v, want an active Ann with a verified address", p, err)
	}
	want := login.Session{Result: login.Result{
		Subject: p.ID, SessionID: got.SessionID, AuthTime: id.AuthTime, Level: 2, AMR: id.AMR, Provider: "partner", Details: id.Details,
	}, Ends: e.clock.Now().Add(time.Hour), Seen: e.clock.Now()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	q := e.partner.Requests()[0]
	if q.Flow = ""; !cmp.Equal(q, idp.Request{
		Level: 2, MaxAge: -1, Hint: "ann", Locales: []string{"nl"}, Custom: map[string][]string{"k": {"v"}}, ProviderName: "The shop", Client: "shop",
	}) {
		t.Errorf("Begin was asked %+v", q)
	}
	if n := e.events(); n["login.LoginSucceededEvent"] != 1 || n["person.ExternalIdentityCoupledEvent"] != 1 || n["person.PersonCreatedEvent"] != 2 {
		t.Errorf("events = %v, want Ann created, coupled and signed in once", n)
	}
	// In another browser, the same issuer and subject are the same person, even if everything else has changed.
	other := ann()
	other.Email, other.Details = "other@partner.example", map[string][]string{"email": {"other@partner.example"}}
	again := e.mustEnter(e.browser(), other)
	if again.Subject != p.ID || again.SessionID == got.SessionID || again.AMR[0] != "DEFAULT" || !again.AuthTime.Equal(e.clock.Now()) {
		t.Errorf("second sign-in = %+v, want the same person, signed in now", again)
	}
	if p, err := e.Person.Person(t.Context(), p.ID); err != nil || p.Email != "ann@partner.example" {
		t.Errorf("Person = %+v, %v, want the profile as it was", p, err)
	}
}

// TestProviderKeepsTheSession: a second sign-in in a browser continues its session. An answer posted by the provider's
// page finds that session even though only the tracker cookie is sent with it.
func TestProviderKeepsTheSession(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("corp")
	b := e.browser()
	post := func(target string) *answer {
		away := b.leave(target)
		ticket := e.corp.Answer(ann(), nil)
		cross := &browser{h: b.h, cookies: map[string]string{}, address: b.address, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}
		for name, v := range b.cookies {
			if strings.HasSuffix(name, "-tracker") {
				cross.cookies[name] = v
			}
		}
		a := cross.do(http.MethodPost, "/saml/corp/acs", url.Values{"state": {state(t, away)}, "ticket": {ticket}}.Encode())
		if a.Code != http.StatusSeeOther {
			t.Fatalf("answer by POST: %d\n%s", a.Code, a.Body)
		}
		return b.get(a.Header().Get("Location"))
	}
	post("/next")
	first, err := e.session(b)
	if err != nil {
		t.Fatal(err)
	}
	e.asking(func(d *login.Demand) { d.NotBefore = e.clock.Now() })
	e.clock.Advance(time.Minute)
	post("/next?again")
	second, err := e.session(b)
	if err != nil || second.SessionID != first.SessionID || second.AuthTime.Equal(first.AuthTime) {
		t.Errorf("second sign-in = %+v, %v, want it in session %s", second, err, first.SessionID)
	}
	if q := e.corp.Requests(); q[0].Force || !q[1].Force {
		t.Errorf("Begin was asked to force %v and %v, want the second alone", q[0].Force, q[1].Force)
	}
}

func TestTrackerCookie(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	b := e.browser()
	a := b.do(http.MethodGet, b.do(http.MethodGet, "/next", "").Header().Get("Location"), "")
	i := slices.IndexFunc(a.Result().Cookies(), func(c *http.Cookie) bool { return strings.HasSuffix(c.Name, "-tracker") })
	if i < 0 {
		t.Fatalf("cookies %v, want a tracker", a.Result().Cookies())
	}
	if c := a.Result().Cookies()[i]; c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("tracker = %v, want SameSite=None; Secure; HttpOnly; __Host-", c)
	}
}

func TestProviderTabs(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	b := e.browser()
	one, two := b.leave("/next?tab=1"), b.leave("/next?tab=2")
	for tab, away := range map[string]string{"2": two, "1": one} {
		if a := b.come(away, e.partner.Answer(ann(), nil)); a.url != "/next?tab="+tab || !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("tab %s ended at %s: %d", tab, a.url, a.Code)
		}
	}
}

func TestProviderChoice(t *testing.T) {
	t.Parallel()
	const password, partner, corp = `name="password"`, "Continue with Partner account", "Continue with corp"
	for _, tc := range []struct {
		name     string
		demand   func(*login.Demand)
		straight bool
		has, not []string
	}{
		{"nobody named", func(*login.Demand) {}, false, []string{password, partner, corp}, nil},
		{"identity is the default", func(d *login.Demand) { d.Providers = []string{"identity", "partner"} }, false, []string{password, partner}, []string{corp}},
		{"another is the default", func(d *login.Demand) { d.Providers = []string{"partner", "identity"} }, true, nil, nil},
		{"one alone", func(d *login.Demand) { d.Providers = []string{"partner"} }, true, nil, nil},
		{"one alone, account to be selected", func(d *login.Demand) { d.Providers, d.SelectAccount = []string{"partner"}, true }, true, nil, nil},
		{"two, account to be selected", func(d *login.Demand) { d.Providers, d.SelectAccount = []string{"partner", "corp"}, true }, false, []string{partner, corp}, []string{password}},
		{"asked for", func(d *login.Demand) { d.Providers, d.Provider = []string{"identity", "partner"}, "partner" }, true, nil, nil},
		{"identity asked for", func(d *login.Demand) { d.Provider = "identity" }, false, []string{password}, []string{partner, corp}},
		{"level above a password's", func(d *login.Demand) { d.Providers, d.Level = []string{"identity", "partner", "corp"}, 2 }, false, []string{partner, corp}, []string{password}},
		{"level above a password's, one left", func(d *login.Demand) { d.Providers, d.Level = []string{"identity", "partner"}, 2 }, true, nil, nil},
		{"one is disabled", func(d *login.Demand) { d.Providers = []string{"identity", "off"} }, false, []string{password}, []string{"Continue with off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newElsewhere(t, func(c *identity.Config) {
				c.Providers = append(c.Providers, federation.Provider{ID: "off", Source: idptest.New(), Disabled: true})
			})
			e.withoutStepUp()
			e.asking(tc.demand)
			b := e.browser()
			if tc.straight {
				if away := b.leave("/next"); !strings.HasPrefix(away, idptest.Place) {
					t.Errorf("sent to %q, want the provider", away)
				}
				return
			}
			body := b.get("/next").Body.String()
			for _, want := range tc.has {
				if !strings.Contains(body, want) {
					t.Errorf("page without %q:\n%s", want, body)
				}
			}
			for _, bad := range tc.not {
				if strings.Contains(body, bad) {
					t.Errorf("page with %q:\n%s", bad, body)
				}
			}
		})
	}
}

// TestLastProvider: the provider used last is listed first, and a forged cookie cannot change the order.
func TestLastProvider(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("corp", func(p *federation.Provider) { p.Name = "Workplace" }))
	e.asking(func(d *login.Demand) {
		if d.Return == "/next?corp" {
			d.Provider = "corp"
		}
	})
	b := e.browser()
	order := func() (corpFirst, marked bool) {
		body := b.get("/next?" + e.clock.Now().Format("150405")).Body.String()
		return strings.Index(body, "Continue with Workplace") < strings.Index(body, "Continue with Partner account"), strings.Contains(body, "Last used")
	}
	if first, marked := order(); first || marked {
		t.Error("a new browser has used a provider")
	}
	away := b.leave("/next?corp")
	b.get("/saml/corp/acs?" + url.Values{"state": {state(t, away)}, "ticket": {e.corp.Answer(ann(), nil)}}.Encode())
	last := b.cookie("last")
	for name := range b.cookies {
		if strings.HasSuffix(name, "-session") {
			delete(b.cookies, name)
		}
	}
	if first, marked := order(); !first || !marked {
		t.Errorf("after a sign-in at corp: first %t, marked %t", first, marked)
	}
	for name := range b.cookies {
		if strings.HasSuffix(name, "-last") {
			b.cookies[name] = "corp." + strings.Repeat("A", len(last)-len("corp."))
		}
	}
	if first, marked := order(); first || marked {
		t.Error("a forged cookie was believed")
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Domains = []string{"partner.example"} }))
	e.asking(func(d *login.Demand) {
		if d.Return == "/next?hint" {
			d.Hint = "ann@partner.example"
		}
		if d.Return == "/next?alone" {
			d.Providers = []string{"corp", "partner"}
			d.SelectAccount = true
		}
	})
	b := e.browser()
	page := b.get("/next")
	if strings.Contains(page.Body.String(), `type="password"`) || !strings.Contains(page.Body.String(), "Next") {
		t.Fatalf("first step:\n%s", page.Body)
	}
	a := b.post(page, "username", "Ann@Partner.Example")
	if a.Code != http.StatusSeeOther || strings.Contains(a.Header().Get("Location"), "@") {
		t.Fatalf("username of a domain = %d to %q, want a redirect without the username", a.Code, a.Header().Get("Location"))
	}
	if away := b.leave(a.Header().Get("Location")); !strings.HasPrefix(away, idptest.Place) || e.partner.Requests()[0].Hint != "Ann@Partner.Example" {
		t.Errorf("sent to %q, asked %+v", away, e.partner.Requests())
	}
	// The redirects after a form end at one of our pages, because form-action applies to the whole chain.
	if hop := b.do(http.MethodGet, a.Header().Get("Location"), ""); hop.Code != http.StatusOK || hop.Header().Get("Refresh") == "" {
		t.Errorf("after the form: %d %v", hop.Code, hop.Header())
	}
	// Other usernames lead to the password.
	b = e.browser()
	second := b.get(b.post(b.get("/next"), "username", demo).Header().Get("Location"))
	if !strings.Contains(second.Body.String(), `type="password"`) || !strings.Contains(second.Body.String(), `value="`+demo+`"`) {
		t.Fatalf("second step:\n%s", second.Body)
	}
	if a := b.post(second, "username", demo, "password", demoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password = %d to %q", a.Code, a.Header().Get("Location"))
	}
	// A login hint from the client leads to the provider at once.
	if away := e.browser().leave("/next?hint"); !strings.HasPrefix(away, idptest.Place) {
		t.Errorf("with a hint sent to %q", away)
	}
	// Without password sign-in, other usernames get a message.
	b = e.browser()
	if a := b.post(b.get("/next?alone"), "username", "x@elsewhere.example"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "find a sign-in method") {
		t.Errorf("unknown domain = %d\n%s", a.Code, a.Body)
	}
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Timeout = 500 * time.Millisecond }))
	e.asking(func(d *login.Demand) { d.Providers, d.Cancel = []string{"identity", "partner"}, "/cancel" })
	b := e.browser()
	start := func() *answer {
		link := slices.Collect(func(yield func(string) bool) {
			for _, part := range strings.Split(b.get("/next").Body.String(), `href="`) {
				if u, _, _ := strings.Cut(part, `"`); strings.HasPrefix(u, "/sign-in/provider?") {
					yield(strings.ReplaceAll(u, "&amp;", "&"))
				}
			}
		})
		return b.do(http.MethodGet, link[0], "")
	}
	wantWay := func(what string, a *answer, status int) {
		t.Helper()
		body := a.Body.String()
		if a.Code != status || !strings.Contains(body, "/sign-in/provider?") || !strings.Contains(body, "choose=1") || !strings.Contains(body, `href="/cancel"`) || !strings.Contains(body, "Partner account") {
			t.Errorf("%s: %d, want %d with ways back\n%s", what, a.Code, status, body)
		}
	}
	e.partner.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
		return nil, errors.New("connection refused by 10.1.2.3")
	})
	down := start()
	wantWay("down", down, http.StatusBadGateway)
	if strings.Contains(down.Body.String(), "10.1.2.3") {
		t.Error("the page tells what is inside")
	}
	e.partner.OnBegin(func(ctx context.Context, _ idp.Request) (*idp.Next, error) { <-ctx.Done(); return nil, ctx.Err() })
	wantWay("slow", start(), http.StatusGatewayTimeout)
	e.partner.OnBegin(nil)
	away := b.leave(strings.ReplaceAll(strings.Split(strings.Split(down.Body.String(), `class="button" href="`)[1], `"`)[0], "&amp;", "&"))
	wantWay("down at the answer", b.come(away, e.partner.Answer(nil, errors.New("token endpoint"))), http.StatusBadGateway)
	// Signing in with the password still works.
	if a := b.post(b.get("/next"), "username", demo, "password", demoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password meanwhile: %d\n%s", a.Code, a.Body)
	}
	if n := e.events()["login.LoginFailedEvent"]; n != 3 {
		t.Errorf("%d events of failures, want 3", n)
	}
}

func TestProviderRejection(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	var refusals []*login.Refusal
	ask := func(b *browser, target string) (refusal *login.Refusal) {
		t.Helper()
		r := httptestRequest(b, target)
		w := newRecorder()
		_, err := e.Authenticate(w, r, e.demand(r))
		b.keep(w)
		errors.As(err, &refusal)
		return refusal
	}
	b := e.browser()
	no := &idp.Rejection{
		Reason: "the provider refuses", SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", Cause: "no_existing_customer\r\n\"&code=evil" + strings.Repeat("x", 300),
	}
	a := b.do(http.MethodGet, callback(state(t, b.leave("/next")), e.partner.Answer(nil, no)), "")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("refused = %d to %q, want back to whoever asked", a.Code, a.Header().Get("Location"))
	}
	refusals = append(refusals, ask(b, "/next"))
	want := &login.Refusal{
		Code: "access_denied", Reason: "the identity provider has signed nobody in", SAMLStatus: no.SAMLStatus,
		Cause: ("no_existing_customer???&code=evil" + strings.Repeat("x", 300))[:256],
	}
	if diff := cmp.Diff(want, refusals[0]); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if again := ask(b, "/next"); again != nil {
		t.Errorf("the refusal is told twice: %v", again)
	}
	if other := ask(e.browser(), "/next"); other != nil {
		t.Errorf("the refusal is told to another browser: %v", other)
	}
	// A sign-in that no application asked for ends at a page.
	e.asking(func(d *login.Demand) { d.Client = login.Client{} })
	if a := b.do(http.MethodGet, callback(state(t, b.leave("/next")), e.partner.Answer(nil, no)), ""); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "You’re not signed in") {
		t.Errorf("without a client: %d\n%s", a.Code, a.Body)
	}
	if b.isSignedIn() {
		t.Error("somebody is signed in")
	}
}

// TestPassiveProvider: prompt=none is passed on to the provider, and none of our pages is shown.
func TestPassiveProvider(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	e.asking(func(d *login.Demand) { d.Passive = true })
	b := e.browser()
	r := httptestRequest(b, "/next")
	d := e.demand(r)
	d.Return = ""
	_, err := e.Authenticate(newRecorder(), r, d)
	if refusal := new(login.Refusal); !errors.As(err, &refusal) || refusal.Code != "login_required" || !refusal.Elsewhere {
		t.Fatalf("Authenticate without a Return = %v, want login_required elsewhere", err)
	}
	for name, end := range map[string]func(away string) *answer{
		"the provider would ask": func(away string) *answer {
			return b.come(away, e.partner.Answer(nil, &idp.Rejection{Reason: "NoPassive", Passive: true}))
		},
		"forged":     func(away string) *answer { return b.come(away, e.partner.Answer(nil, &idp.Invalid{Reason: "forged"})) },
		"it is down": func(away string) *answer { return b.come(away, e.partner.Answer(nil, errors.New("down"))) },
	} {
		a := end(b.leave("/next"))
		if want := map[string]string{"it is down": "temporarily_unavailable"}[name]; a.Code != http.StatusForbidden || strings.TrimSpace(a.Body.String()) != cmpOr(want, "login_required") {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	if !e.partner.Requests()[0].Passive {
		t.Error("the provider was not told to be passive")
	}
	e.mustEnter(b, ann())
}

func TestProviderLevelAndAge(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	var change func(*login.Demand)
	e.asking(func(d *login.Demand) { change(d) })
	for _, tc := range []struct {
		name   string
		demand func(*login.Demand)
		id     func(*idp.Identity)
		want   string
	}{
		{"level reached", func(d *login.Demand) { d.Level = 3 }, func(i *idp.Identity) { i.Level = 3 }, ""},
		{"level not reached", func(d *login.Demand) { d.Level = 3 }, func(i *idp.Identity) { i.Level = 2 }, "unmet_authentication_requirements"},
		{"forced and done", func(d *login.Demand) { d.NotBefore = e.clock.Now() }, func(i *idp.Identity) { i.AuthTime = e.clock.Now() }, ""},
		{"forced and not done", func(d *login.Demand) { d.NotBefore = e.clock.Now() }, func(i *idp.Identity) { i.AuthTime = e.clock.Now().Add(-time.Hour) }, "login_required"},
		{"max_age met", func(d *login.Demand) { d.MaxAge = time.Hour }, func(i *idp.Identity) { i.AuthTime = e.clock.Now().Add(-30 * time.Minute) }, ""},
		{"max_age not met", func(d *login.Demand) { d.MaxAge = time.Hour }, func(i *idp.Identity) { i.AuthTime = e.clock.Now().Add(-2 * time.Hour) }, "login_required"},
	} {
		change = tc.demand
		id := ann()
		tc.id(id)
		a := e.through(e.browser(), id)
		if got := strings.TrimSpace(a.Body.String()); (tc.want == "" && !strings.HasPrefix(got, "signed in as ")) || (tc.want != "" && got != tc.want) {
			t.Errorf("%s: %d %s, want %q", tc.name, a.Code, got, tc.want)
		}
	}
}

// TestProviderSessionEnds: a session ends at the time that the provider sets, however long ago the person signed in
// there.
func TestProviderSessionEnds(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	id := ann()
	id.NotAfter = e.clock.Now().Add(10 * time.Minute)
	id.AuthTime = e.clock.Now().Add(-20 * time.Hour) // longer ago than our sessions can last
	b := e.browser()
	if si := e.mustEnter(b, id); !si.Ends.Equal(id.NotAfter) {
		t.Errorf("session ends %v, want %v", si.Ends, id.NotAfter)
	}
	e.clock.Advance(9 * time.Minute)
	if !b.isSignedIn() {
		t.Error("the session has ended early")
	}
	e.clock.Advance(time.Minute)
	if b.isSignedIn() {
		t.Error("the session outlives the provider's")
	}
}

func TestUnsolicited(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	b := e.browser()
	ticket := e.partner.Answer(ann(), nil)
	if a := b.get("/oidc/partner/callback?ticket=" + ticket); a.Code != http.StatusOK || a.url != "/account" {
		t.Fatalf("an answer that nobody has asked for ended at %s: %d\n%s", a.url, a.Code, a.Body)
	}
	other := e.browser()
	if a := other.get("/oidc/partner/callback?ticket=none"); a.Code != http.StatusBadRequest || other.isSignedIn() {
		t.Errorf("refused one: %d", a.Code)
	}
}

// managerStub returns the managed providers that a test sets.
type managerStub struct {
	list    []federation.Provider
	version uint64
	err     error
}

func (m *managerStub) Providers(context.Context, *config.Units) ([]federation.Provider, uint64, error) {
	return m.list, m.version, m.err
}

func TestManagedProviders(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	m := &managerStub{version: 1}
	e.manager = m
	e.start()
	source := idptest.New()
	b := e.browser()
	if body := b.get("/next").Body.String(); strings.Contains(body, "Managed one") {
		t.Fatal("a provider is there too early")
	}
	m.list, m.version = []federation.Provider{{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"}, {ID: "partner", Name: "Not this", Source: source}}, 2
	body := b.get("/next").Body.String()
	if !strings.Contains(body, "Managed one") || strings.Contains(body, "Not this") {
		t.Errorf("page:\n%s", body)
	}
	if body := b.get("/next?service").Body.String(); !strings.Contains(body, "Managed one") {
		t.Errorf("page:\n%s", body)
	}
	service := func(r *http.Request) login.Demand {
		return login.Demand{MaxAge: -1, Return: r.URL.RequestURI(), Provider: "identity", Providers: []string{"identity", "partner", "managed"}, Client: login.Client{ID: "shop"}}
	}
	plain := e.demand
	e.demand = service
	if body := b.get("/next?asked").Body.String(); !strings.Contains(body, "Managed one") || strings.Contains(body, "Partner account") || !strings.Contains(body, `name="password"`) {
		t.Errorf("page of the service itself:\n%s", body)
	}
	e.demand = plain
	e.asking(func(d *login.Demand) { d.Provider = "managed" })
	away := b.leave("/next?x")
	m.list, m.version = nil, 3
	if a := b.get("/oidc/managed/callback?" + url.Values{"state": {state(t, away)}, "ticket": {source.Answer(ann(), nil)}}.Encode()); a.Code != http.StatusForbidden || b.isSignedIn() {
		t.Errorf("answer of a provider that is gone: %d", a.Code)
	}
	m.err = storage.ErrUnavailable
	if a := e.browser().get("/next?y"); a.Code != http.StatusServiceUnavailable {
		t.Errorf("nobody can tell: %d, want 503", a.Code)
	}
}

// The buttons of providers stand in the order of their names, as people read them; where an application or the
// configuration API gives an order, that order wins.
func TestProvidersStandByTheirNames(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, func(c *identity.Config) {
		for _, p := range []string{"a Zebra", "b école", "c Office 10", "d apple", "e Office 2", "g Zebra", "h Banana"} {
			c.Providers = append(c.Providers, federation.Provider{ID: p[:1], Name: p[2:], Source: idptest.New(), Path: "oidc"})
		}
	})
	m := &managerStub{version: 1}
	e.manager = m
	m.list = []federation.Provider{{ID: "y", Name: "Second", Source: idptest.New(), Path: "oidc"}, {ID: "x", Name: "First", Source: idptest.New(), Path: "oidc"}}
	e.start()
	order := func() (ids string) {
		for _, found := range regexp.MustCompile(`[?&;]idp=([a-z]+)`).FindAllStringSubmatch(e.browser().get("/next").Body.String(), -1) {
			if id := found[1]; len(id) == 1 {
				ids += id
			}
		}
		return ids
	}
	if got := order(); got != "dhbecagyx" {
		t.Errorf("the page has the providers in the order %s, want dhbecagyx", got)
	}
	e.asking(func(d *login.Demand) { d.Providers = []string{"identity", "g", "x", "d", "y"} })
	if got := order(); got != "gxdy" {
		t.Errorf("the page has the providers of an application in the order %s, want its own, gxdy", got)
	}
}

// TestCancelledAtProvider: a person who has gone back at a provider reads so, and can go on. An application that names
// the provider itself is told.
func TestCancelledAtProvider(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("identity", "partner")
	e.asking(func(d *login.Demand) { d.Cancel = "/cancel" })
	gone := &idp.Rejection{Reason: "the provider has refused the sign-in", SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", Cancelled: true}
	start := func() (*browser, *answer) {
		b := e.browser()
		link := regexp.MustCompile(`/sign-in/provider\?[^"]*`).FindString(b.get("/next").Body.String())
		return b, b.come(b.leave(html.UnescapeString(link)), e.partner.Answer(nil, gone))
	}
	b, a := start()
	body := a.Body.String()
	for _, want := range []string{"The sign-in with Partner account was stopped there", "/sign-in/provider?", "choose=1", `href="/cancel"`} {
		if !strings.Contains(body, want) {
			t.Errorf("gone back: %d without %q\n%s", a.Code, want, body)
		}
	}
	if a.Code != http.StatusOK || b.isSignedIn() {
		t.Errorf("gone back: %d, signed in %t", a.Code, b.isSignedIn())
	}
	again := regexp.MustCompile(`/sign-in/provider\?[^"]*`).FindString(body)
	if a := b.come(b.leave(html.UnescapeString(again)), e.partner.Answer(ann(), nil)); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("once more: %d\n%s", a.Code, a.Body)
	}
	e.asking(func(d *login.Demand) { d.Provider = "partner" })
	b = e.browser()
	if a := b.do(http.MethodGet, callback(state(t, b.leave("/next")), e.partner.Answer(nil, gone)), ""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Errorf("at the provider of the application: %d to %q, want back to it", a.Code, a.Header().Get("Location"))
	}
}
