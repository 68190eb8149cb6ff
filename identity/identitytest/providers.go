package identitytest

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Refusing returns the ticket of an answer by which the provider refuses.
func (e *Federated) Refusing() string {
	return e.Partner.Answer(nil, &idp.Rejection{Reason: "NTLM"})
}

// LongAgo returns the ticket of an answer with an old authentication.
func (e *Federated) LongAgo() string {
	return e.Partner.Answer(&idp.Identity{Subject: "ann", Level: 1, AuthTime: e.Clock.Now().Add(-2 * time.Hour)}, nil)
}

// CoupleByEmail lets the provider partner couple its people by their e-mail address.
func CoupleByEmail(c *identity.Config) {
	for i := range c.Providers {
		c.Providers[i].CoupleEmail = true
	}
}

// Known returns an identity with the e-mail address of the demo person.
func Known() *idp.Identity {
	id := Ann()
	id.Email, id.Details["email"] = Demo, []string{Demo}
	return id
}

// DemoID returns the ID of the demo person.
func (e *Federated) DemoID() string {
	e.T.Helper()
	p, err := e.Person.Person(e.T.Context(), Demo)
	if err != nil {
		e.T.Fatal(err)
	}
	return p.ID
}

// WantAsked asserts that an identity leads to the page that asks for the password of an account.
func (e *Federated) WantAsked(what string, b *Browser, id *idp.Identity) *Answer {
	e.T.Helper()
	a := e.Through(b, id)
	if a.Code != http.StatusOK || !strings.HasPrefix(a.URL, "/sign-in/connect") ||
		!strings.Contains(a.Body.String(), "Link your account") || b.IsSignedIn() {
		e.T.Errorf("%s: ended at %s with %d, want to be asked\n%s", what, a.URL, a.Code, a.Body)
	}
	return a
}

// NewLinking returns a harness in which carla, who has a PIN (level 2) if pin is true, and a stranger at partner meet.
func NewLinking(t *testing.T, pin bool) *Federated {
	t.Helper()
	u := settings.Defaults()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.PINEnabled, u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true, true
	u.EmailNotifications.IdentityCoupledToAccount = true
	e := NewFederated(t, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: "carla", Password: secret.New(DemoPassword), Email: "carla@example.com"})
	})
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Notices = new(notifytest.Notices)
	e.Start()
	if pin {
		b := e.Browser()
		b.Post(b.Get("/account/security"), "username", "carla", "password", DemoPassword)
		b.SetPIN("827164")
	}
	e.At("partner", "identity")
	return e
}

// Mallory is an identity that claims to be carla, with an address of its own.
func Mallory() *idp.Identity {
	return &idp.Identity{
		Issuer: PartnerIssuer, Subject: "666", Username: "carla", Email: "mallory@evil.example",
		EmailVerified: true, Level: 3,
	}
}

// Eve is a person of a directory.
func Eve() idp.Identity {
	return idp.Identity{
		Subject: "uuid-of-eve", Username: "eve", Email: "eve@example.com", Level: 1, Groups: []string{"staff"},
		Details: map[string][]string{"email": {"eve@example.com"}, "name": {"Eve Example"}, "username": {"eve"}},
	}
}

