package account_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// given stands in for authz: it holds the applications that one person has given access to.
type given struct {
	person    string
	list      []authn.Application
	withdrawn []string
	by        audit.Actor
}

func (g *given) Applications(_ storage.Tx, person string, _ time.Time) ([]authn.Application, error) {
	if person != g.person {
		return nil, nil
	}
	return g.list, nil
}

func (g *given) ApplicationName(_ storage.Tx, id string) (string, error) { return "The " + id, nil }

func (g *given) WithdrawConsent(_ context.Context, person, application string, by audit.Actor) (int, error) {
	g.withdrawn, g.by = append(g.withdrawn, person+" "+application), by
	return 1, nil
}

func TestAccountApplications(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	id := h.Details(identitytest.Demo).ID
	apps := &given{person: id, list: []authn.Application{{
		ID: "shop", Name: "The shop <b>", Owner: "shop.example.com", Since: h.Clock.Now(),
		Scopes: []authn.Scope{{Name: "openid"}, {Name: "orders.read", Description: "Read your orders"}},
	}}}
	h.Account.Tie(apps)
	page := b.Get("/account/applications")
	for _, want := range []string{"The shop &lt;b&gt;", "shop.example.com", "Read your orders", "21 November 2026", "No access right now"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page does not say %q:\n%s", want, page.Body)
		}
	}
	apps.list[0].Until = h.Clock.Now().Add(30 * 24 * time.Hour)
	if a := b.Get("/account/applications"); !strings.Contains(identitytest.Words(a), "Has access until 21 December 2026") {
		t.Errorf("the page does not say how long its tokens live:\n%s", a.Body)
	}
	wantDone(t, "an application that has nothing", b.Fill(page, "/account/applications", "application", "other"), "/account/applications")
	if len(apps.withdrawn) != 0 {
		t.Errorf("withdrawn: %q", apps.withdrawn)
	}
	wantDone(t, "the shop", b.Fill(page, "/account/applications", "application", "shop"), "/account/applications?done=withdrawn")
	if !slices.Equal(apps.withdrawn, []string{id + " shop"}) || apps.by.ID != id || apps.by.Origin.ClientIP != "203.0.113.7" {
		t.Errorf("withdrawn: %q by %+v", apps.withdrawn, apps.by)
	}
	h.CheckInvariants()
}

// ownAccounts returns a harness with two providers, and a browser in which a person with a password is signed in.
func ownAccounts(t *testing.T) (*identitytest.Federated, *settings.Units, *identitytest.Browser) {
	t.Helper()
	e := identitytest.NewFederated(t)
	u := settings.Defaults()
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Start()
	b := e.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	return e, &u, b
}

const accountsPath = "/account/security/accounts"

// couple asks on the account page to connect a provider, and comes back from that provider with this identity.
func couple(e *identitytest.Federated, b *identitytest.Browser, provider string, id *idp.Identity) *identitytest.Answer {
	e.T.Helper()
	a := b.Fill(b.Get(accountsPath), accountsPath, "do", "connect", "provider", provider)
	if !strings.HasPrefix(a.Header().Get("Location"), "/sign-in/provider?") {
		return a
	}
	p, path := e.Partner, "/oidc/partner/callback?"
	if provider == "corp" {
		p, path = e.Corp, "/saml/corp/acs?"
	}
	back := get2(b, path+url.Values{
		"state":  {identitytest.State(e.T, b.Leave(a.Header().Get("Location")))},
		"ticket": {p.Answer(id, nil)},
	}.Encode())
	to := strings.TrimPrefix(back.Header().Get("Refresh"), "0; url=")
	return get2(b, identitytest.Or(to, back.Header().Get("Location")))
}

