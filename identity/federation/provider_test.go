package federation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestProviderSignIn(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	e.Asking(func(d *authn.Demand) {
		d.Hint, d.Locales, d.CustomParams, d.Level = "ann", []string{"nl"}, map[string][]string{"k": {"v"}}, 2
	})
	b := e.Browser()
	id := identitytest.Ann()
	id.AuthTime, id.AMR = e.Clock.Now().Add(-10*time.Minute), []string{"CUSTOM_AUTHENTICATOR"}
	got := e.MustEnter(b, id)
	p, err := e.Person.Person(t.Context(), got.Subject)
	if err != nil || p.Name != "Ann Partner" || p.GivenName != "Ann" || !p.EmailVerified || p.State != person.Active {
		t.Fatalf("Person = %+v, %v, want an active Ann with a verified address", p, err)
	}
	want := authn.Session{Result: authn.Result{
		Subject: p.ID, SessionID: got.SessionID, AuthTime: id.AuthTime, Level: 2, AMR: id.AMR, Provider: "partner", Details: id.Details,
	}, Ends: e.Clock.Now().Add(time.Hour), Seen: e.Clock.Now()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	q := e.Partner.Requests()[0]
	if q.Flow = ""; !cmp.Equal(q, idp.Request{
		Level: 2, MaxAge: -1, Hint: "ann", Locales: []string{"nl"}, Custom: map[string][]string{"k": {"v"}},
		ProviderName: "The shop", Client: "shop",
	}) {
		t.Errorf("Begin was asked %+v", q)
	}
	if n := e.Events(); n["login.LoginSucceededEvent"] != 1 || n["person.ExternalIdentityCoupledEvent"] != 1 ||
		n["person.PersonCreatedEvent"] != 2 {
		t.Errorf("events = %v, want Ann created, coupled and signed in once", n)
	}
	// In another browser, the same issuer and subject are the same person, even if everything else has changed.
	other := identitytest.Ann()
	other.Email, other.Details = "other@partner.example", map[string][]string{"email": {"other@partner.example"}}
	again := e.MustEnter(e.Browser(), other)
	if again.Subject != p.ID || again.SessionID == got.SessionID || again.AMR[0] != "DEFAULT" || !again.AuthTime.Equal(e.Clock.Now()) {
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
	e := identitytest.NewElsewhere(t)
	e.At("corp")
	b := e.Browser()
	post := func(target string) *identitytest.Answer {
		away := b.Leave(target)
		ticket := e.Corp.Answer(identitytest.Ann(), nil)
		cross := &identitytest.Browser{
			H: b.H, Cookies: map[string]string{}, Address: b.Address,
			Header: http.Header{"Sec-Fetch-Site": {"cross-site"}},
		}
		for name, v := range b.Cookies {
			if strings.HasSuffix(name, "-tracker") {
				cross.Cookies[name] = v
			}
		}
		a := cross.Do(http.MethodPost, "/saml/corp/acs", url.Values{"state": {identitytest.State(t, away)}, "ticket": {ticket}}.Encode())
		if a.Code != http.StatusSeeOther {
			t.Fatalf("answer by POST: %d\n%s", a.Code, a.Body)
		}
		return b.Get(a.Header().Get("Location"))
	}
	post("/next")
	first, err := e.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	e.Asking(func(d *authn.Demand) { d.NotBefore = e.Clock.Now() })
	e.Clock.Advance(time.Minute)
	post("/next?again")
	second, err := e.SessionOf(b)
	if err != nil || second.SessionID != first.SessionID || second.AuthTime.Equal(first.AuthTime) {
		t.Errorf("second sign-in = %+v, %v, want it in session %s", second, err, first.SessionID)
	}
	if q := e.Corp.Requests(); q[0].Force || !q[1].Force {
		t.Errorf("Begin was asked to force %v and %v, want the second alone", q[0].Force, q[1].Force)
	}
}

func TestTrackerCookie(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	b := e.Browser()
	a := b.Do(http.MethodGet, b.Do(http.MethodGet, "/next", "").Header().Get("Location"), "")
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
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	b := e.Browser()
	one, two := b.Leave("/next?tab=1"), b.Leave("/next?tab=2")
	for tab, away := range map[string]string{"2": two, "1": one} {
		if a := b.Come(away, e.Partner.Answer(identitytest.Ann(), nil)); a.URL != "/next?tab="+tab ||
			!strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("tab %s ended at %s: %d", tab, a.URL, a.Code)
		}
	}
}

func TestProviderChoice(t *testing.T) {
	t.Parallel()
	const password, partner, corp = `name="password"`, "Continue with Partner account", "Continue with corp"
	for _, tc := range []struct {
		name     string
		demand   func(*authn.Demand)
		straight bool
		has, not []string
	}{
		{"nobody named", func(*authn.Demand) {}, false, []string{password, partner, corp}, nil},
		{
			"identity is the default", func(d *authn.Demand) { d.Providers = []string{"identity", "partner"} }, false,
			[]string{password, partner},
			[]string{corp},
		},
		{"another is the default", func(d *authn.Demand) { d.Providers = []string{"partner", "identity"} }, true, nil, nil},
		{"one alone", func(d *authn.Demand) { d.Providers = []string{"partner"} }, true, nil, nil},
		{"one alone, account to be selected", func(d *authn.Demand) { d.Providers, d.SelectAccount = []string{"partner"}, true }, true, nil, nil},
		{
			"two, account to be selected", func(d *authn.Demand) { d.Providers, d.SelectAccount = []string{"partner", "corp"}, true }, false,
			[]string{partner, corp},
			[]string{password},
		},
		{"asked for", func(d *authn.Demand) { d.Providers, d.Provider = []string{"identity", "partner"}, "partner" }, true, nil, nil},
		{"identity asked for", func(d *authn.Demand) { d.Provider = "identity" }, false, []string{password}, []string{partner, corp}},
		{
			"level above a password's", func(d *authn.Demand) { d.Providers, d.Level = []string{"identity", "partner", "corp"}, 2 }, false,
			[]string{partner, corp},
			[]string{password},
		},
		{
			"level above a password's, one left", func(d *authn.Demand) { d.Providers, d.Level = []string{"identity", "partner"}, 2 }, true,
			nil, nil,
		},
		{
			"one is disabled", func(d *authn.Demand) { d.Providers = []string{"identity", "off"} }, false,
			[]string{password},
			[]string{"Continue with off"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewElsewhere(t, func(c *identity.Config) {
				c.Providers = append(c.Providers, federation.Provider{ID: "off", Source: idptest.New(), Disabled: true})
			})
			e.WithoutStepUp()
			e.Asking(tc.demand)
			b := e.Browser()
			if tc.straight {
				if away := b.Leave("/next"); !strings.HasPrefix(away, idptest.Place) {
					t.Errorf("sent to %q, want the provider", away)
				}
				return
			}
			body := b.Get("/next").Body.String()
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
	e := identitytest.NewElsewhere(t, identitytest.WithProvider("corp", func(p *federation.Provider) { p.Name = "Workplace" }))
	e.Asking(func(d *authn.Demand) {
		if d.Return == "/next?corp" {
			d.Provider = "corp"
		}
	})
	b := e.Browser()
	order := func() (corpFirst, marked bool) {
		body := b.Get("/next?" + e.Clock.Now().Format("150405")).Body.String()
		return strings.Index(body, "Continue with Workplace") < strings.Index(body, "Continue with Partner account"),
			strings.Contains(body, "Last used")
	}
	if first, marked := order(); first || marked {
		t.Error("a new browser has used a provider")
	}
	away := b.Leave("/next?corp")
	b.Get("/saml/corp/acs?" + url.Values{"state": {identitytest.State(t, away)}, "ticket": {e.Corp.Answer(identitytest.Ann(), nil)}}.Encode())
	last := b.Cookie("last")
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-session") {
			delete(b.Cookies, name)
		}
	}
	if first, marked := order(); !first || !marked {
		t.Errorf("after a sign-in at corp: first %t, marked %t", first, marked)
	}
	for name := range b.Cookies {
		if strings.HasSuffix(name, "-last") {
			b.Cookies[name] = "corp." + strings.Repeat("A", len(last)-len("corp."))
		}
	}
	if first, marked := order(); first || marked {
		t.Error("a forged cookie was believed")
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Domains = []string{"partner.example"} }))
	e.Asking(func(d *authn.Demand) {
		if d.Return == "/next?hint" {
			d.Hint = "ann@partner.example"
		}
		if d.Return == "/next?alone" {
			d.Providers = []string{"corp", "partner"}
			d.SelectAccount = true
		}
	})
	b := e.Browser()
	page := b.Get("/next")
	if strings.Contains(page.Body.String(), `type="password"`) || !strings.Contains(page.Body.String(), "Next") {
		t.Fatalf("first step:\n%s", page.Body)
	}
	a := b.Post(page, "username", "Ann@Partner.Example")
	if a.Code != http.StatusSeeOther || strings.Contains(a.Header().Get("Location"), "@") {
		t.Fatalf("username of a domain = %d to %q, want a redirect without the username", a.Code, a.Header().Get("Location"))
	}
	if away := b.Leave(a.Header().Get("Location")); !strings.HasPrefix(away, idptest.Place) ||
		e.Partner.Requests()[0].Hint != "Ann@Partner.Example" {
		t.Errorf("sent to %q, asked %+v", away, e.Partner.Requests())
	}
	// The redirects after a form end at one of our pages, because form-action applies to the whole chain.
	if hop := b.Do(http.MethodGet, a.Header().Get("Location"), ""); hop.Code != http.StatusOK || hop.Header().Get("Refresh") == "" {
		t.Errorf("after the form: %d %v", hop.Code, hop.Header())
	}
	// Other usernames lead to the password.
	b = e.Browser()
	second := b.Get(b.Post(b.Get("/next"), "username", identitytest.Demo).Header().Get("Location"))
	if !strings.Contains(second.Body.String(), `type="password"`) || !strings.Contains(second.Body.String(), `value="`+identitytest.Demo+`"`) {
		t.Fatalf("second step:\n%s", second.Body)
	}
	if a := b.Post(second, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password = %d to %q", a.Code, a.Header().Get("Location"))
	}
	// A login hint from the client leads to the provider at once.
	if away := e.Browser().Leave("/next?hint"); !strings.HasPrefix(away, idptest.Place) {
		t.Errorf("with a hint sent to %q", away)
	}
	// Without password sign-in, other usernames get a message.
	b = e.Browser()
	if a := b.Post(b.Get("/next?alone"), "username", "x@elsewhere.example"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "find a sign-in method") {
		t.Errorf("unknown domain = %d\n%s", a.Code, a.Body)
	}
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t,
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Timeout = 500 * time.Millisecond }))
	e.Asking(func(d *authn.Demand) { d.Providers, d.Cancel = []string{"identity", "partner"}, "/cancel" })
	b := e.Browser()
	start := func() *identitytest.Answer {
		link := slices.Collect(func(yield func(string) bool) {
			for _, part := range strings.Split(b.Get("/next").Body.String(), `href="`) {
				if u, _, _ := strings.Cut(part, `"`); strings.HasPrefix(u, "/sign-in/provider?") {
					yield(strings.ReplaceAll(u, "&amp;", "&"))
				}
			}
		})
		return b.Do(http.MethodGet, link[0], "")
	}
	wantWay := func(what string, a *identitytest.Answer, status int) {
		t.Helper()
		body := a.Body.String()
		if a.Code != status || !strings.Contains(body, "/sign-in/provider?") || !strings.Contains(body, "choose=1") ||
			!strings.Contains(body, `href="/cancel"`) || !strings.Contains(body, "Partner account") {
			t.Errorf("%s: %d, want %d with ways back\n%s", what, a.Code, status, body)
		}
	}
	e.Partner.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
		return nil, errors.New("connection refused by 10.1.2.3")
	})
	down := start()
	wantWay("down", down, http.StatusBadGateway)
	if strings.Contains(down.Body.String(), "10.1.2.3") {
		t.Error("the page tells what is inside")
	}
	e.Partner.OnBegin(func(ctx context.Context, _ idp.Request) (*idp.Next, error) { <-ctx.Done(); return nil, ctx.Err() })
	wantWay("slow", start(), http.StatusGatewayTimeout)
	e.Partner.OnBegin(nil)
	away := b.Leave(strings.ReplaceAll(strings.Split(strings.Split(down.Body.String(), `class="button" href="`)[1], `"`)[0], "&amp;", "&"))
	wantWay("down at the answer", b.Come(away, e.Partner.Answer(nil, errors.New("token endpoint"))), http.StatusBadGateway)
	// Signing in with the password still works.
	if a := b.Post(b.Get("/next"), "username", identitytest.Demo, "password",
		identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("password meanwhile: %d\n%s", a.Code, a.Body)
	}
	if n := e.Events()["login.LoginFailedEvent"]; n != 3 {
		t.Errorf("%d events of failures, want 3", n)
	}
}

