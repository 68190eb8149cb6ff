package federation_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp/header"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const proxy = "10.0.0.7:4711" // an address that the provider edge trusts

// withEdge adds the provider edge, whose identities come in headers set by a proxy.
func withEdge(c *identity.Config) {
	source, err := header.New(header.Config{
		Trust: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, User: "X-Remote-User", LevelHeader: "X-Remote-Level",
		Attributes: []header.Attribute{{Header: "X-Remote-Email", Detail: "email"}}, Parameters: []string{"branch"},
	})
	if err != nil {
		panic(err)
	}
	c.Providers = []federation.Provider{{ID: "edge", Source: source}}
}

// edge is a browser whose requests come through the proxy, unless the test changes its address.
type edge struct {
	*identitytest.Browser
	demand  authn.Demand
	headers []string
}

// behind returns a browser whose requests get these headers from the proxy.
func behind(h *identitytest.Harness, headers ...string) *edge {
	e := &edge{
		Browser: h.Browser(), headers: headers,
		demand: authn.Demand{MaxAge: -1, Providers: []string{"edge"}, Return: "/next", Client: authn.Client{ID: "shop"}},
	}
	e.Address = proxy
	return e
}

// ask asks for a sign-in and returns the result, which is nil when a page or redirect was written.
func (e *edge) ask() (*authn.Result, *httptest.ResponseRecorder, error) {
	e.H.T.Helper()
	r := httptest.NewRequest(http.MethodGet, identitytest.Issuer+"/next", nil)
	r.RemoteAddr = e.Address
	for name, value := range e.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i+1 < len(e.headers); i += 2 {
		r.Header.Add(e.headers[i], e.headers[i+1])
	}
	w := httptest.NewRecorder()
	result, err := e.H.Authenticate(w, r, e.demand)
	for _, c := range w.Result().Cookies() {
		e.Cookies[c.Name] = c.Value
	}
	return result, w, err
}

func (e *edge) mustSignIn() *authn.Result {
	e.H.T.Helper()
	result, w, err := e.ask()
	if err != nil {
		e.H.T.Fatalf("Authenticate(%q) = %v, %d %s, want a sign-in", e.headers, err, w.Code, w.Body)
	}
	return result
}

// wantPage checks that the browser gets a page, and that a passive request is refused.
func (e *edge) wantPage(what, words string) {
	e.H.T.Helper()
	e.demand.Passive = false
	if result, w, err := e.ask(); err != authn.ErrResponded || w.Code != http.StatusForbidden || //nolint:errorlint // as it is
		!strings.Contains(w.Body.String(), words) {
		e.H.T.Errorf("Authenticate(%s) = %+v, %v, %d %s, want a 403 page with %q", what, result, err, w.Code, w.Body, words)
	}
	e.wantRefused(what, "login_required")
}

func (e *edge) wantRefused(what, code string) {
	e.H.T.Helper()
	e.demand.Passive = true
	result, w, err := e.ask()
	if refusal, ok := err.(*authn.Refusal); !ok || refusal.Code != code || w.Body.Len() > 0 { //nolint:errorlint // as it is
		e.H.T.Errorf("Authenticate(%s, passive) = %+v, %v, want %s", what, result, err, code)
	}
	if e.Session() != "" {
		e.H.T.Errorf("Authenticate(%s) left a session cookie", what)
	}
}