func TestBindMultipleAccounts(t *testing.T) {
	t.Parallel()
	e, u, b := ownAccounts(t)
	at := func(subject string) *idp.Identity {
		return &idp.Identity{Issuer: "https://partner.example.com", Subject: subject, Level: 1}
	}
	wantDone(t, "the first one", couple(e, b, "partner", at("ann")), accountsPath+"?done=connected")
	page := b.Get(accountsPath)
	if strings.Contains(page.Body.String(), `value="corp"`) || !strings.Contains(page.Body.String(), "Partner account") {
		t.Errorf("the page where one account is enough:\n%s", page.Body)
	}
	wantDone(t, "a second one where one is enough", couple(e, b, "corp", at("ann")), accountsPath)
	u.Features.BindMultipleExternalAccountsWithOneCIMAccount = true
	wantDone(t, "a second one", couple(e, b, "corp", at("ann")), accountsPath+"?done=connected")
	e.At("partner")
	other := e.Browser()
	if s := e.MustEnter(other, at("ann")); s.Subject != e.Details(identitytest.Demo).ID {
		t.Errorf("the identity signs in %s", s.Subject)
	}
	wantDone(t, "the end of one", b.Fill(b.Get(accountsPath), accountsPath, "do", "disconnect", "provider", "partner"),
		accountsPath+"?done=disconnected")
	if other.IsSignedIn() || !b.IsSignedIn() {
		t.Errorf("signed in by the identity %t, by password %t; want false and true", other.IsSignedIn(), b.IsSignedIn())
	}
	if n := e.Events(); n["person.ExternalIdentityCoupledEvent"] != 2 || n["person.ExternalIdentityUncoupledEvent"] != 1 {
		t.Errorf("events = %v", n)
	}
}

// TestLastWayIn: a person without a password cannot disconnect the only account that signs them in.
func TestLastWayIn(t *testing.T) {
	t.Parallel()
	e, u, _ := ownAccounts(t)
	e.At("partner")
	b := e.Browser()
	e.MustEnter(b, &idp.Identity{Issuer: "https://partner.example.com", Subject: "eve", Username: "eve", Level: 1})
	if a := b.Fill(b.Get(accountsPath), accountsPath, "do", "disconnect", "provider", "partner"); a.Code != http.StatusConflict {
		t.Errorf("disconnecting the only way in = %d, want 409", a.Code)
	}
	wantDone(t, "a password", sendTo(b, "/account/security/password", "password", "Another horse 2"),
		"/account/security/password?done=password")
	u.LoginMethods.LoginMethods[0].Enabled = false
	if a := b.Fill(b.Get(accountsPath), accountsPath, "do", "disconnect", "provider", "partner"); a.Code != http.StatusConflict {
		t.Errorf("disconnecting while passwords sign nobody in = %d, want 409", a.Code)
	}
	u.LoginMethods.LoginMethods[0].Enabled = true
	wantDone(t, "disconnecting with a password", b.Fill(b.Get(accountsPath), accountsPath, "do", "disconnect", "provider", "partner"),
		accountsPath+"?done=disconnected")
}