func TestProviderRejection(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	var refusals []*authn.Refusal
	ask := func(b *identitytest.Browser, target string) (refusal *authn.Refusal) {
		t.Helper()
		r := identitytest.NewRequest(b, target)
		w := identitytest.NewRecorder()
		_, err := e.Authenticate(w, r, e.Demand(r))
		b.Keep(w)
		errors.As(err, &refusal)
		return refusal
	}
	b := e.Browser()
	no := &idp.Rejection{
		Reason: "the provider refuses", SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed",
		Cause: "no_existing_customer\r\n\"&code=evil" + strings.Repeat("x", 300),
	}
	a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, no)), "")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next#" {
		t.Fatalf("refused = %d to %q, want back to whoever asked", a.Code, a.Header().Get("Location"))
	}
	refusals = append(refusals, ask(b, "/next"))
	want := &authn.Refusal{
		Code: "access_denied", Reason: "the identity provider has not signed anyone in", SAMLStatus: no.SAMLStatus,
		Cause: ("no_existing_customer???&code=evil" + strings.Repeat("x", 300))[:256],
	}
	if diff := cmp.Diff(want, refusals[0]); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if again := ask(b, "/next"); again != nil {
		t.Errorf("the refusal is told twice: %v", again)
	}
	if other := ask(e.Browser(), "/next"); other != nil {
		t.Errorf("the refusal is told to another browser: %v", other)
	}
	// A sign-in that no application asked for ends at a page.
	e.Asking(func(d *authn.Demand) { d.Client = authn.Client{} })
	if a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, no)),
		""); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "You’re not signed in") {
		t.Errorf("without a client: %d\n%s", a.Code, a.Body)
	}
	if b.IsSignedIn() {
		t.Error("somebody is signed in")
	}
}