func TestHeaderSignIn(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	e := behind(h, "X-Remote-User", "Ann", "X-Remote-Level", "2", "X-Remote-Email", "ann@example.com")
	e.demand.Passive, e.demand.Level = true, 2 // no page is needed
	e.demand.Params = map[string][]string{"branch": {"north"}, "other": {"x"}}
	got := e.mustSignIn()
	p, err := h.Person.Person(t.Context(), "ann")
	if err != nil || p.Username != "Ann" || p.State != person.Active || p.EmailVerified {
		t.Fatalf("Person = %+v, %v, want an active Ann", p, err)
	}
	want := &authn.Result{
		Subject: p.ID, SessionID: got.SessionID, AuthTime: h.Clock.Now(), Level: 2, AMR: []string{"IMPLICIT"}, Provider: "edge",
		Details: map[string][]string{"email": {"ann@example.com"}, "branch": {"north"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Result (-want +got):\n%s", diff)
	}
	if n := h.Events(); n["person.PersonCreatedEvent"] != 2 || n["login.LoginSucceededEvent"] != 1 {
		t.Errorf("events = %v, want Ann created and signed in once", n)
	}

	// Signing in again changes nothing, and the parameters of the first request are gone.
	cookie := e.Session()
	h.Clock.Advance(30 * time.Second)
	e.demand.Params = nil
	again := e.mustSignIn()
	if again.SessionID != got.SessionID || !again.AuthTime.Equal(got.AuthTime) || e.Session() != cookie || again.Details["branch"] != nil {
		t.Errorf("second sign-in = %+v, want the same session without branch", again)
	}
	// A changed attribute means a new sign-in in the same session.
	e.headers[5] = "ann@example.org"
	changed := e.mustSignIn()
	if changed.SessionID != got.SessionID || e.Session() == cookie || changed.Details["email"][0] != "ann@example.org" ||
		!changed.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("sign-in with another attribute = %+v, want it in the same session", changed)
	}
	// The present headers of the proxy satisfy prompt=login and max_age.
	h.Clock.Advance(time.Minute)
	e.demand.NotBefore, e.demand.MaxAge, e.demand.Return = h.Clock.Now(), 0, "/next?again"
	if forced := e.mustSignIn(); !forced.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("forced sign-in at %v, want now", forced.AuthTime)
	}
	// A username in upper case means the same person, also in another browser.
	other := behind(h, "X-Remote-User", "ANN")
	if r := other.mustSignIn(); r.Subject != p.ID || r.SessionID == got.SessionID || r.Level != 1 {
		t.Errorf("in another browser = %+v, want the same person", r)
	}
	// Without the headers the session still works, like any session, but not for a client that needs another provider.
	e.headers, e.demand = nil, authn.Demand{MaxAge: -1, Providers: []string{"identity", "edge"}, Return: "/next"}
	if r := e.mustSignIn(); r.Subject != p.ID || r.Provider != "edge" {
		t.Errorf("without headers = %+v, want the session", r)
	}
	e.demand.Providers = []string{"identity"}
	if _, w, err := e.ask(); err != authn.ErrResponded || //nolint:errorlint // as it is
		!strings.HasPrefix(w.Header().Get("Location"), "/sign-in") {
		t.Errorf("for a client that may not use edge = %v, %d %q, want the sign-in page", err, w.Code, w.Header().Get("Location"))
	}
	h.CheckInvariants()
}

// What an application wants along with a sign-in is kept with it, in one transaction. It never keeps anybody out, and
// nothing of it stays where it fails.
func TestHeaderSignInDoesWhatIsWantedAlong(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	c, wanted := h.Count(), storage.NewTable[string]("identity_along_test")
	along := func(fails error) func(storage.Tx, *authn.Result) error {
		return func(tx storage.Tx, r *authn.Result) error {
			if _, err := session.Records.Get(tx, r.SessionID); err != nil {
				return err
			}
			return errors.Join(wanted.Put(tx, r.Subject, r.SessionID, time.Time{}), fails)
		}
	}
	kept := func(r *authn.Result) (id string) {
		if err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
			id, _, err = wanted.Find(tx, r.Subject)
			return err
		}); err != nil {
			t.Error(err)
		}
		return id
	}
	e := behind(h, "X-Remote-User", "ann")
	e.demand.Along = along(nil)
	c.Updates.Store(0)
	ann := e.mustSignIn()
	if n := c.Updates.Load(); n != 1 || kept(ann) != ann.SessionID {
		t.Errorf("%d transactions, kept for %q; want one, for %q", n, kept(ann), ann.SessionID)
	}
	if e.mustSignIn(); c.Updates.Load() != 1 {
		t.Error("somebody who is signed in takes a transaction")
	}
	e = behind(h, "X-Remote-User", "ben")
	e.demand.Along = along(&authn.Refusal{Code: "login_required", Reason: "a test"})
	ben := e.mustSignIn()
	if e.Session() == "" || kept(ben) != "" {
		t.Errorf("where it fails: kept %q, want a sign-in alone", kept(ben))
	}
	h.CheckInvariants()
}