func TestCouplingAttacks(t *testing.T) {
	t.Parallel()
	id := &idp.Identity{Issuer: "https://partner.example.com", Subject: "evil", Level: 1}
	t.Run("attack 268: by GET", func(t *testing.T) {
		t.Parallel()
		e, _, b := ownAccounts(t)
		get2(b, accountsPath+"?do=connect&provider=partner")
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
			t.Errorf("%d identities are coupled", n)
		}
	})
	t.Run("attack 268: a form of another site", func(t *testing.T) {
		t.Parallel()
		_, _, b := ownAccounts(t)
		form := url.Values{"csrf": {b.Get(accountsPath).CSRF()}, "do": {"connect"}, "provider": {"partner"}}
		b.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.Do(http.MethodPost, accountsPath, form.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("POST = %d, want 403", a.Code)
		}
	})
	t.Run("attack 268: an identity that is somebody else's", func(t *testing.T) {
		t.Parallel()
		e, _, b := ownAccounts(t)
		e.At("partner")
		other := e.Browser()
		e.MustEnter(other, id)
		a := couple(e, b, "partner", id)
		if a.Code != http.StatusConflict {
			t.Errorf("the answer = %d, want 409", a.Code)
		}
		if s := e.MustEnter(e.Browser(), id); s.Subject == e.Details(identitytest.Demo).ID {
			t.Error("the identity has changed hands")
		}
	})
	t.Run("attack 268: the end of the way in another browser, or after another person has signed in", func(t *testing.T) {
		t.Parallel()
		e, _, b := ownAccounts(t)
		e.Add(person.NewPerson{Username: "mallory@example.com", Password: secret.New("Mallory horse 3")})
		away := b.Leave(b.Fill(b.Get(accountsPath), accountsPath, "do", "connect", "provider", "partner").Header().Get("Location"))
		answer := get2(b, identitytest.Callback(identitytest.State(t, away), e.Partner.Answer(id, nil)))
		back := identitytest.Or(strings.TrimPrefix(answer.Header().Get("Refresh"), "0; url="), answer.Header().Get("Location"))
		stranger := e.Browser()
		stranger.SignIn("mallory@example.com", "Mallory horse 3")
		if a := get2(stranger, back); a.Code != http.StatusForbidden {
			t.Errorf("in another browser = %d, want 403", a.Code)
		}
		b.Post(b.Get("/sign-out"))
		b.SignIn("mallory@example.com", "Mallory horse 3")
		if a := get2(b, back); a.Code != http.StatusForbidden {
			t.Errorf("as another person = %d, want 403", a.Code)
		}
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
			t.Errorf("%d identities are coupled", n)
		}
	})
	t.Run("attack 266: coupling with a level too low", func(t *testing.T) {
		t.Parallel()
		e, u, b := ownAccounts(t)
		u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
		u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 3
		if a := b.Fill(b.Get("/account/profile"), accountsPath, "do", "connect", "provider",
			"partner"); strings.HasPrefix(a.Header().Get("Location"), "/sign-in/provider?") {
			t.Error("a session of level 1 is sent to the provider")
		}
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
			t.Errorf("%d identities are coupled", n)
		}
	})
}