// TestProviderThatIsNotSetUp: the page of a provider that answers, and that is configured wrongly, does not ask to try
// again in a moment.
func TestProviderThatIsNotSetUp(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	e.Partner.OnBegin(func(context.Context, idp.Request) (*idp.Next, error) {
		return nil, &idp.Misconfigured{Cause: errors.New("the issuer is https://partner.example/")}
	})
	a := e.Browser().Get("/next")
	if body := a.Body.String(); !strings.Contains(body, "isn’t set up correctly") || strings.Contains(body, "isn’t responding") ||
		strings.Contains(body, "partner.example") {
		t.Errorf("page = %d, want that the provider is not set up, and not why\n%s", a.Code, body)
	}
}

// TestAnswerThatIsNotAccepted: the page says that the answer cannot be used, and not that the provider is down.
func TestAnswerThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	for name, err := range map[string]error{
		"user info that is not encrypted": &idp.Invalid{Reason: "the user info is not encrypted"},
		"within another error":            fmt.Errorf("user info: %w", &idp.Invalid{Reason: "signature"}),
		"used before":                     idp.ErrReplayed,
	} {
		b := e.Browser()
		a := b.Come(b.Leave("/next"), e.Partner.Answer(nil, err))
		body := a.Body.String()
		if a.Code != http.StatusBadRequest || !strings.Contains(body, "from the service you sign in with can’t be used") ||
			strings.Contains(body, "isn’t responding") {
			t.Errorf("%s: %d, want 400 and that the answer cannot be used\n%s", name, a.Code, body)
		}
		if b.IsSignedIn() {
			t.Errorf("%s: somebody is signed in", name)
		}
	}
}

