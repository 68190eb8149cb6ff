package federation_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

func TestProviderSignIn(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
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
	e := identitytest.NewFederated(t)
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
	e := identitytest.NewFederated(t)
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
	e := identitytest.NewFederated(t)
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

// TestPassiveProvider: prompt=none is passed on to the provider, and none of our pages is shown.
func TestPassiveProvider(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
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
	for name, err := range map[string]error{
		"the provider would ask": &idp.Rejection{Reason: "NoPassive", Passive: true},
		"forged":                 &idp.Invalid{Reason: "forged"},
		"it is down":             errors.New("down"),
	} {
		a := b.Come(b.Leave("/next"), e.Partner.Answer(nil, err))
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
	e := identitytest.NewFederated(t)
	e.At("partner")
	var change func(*authn.Demand)
	e.Asking(func(d *authn.Demand) { change(d) })
	high, now, hour := func(d *authn.Demand) { d.Level = 3 }, func(d *authn.Demand) { d.NotBefore = e.Clock.Now() },
		func(d *authn.Demand) { d.MaxAge = time.Hour }
	for _, tc := range []struct {
		name   string
		demand func(*authn.Demand)
		level  int
		ago    time.Duration
		want   string
	}{
		{"level reached", high, 3, 0, ""},
		{"level not reached", high, 2, 0, "unmet_authentication_requirements"},
		{"forced and done", now, 2, 0, ""},
		{"forced and not done", now, 2, time.Hour, "login_required"},
		{"max_age met", hour, 2, 30 * time.Minute, ""},
		{"max_age not met", hour, 2, 2 * time.Hour, "login_required"},
	} {
		change = tc.demand
		id := identitytest.Ann()
		id.Level, id.AuthTime = tc.level, e.Clock.Now().Add(-tc.ago)
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
	e := identitytest.NewFederated(t)
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
	e := identitytest.NewFederated(t)
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