func TestActivity(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	h.Account.Tie(&given{})
	h.Add(person.NewPerson{Username: "mallory@example.com", Password: secret.New("Mallory horse 3")})
	stranger := h.Browser()
	stranger.Address = "198.51.100.66:1"
	stranger.SignIn("mallory@example.com", "Mallory horse 3")
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Active, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	id := h.Details(identitytest.Demo).ID
	for i := range 30 {
		kind := audit.Type{Type: "person.SomethingNewEvent", Name: "Something New <b>"}
		if i%2 == 0 {
			kind = audit.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed"}
		}
		e, err := h.Deps.Events.New(kind, audit.Origin{ClientIP: "192.0.2.1", UserAgent: "admin's browser"})
		if err == nil {
			e.PersonID, e.Actor, e.AgentUser = id, "ops", "ops"
			err = h.Store.Update(t.Context(), func(tx storage.Tx) error { return h.Deps.Events.Append(tx, e) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	body := b.Get("/account/activity").Body.String()
	if n := strings.Count(body, "Something New &lt;b&gt;"); n != 15 {
		t.Errorf("%d unknown events are shown by their names, want 15:\n%s", n, body)
	}
	for _, never := range []string{"198.51.100.66", "mallory", "192.0.2.1", "Access Token Refreshed"} {
		if strings.Contains(body, never) {
			t.Errorf("the page tells %q", never)
		}
	}
	if !strings.Contains(body, "You signed in") || !strings.Contains(body, "203.0.113.7") || !strings.Contains(body, "The shop") {
		t.Errorf("the page:\n%s", body)
	}
	for range 30 {
		sendTo(b, "/account/devices", "session", "none")
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	}
	body = b.Get("/account/activity").Body.String()
	if strings.Count(body, "You signed in") != 20 || !strings.Contains(body, "/account/activity?from=20") {
		t.Errorf("the first page of many:\n%s", body)
	}
	for name, from := range map[string]string{
		"the second page": "20", "a negative one": "-1", "none": "x",
		"far too deep": "99999999999999999999",
	} {
		if a := b.Get("/account/activity?from=" + from); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "198.51.100.66") {
			t.Errorf("%s = %d", name, a.Code)
		}
	}
	h.CheckInvariants()
}

func TestDownload(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	h.Account.Tie(&given{person: h.Details(identitytest.Demo).ID, list: []authn.Application{{ID: "shop", Name: "The shop"}}})
	h.Add(person.NewPerson{Username: "mallory@example.com"})
	a := b.Get("/account/data/download")
	if a.Code != http.StatusOK || a.Header().Get("Cache-Control") != "no-store" ||
		!strings.HasPrefix(a.Header().Get("Content-Disposition"), "attachment;") ||
		a.Header().Get("Content-Type") != "application/json" || a.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("the download = %d, %v", a.Code, a.Header())
	}
	var got struct {
		Username     string
		Profile      person.Profile
		Sessions     []map[string]any
		Applications []map[string]any
		Events       []audit.Info
	}
	if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Username != identitytest.Demo || len(got.Sessions) != 1 || len(got.Applications) != 1 ||
		got.Applications[0]["name"] != "The shop" || len(got.Events) < 2 || got.Profile.Name.DisplayName != "Demo Person" {
		t.Errorf("download = %s", a.Body)
	}
	s, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Body.String(), "null") || !strings.Contains(a.Body.String(), `"scopes": []`) {
		t.Errorf("a list without entries is not an empty one: %s", a.Body)
	}
	if a := b.Do(http.MethodHead, "/account/data/download", ""); a.Code != http.StatusOK ||
		a.Header().Get("Content-Type") != "application/json" {
		t.Errorf("HEAD = %d, %v", a.Code, a.Header())
	}
	for what, never := range map[string]string{
		"the cookie": b.Session(), "the session": s.SessionID, "another person": "mallory",
		"a password": "$argon2",
	} {
		if strings.Contains(a.Body.String(), never) {
			t.Errorf("the download tells %s", what)
		}
	}
	if n := h.Events()["person.DataDownloadedEvent"]; n != 1 {
		t.Errorf("%d events, want 1: who asks by HEAD has downloaded nothing", n)
	}
	if a := get2(h.Browser(), "/account/data/download"); a.Code != http.StatusSeeOther {
		t.Errorf("without a session = %d", a.Code)
	}
	h.CheckInvariants()
}

func TestDeleteAccount(t *testing.T) {
	t.Parallel()
	const path = "/account/data/delete"
	h, b, u, m := dashboard(t)
	u.EmailNotifications.AccountRemoved = true
	other := h.Browser()
	other.SignIn(identitytest.Demo, identitytest.DemoPassword)
	before := h.Details(identitytest.Demo)
	apps := &given{person: before.ID, list: []authn.Application{{ID: "shop", Name: "The shop"}}}
	h.Account.Tie(apps)
	if a := sendTo(b, path, "password", "wrong"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("with a wrong password = %d", a.Code)
	}
	if a := sendTo(b, path, "username", identitytest.Demo); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("with the username of who has a password = %d", a.Code)
	}
	form := b.Get(path)
	if a := b.Fill(form, path, "password", identitytest.DemoPassword); a.Code != http.StatusOK ||
		!strings.Contains(a.Body.String(), "Your account has been deleted") {
		t.Fatalf("the end = %d\n%s", a.Code, a.Body)
	}
	identitytest.WantNotices(t, "the end", m, "account_removed "+identitytest.Demo)
	if !slices.Equal(apps.withdrawn, []string{before.ID + " shop"}) {
		t.Errorf("withdrawn: %q", apps.withdrawn)
	}
	t.Run("attack 269: what was left when the account was deleted", func(t *testing.T) {
		if b.IsSignedIn() || other.IsSignedIn() {
			t.Error("somebody is signed in still")
		}
		if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the password = %d", a.Code)
		}
		again := h.Add(person.NewPerson{Username: identitytest.Demo, Password: secret.New("Another horse 2")})
		if again.ID == before.ID || len(again.Groups) != 0 {
			t.Errorf("the person of the same name = %+v", again)
		}
		if other.IsSignedIn() || b.IsSignedIn() {
			t.Error("the sign-in of before is the new person's")
		}
		if a := other.Do(http.MethodGet, "/account/activity", ""); a.Code == http.StatusOK {
			t.Error("the browser of before sees the new person's account")
		}
	})
	if a := b.Fill(form, path, "password", identitytest.DemoPassword); a.Code == http.StatusOK {
		t.Errorf("the form once more = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestEditableMapping: details synchronised by a provider are read-only, unless their mapping is editable. A later
// sign-in does not overwrite an editable detail.
func TestEditableMapping(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		editable        []string
		given, family   string // after a form and another sign-in
		shownAsReadOnly int
	}{
		"nothing is editable":       {nil, "Ann", "Partner", 2},
		"the given name is":         {[]string{"firstName"}, "Mine", "Partner", 1},
		"both, by another spelling": {[]string{"given_name", "last_name"}, "Mine", "Own", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t,
				identitytest.WithProvider("partner", func(p *federation.Provider) { p.Synchronise, p.Editable = true, tt.editable }))
			e.At("partner")
			b := e.Browser()
			si := e.MustEnter(b, identitytest.Ann())
			if n := strings.Count(b.Get("/account/profile?edit=details").Body.String(), " readonly"); n != tt.shownAsReadOnly {
				t.Errorf("%d fields are read only, want %d", n, tt.shownAsReadOnly)
			}
			wantDone(t, "the form", sendTo(b, "/account/profile", "form", "details", "given_name", "Mine", "family_name", "Own"),
				"/account/profile?done=saved")
			e.Clock.Advance(time.Minute)
			e.MustEnter(e.Browser(), identitytest.Ann())
			p, err := e.Person.Person(t.Context(), si.Subject)
			if err != nil || p.GivenName != tt.given || p.FamilyName != tt.family {
				t.Errorf("Person = %+v, %v; want %s %s", p, err, tt.given, tt.family)
			}
		})
	}
}