// TestPassiveProvider: prompt=none is passed on to the provider, and none of our pages is shown.
func TestPassiveProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	e.Asking(func(d *authn.Demand) { d.Passive = true })
	b := e.Browser()
	r := identitytest.NewRequest(b, "/next")
	d := e.Demand(r)
	d.Return = ""
	_, err := e.Authenticate(identitytest.NewRecorder(), r, d)
	if refusal := new(authn.Refusal); !errors.As(err, &refusal) || refusal.Code != "login_required" || !refusal.Elsewhere {
		t.Fatalf("Authenticate without a Return = %v, want login_required elsewhere", err)
	}
	for name, end := range map[string]func(away string) *identitytest.Answer{
		"the provider would ask": func(away string) *identitytest.Answer {
			return b.Come(away, e.Partner.Answer(nil, &idp.Rejection{Reason: "NoPassive", Passive: true}))
		},
		"forged": func(away string) *identitytest.Answer {
			return b.Come(away, e.Partner.Answer(nil, &idp.Invalid{Reason: "forged"}))
		},
		"it is down": func(away string) *identitytest.Answer { return b.Come(away, e.Partner.Answer(nil, errors.New("down"))) },
	} {
		a := end(b.Leave("/next"))
		if want := map[string]string{"it is down": "temporarily_unavailable"}[name]; a.Code != http.StatusForbidden ||
			strings.TrimSpace(a.Body.String()) != identitytest.Or(want, "login_required") {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	if !e.Partner.Requests()[0].Passive {
		t.Error("the provider was not told to be passive")
	}
	e.MustEnter(b, identitytest.Ann())
}

func TestProviderLevelAndAge(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	var change func(*authn.Demand)
	e.Asking(func(d *authn.Demand) { change(d) })
	for _, tc := range []struct {
		name   string
		demand func(*authn.Demand)
		id     func(*idp.Identity)
		want   string
	}{
		{"level reached", func(d *authn.Demand) { d.Level = 3 }, func(i *idp.Identity) { i.Level = 3 }, ""},
		{"level not reached", func(d *authn.Demand) { d.Level = 3 }, func(i *idp.Identity) { i.Level = 2 }, "unmet_authentication_requirements"},
		{"forced and done", func(d *authn.Demand) { d.NotBefore = e.Clock.Now() }, func(i *idp.Identity) { i.AuthTime = e.Clock.Now() }, ""},
		{
			"forced and not done", func(d *authn.Demand) { d.NotBefore = e.Clock.Now() },
			func(i *idp.Identity) { i.AuthTime = e.Clock.Now().Add(-time.Hour) }, "login_required",
		},
		{
			"max_age met", func(d *authn.Demand) { d.MaxAge = time.Hour },
			func(i *idp.Identity) { i.AuthTime = e.Clock.Now().Add(-30 * time.Minute) }, "",
		},
		{
			"max_age not met", func(d *authn.Demand) { d.MaxAge = time.Hour },
			func(i *idp.Identity) { i.AuthTime = e.Clock.Now().Add(-2 * time.Hour) }, "login_required",
		},
	} {
		change = tc.demand
		id := identitytest.Ann()
		tc.id(id)
		a := e.Through(e.Browser(), id)
		if got := strings.TrimSpace(a.Body.String()); (tc.want == "" && !strings.HasPrefix(got, "signed in as ")) ||
			(tc.want != "" && got != tc.want) {
			t.Errorf("%s: %d %s, want %q", tc.name, a.Code, got, tc.want)
		}
	}
}

// TestProviderSessionEnds: a session ends at the time that the provider sets, however long ago the person signed in
// there.
func TestProviderSessionEnds(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("partner")
	id := identitytest.Ann()
	id.NotAfter = e.Clock.Now().Add(10 * time.Minute)
	id.AuthTime = e.Clock.Now().Add(-20 * time.Hour) // longer ago than our sessions can last
	b := e.Browser()
	if si := e.MustEnter(b, id); !si.Ends.Equal(id.NotAfter) {
		t.Errorf("session ends %v, want %v", si.Ends, id.NotAfter)
	}
	e.Clock.Advance(9 * time.Minute)
	if !b.IsSignedIn() {
		t.Error("the session has ended early")
	}
	e.Clock.Advance(time.Minute)
	if b.IsSignedIn() {
		t.Error("the session outlives the provider's")
	}
}

func TestUnsolicited(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	b := e.Browser()
	ticket := e.Partner.Answer(identitytest.Ann(), nil)
	if a := b.Get("/oidc/partner/callback?ticket=" + ticket); a.Code != http.StatusOK || a.URL != "/account" {
		t.Fatalf("an answer that nobody has asked for ended at %s: %d\n%s", a.URL, a.Code, a.Body)
	}
	other := e.Browser()
	if a := other.Get("/oidc/partner/callback?ticket=none"); a.Code != http.StatusBadRequest || other.IsSignedIn() {
		t.Errorf("refused one: %d", a.Code)
	}
}

// managerStub returns the managed providers that a test sets.
type managerStub struct {
	list    []federation.Provider
	version uint64
	err     error
}

func (m *managerStub) Providers(context.Context, *settings.Units) ([]federation.Provider, uint64, error) {
	return m.list, m.version, m.err
}

// TestLogosOfProviders: a stored picture is on the button of its provider, and in the list of the person's accounts.
func TestLogosOfProviders(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.Deps.Pages.SetLogos(logo.Shown{
		Store: e.Store, Declares: func(string) bool { return false },
		Providers: func(ctx context.Context) (all map[string]*web.Logo, err error) {
			err = e.Store.View(ctx, func(tx storage.Tx) error {
				all, err = logo.All(tx, web.ProviderLogo)
				return err
			})
			return all, err
		},
	})
	b := e.Browser()
	if body := b.Get("/next").Body.String(); strings.Contains(body, "/assets/idp") {
		t.Errorf("a button has a picture before there is one:\n%s", body)
	}
	var raw bytes.Buffer
	if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, 48, 24))); err != nil {
		t.Fatal(err)
	}
	l, err := web.NewLogo(web.ProviderLogo, "partner", raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	err = e.Store.Update(t.Context(), func(tx storage.Tx) error { return logo.Put(tx, web.ProviderLogo, "partner", l, raw.Bytes()) })
	if err != nil {
		t.Fatal(err)
	}
	want := `<img src="` + l.Image().Path + `" alt="" width="24" height="24">`
	if body := b.Get("/next").Body.String(); !strings.Contains(body, want) {
		t.Errorf("the button has no %s:\n%s", want, body)
	}
	e.At("partner")
	e.MustEnter(b, identitytest.Ann())
	if body := b.Get("/account/security/accounts").Body.String(); !strings.Contains(body, `<img class="logo" src="`+l.Image().Path+`"`) {
		t.Errorf("the account at the provider has no picture:\n%s", body)
	}
}