// TestHeaderDecides: the person that the proxy names now is signed in, even if another person was before.
func TestHeaderDecides(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	e := behind(h, "X-Remote-User", "ann")
	e.SignIn(identitytest.Demo, identitytest.DemoPassword)
	before, err := h.SessionOf(e.Browser)
	if err != nil {
		t.Fatal(err)
	}
	e.demand.Providers = []string{"edge", "identity"}
	ann := e.mustSignIn()
	if ann.Provider != "edge" || ann.Subject == before.Subject {
		t.Errorf("sign-in = %+v, want Ann", ann)
	}
	if _, err := h.SessionByID(before.SessionID); err == nil {
		t.Error("the session of the person before lives on")
	}
	e.headers[1] = "bob"
	bob := e.mustSignIn()
	if bob.Subject == ann.Subject || bob.SessionID == ann.SessionID {
		t.Errorf("sign-in = %+v, want another person than %+v", bob, ann)
	}
	if _, err := h.SessionByID(ann.SessionID); err == nil {
		t.Error("Ann's session lives on in Bob's browser")
	}
	if n := h.Events()["session.SignedOutEvent"]; n != 2 {
		t.Errorf("%d sign-outs, want 2", n)
	}
}

func TestHeaderRefusals(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge, func(c *identity.Config) { c.Persons = append(c.Persons, person.NewPerson{Username: "root"}) })
	for name, headers := range map[string][]string{
		"taken username": {"X-Remote-User", "ROOT"}, "no username": {"X-Remote-User", "a b"},
		"two users": {"X-Remote-User", "ann", "X-Remote-User", "root"},
		"an id":     {"X-Remote-User", "11111111-1111-4111-8111-111111111111"}, "no level": {"X-Remote-User", "ann", "X-Remote-Level", "high"},
	} {
		behind(h, headers...).wantPage(name, "This account can’t be used here")
	}
	if _, w, _ := behind(h, "X-Remote-User", "a b").ask(); !strings.Contains(w.Body.String(),
		`<a class="button" href="/next">Start again</a>`) {
		t.Errorf("the page has no way back to a proxy that has sent rubbish once: %s", w.Body)
	}
	behind(h).wantPage("no identity", "This sign-in method isn’t available here")
	low := behind(h, "X-Remote-User", "ann")
	low.demand.Level = 2
	low.wantRefused("level", "interaction_required")

	ann := behind(h, "X-Remote-User", "ann").mustSignIn()
	if err := h.Person.SetState(t.Context(), "ann", person.Blocked, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.SessionByID(ann.SessionID); err == nil {
		if b := behind(h, "X-Remote-User", "ann"); b.IsSignedIn() {
			t.Error("a blocked person is signed in")
		}
	}
	behind(h, "X-Remote-User", "ann").wantPage("blocked", "You don’t have access")
	// After a removal the username is free, so the next person of that name is a new one.
	if err := h.Person.SetState(t.Context(), "ann", person.Removed, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	if r := behind(h, "X-Remote-User", "ann").mustSignIn(); r.Subject == ann.Subject {
		t.Error("a removed person is back")
	}
	unknown := behind(h, "X-Remote-User", "ann")
	unknown.demand.Provider = "partner"
	unknown.wantRefused("unknown provider", "access_denied")
	h.CheckInvariants()
}

// TestHeaderFromStrangers is a variant of attack 36: headers from a stranger are ignored. If the client allows the
// sign-in page, the stranger gets that; otherwise a page that refuses.
func TestHeaderFromStrangers(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	e := behind(h, "X-Remote-User", "ann", "X-Remote-Level", "4", "X-Forwarded-For", "10.0.0.7", "Forwarded", "for=10.0.0.7")
	e.Address = "203.0.113.7:4711"
	e.wantPage("edge alone", "This sign-in method isn’t available here")
	for _, provider := range []string{"", "edge"} {
		e.demand = authn.Demand{MaxAge: -1, Provider: provider, Providers: []string{"edge", "identity"}, Return: "/next"}
		_, w, err := e.ask()
		if err != authn.ErrResponded || !strings.HasPrefix(w.Header().Get("Location"), "/sign-in") { //nolint:errorlint // as it is
			t.Errorf("Authenticate(provider %q) = %v, %d %q, want the sign-in page", provider, err, w.Code, w.Header().Get("Location"))
		}
	}
	if _, err := h.Person.Person(t.Context(), "ann"); err == nil {
		t.Error("a stranger's header has made a person")
	}
	// A password then satisfies the same demand, so there is no endless redirect.
	e.headers = nil
	h.Demand = func(*http.Request) authn.Demand { return e.demand }
	page := e.Get("/next")
	if a := e.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("sign-in = %d %s", a.Code, a.Body)
	}
	if r := e.mustSignIn(); r.Provider != "identity" {
		t.Errorf("sign-in = %+v, want one by password", r)
	}
	e.demand.Providers = []string{"edge"}
	e.demand.Passive = true
	if _, _, err := e.ask(); err == nil {
		t.Error("a sign-in by password is good for a client that may only use edge")
	}
	// Requests are passed on without these headers.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.7:4711"
	r.Header.Set("X-Remote-User", "ann")
	if h.Federation.Cleanse(r); r.Header.Get("X-Remote-User") != "" {
		t.Error("Cleanse leaves the header of a stranger")
	}
}