// TestCouplingCancelled: a person who comes back from a provider with a refusal is not told that the accounts are
// connected.
func TestCouplingCancelled(t *testing.T) {
	t.Parallel()
	e, _, b := ownAccounts(t)
	away := b.Leave(b.Fill(b.Get(accountsPath), accountsPath, "do", "connect", "provider", "partner").Header().Get("Location"))
	a := b.Get(identitytest.Callback(identitytest.State(t, away), e.Partner.Answer(nil, &idp.Rejection{Reason: "access_denied"})))
	if a.Code != http.StatusForbidden || strings.Contains(a.Body.String(), "done=connected") {
		t.Errorf("the page after a refusal = %d\n%s", a.Code, a.Body)
	}
	if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
		t.Errorf("%d identities are coupled", n)
	}
}

// TestDownloadOfCalls: the download has the calls of the person that sites have recorded, and those of no one else.
func TestDownloadOfCalls(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	other := h.Add(person.NewPerson{Username: "mallory@example.com"})
	calls := calllog.New(h.Store, h.Clock.Now, zap.NewNop())
	calls.Recorder = func() *audit.Recorder { return h.Deps.Events }
	for _, c := range []calllog.Call{
		{PersonID: h.Details(identitytest.Demo).ID, Path: "/hr/plan"}, {PersonID: other.ID, Path: "/secret"}, {ClientID: "shop", Path: "/orders"},
	} {
		c.At, c.Site, c.Method, c.Verdict = h.Clock.Now(), "https://wiki.example.com", http.MethodGet, "allow"
		calls.Add(&c)
	}
	if err := calls.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for who, body := range map[string]string{
		"the person": b.Get("/account/data/download").Body.String(),
		"an administrator": func() string {
			raw, err := h.Account.Export(t.Context(), h.Details(identitytest.Demo).ID, audit.Actor{ID: "admin"})
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}(),
	} {
		if !strings.Contains(body, `"path": "/hr/plan"`) || strings.Contains(body, "/secret") || strings.Contains(body, "/orders") {
			t.Errorf("the file of %s = %s, want their call alone", who, body)
		}
	}
}