func TestManagedProviders(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	m := &managerStub{version: 1}
	e.Manager = m
	e.Start()
	source := idptest.New()
	b := e.Browser()
	if body := b.Get("/next").Body.String(); strings.Contains(body, "Managed one") {
		t.Fatal("a provider is there too early")
	}
	m.list, m.version = []federation.Provider{
		{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"},
		{ID: "partner", Name: "Not this", Source: source},
	}, 2
	body := b.Get("/next").Body.String()
	if !strings.Contains(body, "Managed one") || strings.Contains(body, "Not this") {
		t.Errorf("page:\n%s", body)
	}
	if body := b.Get("/next?service").Body.String(); !strings.Contains(body, "Managed one") {
		t.Errorf("page:\n%s", body)
	}
	service := func(r *http.Request) authn.Demand {
		return authn.Demand{
			MaxAge: -1, Return: r.URL.RequestURI(), Provider: "identity", Providers: []string{"identity", "partner", "managed"},
			Client: authn.Client{ID: "shop"},
		}
	}
	plain := e.Demand
	e.Demand = service
	if body := b.Get("/next?asked").Body.String(); !strings.Contains(body, "Managed one") || strings.Contains(body, "Partner account") ||
		!strings.Contains(body, `name="password"`) {
		t.Errorf("page of the service itself:\n%s", body)
	}
	e.Demand = plain
	e.Asking(func(d *authn.Demand) { d.Provider = "managed" })
	away := b.Leave("/next?x")
	m.list, m.version = nil, 3
	if a := b.Get("/oidc/managed/callback?" +
		url.Values{
			"state":  {identitytest.State(t, away)},
			"ticket": {source.Answer(identitytest.Ann(), nil)},
		}.Encode()); a.Code != http.StatusForbidden || b.IsSignedIn() {
		t.Errorf("answer of a provider that is gone: %d", a.Code)
	}
	m.err = storage.ErrUnavailable
	if a := e.Browser().Get("/next?y"); a.Code != http.StatusServiceUnavailable {
		t.Errorf("nobody can tell: %d, want 503", a.Code)
	}
}

// TestSessionsOfProvidersThatAreOff: what a provider has signed in counts for nothing while it is disabled or gone.
func TestSessionsOfProvidersThatAreOff(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	u, source := settings.Defaults(), idptest.New()
	own := u.LoginMethods.LoginMethods
	with := func(more ...settings.LoginMethod) { u.LoginMethods.LoginMethods = append(slices.Clone(own), more...) }
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Manager = &managerStub{list: []federation.Provider{{ID: "managed", Name: "Managed one", Source: source, Path: "oidc"}}, version: 1}
	e.Start()
	with(settings.LoginMethod{ID: "managed", Type: settings.TypeOIDC, Enabled: true, Removable: true})
	plain := e.Demand
	e.Asking(func(d *authn.Demand) { d.Provider = "managed" })
	stored, declared := e.Browser(), e.Browser()
	away := stored.Leave("/next")
	stored.Get("/oidc/managed/callback?" +
		url.Values{"state": {identitytest.State(t, away)}, "ticket": {source.Answer(identitytest.Ann(), nil)}}.Encode())
	e.Demand = plain
	e.At("partner")
	err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
		return e.Person.CoupleProved(tx, "partner", identitytest.Known(), e.DemoID(), e.Clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	e.MustEnter(declared, identitytest.Known())
	start := func(change func(*federation.Provider)) {
		identitytest.WithProvider("partner", change)(&e.Config)
		e.Start()
	}
	for _, tt := range []struct {
		name             string
		change           func()
		stored, declared bool
	}{
		{"as they were", func() {}, true, true},
		{
			"attack 1811: one of the settings is off",
			func() { with(settings.LoginMethod{ID: "managed", Type: settings.TypeOIDC, Removable: true}) }, false, true,
		},
		{"attack 1811: it is removed", func() { with() }, false, true},
		{"it is back", func() {
			with(settings.LoginMethod{ID: "managed", Type: settings.TypeOIDC, Enabled: true, Removable: true})
		}, true, true},
		{"attack 1811: one of the Caddyfile is off", func() { start(func(p *federation.Provider) { p.Disabled = true }) }, true, false},
		{"it is back too", func() { start(func(p *federation.Provider) { p.Disabled = false }) }, true, true},
		{"attack 1811: it is removed from the Caddyfile", func() { e.Config.Providers = e.Config.Providers[1:]; e.Start() }, true, false},
	} {
		tt.change()
		for b, want := range map[*identitytest.Browser]bool{stored: tt.stored, declared: tt.declared} {
			if got := b.IsSignedIn(); got != want {
				t.Errorf("%s: the browser at one of the settings (%t) is signed in: %t, want %t", tt.name, b == stored, got, want)
			}
		}
	}
}

// The buttons of providers stand in the order of their names, as people read them; where an application or the
// configuration API gives an order, that order wins.
func TestProvidersStandByTheirNames(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t, func(c *identity.Config) {
		for _, p := range []string{"a Zebra", "b école", "c Office 10", "d apple", "e Office 2", "g Zebra", "h Banana"} {
			c.Providers = append(c.Providers, federation.Provider{ID: p[:1], Name: p[2:], Source: idptest.New(), Path: "oidc"})
		}
	})
	m := &managerStub{version: 1}
	e.Manager = m
	m.list = []federation.Provider{
		{ID: "y", Name: "Second", Source: idptest.New(), Path: "oidc"},
		{ID: "x", Name: "First", Source: idptest.New(), Path: "oidc"},
	}
	e.Start()
	order := func() (ids string) {
		for _, found := range regexp.MustCompile(`[?&;]idp=([a-z]+)`).FindAllStringSubmatch(e.Browser().Get("/next").Body.String(), -1) {
			if id := found[1]; len(id) == 1 {
				ids += id
			}
		}
		return ids
	}
	if got := order(); got != "dhbecagyx" {
		t.Errorf("the page has the providers in the order %s, want dhbecagyx", got)
	}
	e.Asking(func(d *authn.Demand) { d.Providers = []string{"identity", "g", "x", "d", "y"} })
	if got := order(); got != "gxdy" {
		t.Errorf("the page has the providers of an application in the order %s, want its own, gxdy", got)
	}
}

// TestCancelledAtProvider: a person who has gone back at a provider reads so, and can go on. An application that names
// the provider itself is told.
func TestCancelledAtProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewElsewhere(t)
	e.At("identity", "partner")
	e.Asking(func(d *authn.Demand) { d.Cancel = "/cancel" })
	gone := &idp.Rejection{
		Reason:     "the provider has refused the sign-in",
		SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", Cancelled: true,
	}
	start := func() (*identitytest.Browser, *identitytest.Answer) {
		b := e.Browser()
		link := regexp.MustCompile(`/sign-in/provider\?[^"]*`).FindString(b.Get("/next").Body.String())
		return b, b.Come(b.Leave(html.UnescapeString(link)), e.Partner.Answer(nil, gone))
	}
	b, a := start()
	body := a.Body.String()
	for _, want := range []string{"The sign-in with Partner account was stopped there", "/sign-in/provider?", "choose=1", `href="/cancel"`} {
		if !strings.Contains(body, want) {
			t.Errorf("gone back: %d without %q\n%s", a.Code, want, body)
		}
	}
	if a.Code != http.StatusOK || b.IsSignedIn() {
		t.Errorf("gone back: %d, signed in %t", a.Code, b.IsSignedIn())
	}
	again := regexp.MustCompile(`/sign-in/provider\?[^"]*`).FindString(body)
	if a := b.Come(b.Leave(html.UnescapeString(again)), e.Partner.Answer(identitytest.Ann(), nil)); !strings.HasPrefix(a.Body.String(),
		"signed in as ") {
		t.Errorf("once more: %d\n%s", a.Code, a.Body)
	}
	e.Asking(func(d *authn.Demand) { d.Provider = "partner" })
	b = e.Browser()
	if a := b.Do(http.MethodGet, identitytest.Callback(identitytest.State(t, b.Leave("/next")), e.Partner.Answer(nil, gone)),
		""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next#" {
		t.Errorf("at the provider of the application: %d to %q, want back to it", a.Code, a.Header().Get("Location"))
	}
}