// A cookie of a session that a proxy has opened is taken past the proxy.
func TestHeaderSessionPastTheProxy(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	e := behind(h, "X-Remote-User", "ann")
	through := e.mustSignIn()
	e.headers = nil // the proxy names no one any more, and the session goes on
	if again := e.mustSignIn(); again.SessionID != through.SessionID {
		t.Errorf("through the proxy: session %q, want %q", again.SessionID, through.SessionID)
	}
	for _, address := range []string{"203.0.113.7:4711", "[2001:db8::1]:4711", "127.0.0.1:4711", "nonsense"} {
		e.Address = address
		if result, w, err := e.ask(); result != nil || err == nil || w.Code != http.StatusForbidden {
			t.Errorf("from %s: sign-in = %+v, %v, %d, want a refusal", address, result, err, w.Code)
		}
		if a := e.Get("/account"); !strings.Contains(a.Body.String(), `name="password"`) {
			t.Errorf("from %s: the account page is %s, want the sign-in page", address, a.Body)
		}
	}
	e.Address = proxy
	if again := e.mustSignIn(); again.SessionID != through.SessionID {
		t.Errorf("through the proxy again: session %q, want %q", again.SessionID, through.SessionID)
	}
}

// TestHeaderAtOnce: twenty first sign-ins at once create one person.
func TestHeaderAtOnce(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	subjects := make([]string, 20)
	var wg sync.WaitGroup
	for i := range subjects {
		wg.Go(func() { subjects[i] = behind(h, "X-Remote-User", "ann").mustSignIn().Subject })
	}
	wg.Wait()
	for _, s := range subjects {
		if s != subjects[0] {
			t.Fatalf("subjects = %q, want one", subjects)
		}
	}
	if n := h.Events(); n["person.PersonCreatedEvent"] != 2 { // demo is the other one
		t.Errorf("%d persons created, want 2", n["person.PersonCreatedEvent"])
	}
}

func TestHeaderCannotTell(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge)
	h.Store.Down.Store(true)
	if result, w, err := behind(h, "X-Remote-User", "ann").ask(); !storage.IsFailure(err) || w.Body.Len() > 0 {
		t.Errorf("Authenticate without storage = %+v, %v, want the failure", result, err)
	}
}

func TestProviders(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, withEdge, func(c *identity.Config) { c.Providers[0].Disabled = true })
	e := behind(h, "X-Remote-User", "ann")
	e.wantRefused("disabled", "access_denied")
	// A person who was created by a provider has no password, so an empty one does not work either.
	on := identitytest.New(t, withEdge)
	behind(on, "X-Remote-User", "ann").mustSignIn()
	if a := on.Browser().Try("ann", ""); a.Code == http.StatusSeeOther {
		t.Error("signed in without a password")
	}
	if err := on.Person.SetPassword(t.Context(), "ann", secret.New("a password of Ann"), audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	on.Browser().SignIn("ann", "a password of Ann")
}