// AtOnce sends a form concurrently from n copies of the browser and returns how often each status was answered.
func (b *Browser) AtOnce(n int, form *Answer, fields func(i int) []string) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[int]int{}
	for i := range n {
		wg.Go(func() {
			c := &Browser{H: b.H, Cookies: maps.Clone(b.Cookies), Address: b.Address}
			a := c.Post(form, fields(i)...)
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wg.Wait()
	return got
}

// Registering is a harness where people who first sign in at partner must choose a username and a password.
type Registering struct {
	*Federated
	U *settings.Units
}

// NewRegistering starts a harness with providers whose people register.
func NewRegistering(t *testing.T, change ...func(*identity.Config)) *Registering {
	t.Helper()
	u := settings.Defaults()
	u.Attributes.Verification.EmailEnabled = true
	u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, settings.LoginMethod{
		ID: "partner", Type: settings.TypeOIDC, Enabled: true, ForceCreatingUsernameAndPasswordDuringSignUp: true,
	})
	x := &Registering{Federated: NewFederated(t, change...), U: &u}
	x.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	x.Notices = new(notifytest.Notices)
	x.Start()
	x.At("partner", "identity")
	return x
}

// Arrive signs in at partner and returns the page that creates an account.
func (x *Registering) Arrive(b *Browser, id *idp.Identity) *Answer {
	x.T.Helper()
	a := x.Through(b, id)
	if a.Code != http.StatusOK || !strings.HasPrefix(a.URL, "/sign-in/register?") || b.IsSignedIn() {
		x.T.Fatalf("ended at %s with %d, want to be asked\n%s", a.URL, a.Code, a.Body)
	}
	return a
}

// Persons returns how many persons were created besides demo.
func (x *Registering) Persons() int { return x.Events()["person.PersonCreatedEvent"] - 1 }

// Bobby returns an identity without an e-mail address.
func Bobby() *idp.Identity {
	return &idp.Identity{Issuer: PartnerIssuer, Subject: "bobby", Level: 2}
}

// Federated is a harness with the providers partner and corp, which tests control.
type Federated struct {
	*Harness
	Partner, Corp *idptest.Provider
}

// NewFederated starts a harness with the providers partner and corp.
func NewFederated(t testing.TB, change ...func(*identity.Config)) *Federated {
	t.Helper()
	e := &Federated{Partner: idptest.New(), Corp: idptest.New()}
	e.Harness = New(t, append([]func(*identity.Config){func(c *identity.Config) {
		c.Providers = []federation.Provider{
			{ID: "partner", Name: "Partner account", Source: e.Partner, Path: "oidc"}, {ID: "corp", Source: e.Corp, Path: "saml"},
		}
	}}, change...)...)
	t.Cleanup(e.CheckInvariants)
	return e
}

// Asking applies a change to every demand.
func (e *Federated) Asking(change func(*authn.Demand)) {
	plain := e.Demand
	e.Demand = func(r *http.Request) authn.Demand {
		d := plain(r)
		change(&d)
		return d
	}
}

// At demands a sign-in at one of these providers.
func (e *Federated) At(providers ...string) {
	e.Asking(func(d *authn.Demand) { d.Providers = providers })
}

// WithProvider returns a change of one of the configured providers.
func WithProvider(id string, change func(*federation.Provider)) func(*identity.Config) {
	return func(c *identity.Config) {
		for i := range c.Providers {
			if c.Providers[i].ID == id {
				change(&c.Providers[i])
			}
		}
	}
}

// Leave follows redirects until one leads away from the issuer, and returns its target.
func (b *Browser) Leave(target string) string {
	b.H.T.Helper()
	for range 10 {
		a := b.Do(http.MethodGet, target, "")
		if to := a.Header().Get("Refresh"); strings.HasPrefix(to, "0; url=") {
			target = strings.TrimPrefix(to, "0; url=")
			continue
		}
		target = a.Header().Get("Location")
		if target == "" {
			b.H.T.Fatalf("GET %s leads nowhere: %d\n%s", a.URL, a.Code, a.Body)
		}
		if !strings.HasPrefix(target, "/") {
			return target
		}
	}
	b.H.T.Fatal("leads in circles")
	return ""
}

// State returns the state parameter that was sent to the provider.
func State(t testing.TB, away string) string {
	t.Helper()
	u, err := url.Parse(away)
	if err != nil || u.Query().Get("state") == "" {
		t.Fatalf("the browser was sent to %q, want a state", away)
	}
	return u.Query().Get("state")
}

// Callback is the address at which the provider partner answers.
func Callback(flow, ticket string) string {
	return "/oidc/partner/callback?" + url.Values{"state": {flow}, "ticket": {ticket}}.Encode()
}

// Come delivers an answer of partner and follows the redirects.
func (b *Browser) Come(away, ticket string) *Answer {
	b.H.T.Helper()
	return b.Get(Callback(State(b.H.T, away), ticket))
}

// Through signs in at partner from /next and returns the last page.
func (e *Federated) Through(b *Browser, id *idp.Identity) *Answer {
	e.T.Helper()
	return b.Come(b.Leave("/next"), e.Partner.Answer(id, nil))
}

// MustEnter is through for a sign-in that must succeed, and returns the session.
func (e *Federated) MustEnter(b *Browser, id *idp.Identity) authn.Session {
	e.T.Helper()
	a := e.Through(b, id)
	if !strings.HasPrefix(a.Body.String(), "signed in as ") {
		e.T.Fatalf("sign-in at partner ended at %s: %d\n%s", a.URL, a.Code, a.Body)
	}
	si, err := e.SessionOf(b)
	if err != nil {
		e.T.Fatal(err)
	}
	return si
}

// PartnerIssuer is the issuer of the provider partner.
const PartnerIssuer = "https://partner.example"

// Ann is a person of the provider partner.
func Ann() *idp.Identity {
	return &idp.Identity{
		Issuer: PartnerIssuer, Subject: "4711", Email: "ann@partner.example", EmailVerified: true, Level: 2,
		Details: map[string][]string{"email": {"ann@partner.example"}, "firstName": {"Ann"}, "lastName": {"Partner"}},
	}
}
