package federation_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestCoupleByEmail(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
	e.At("partner")
	upper := identitytest.Known()
	upper.Email = "Demo@Example.COM"
	if si := e.MustEnter(e.Browser(), upper); si.Subject != e.DemoID() {
		t.Errorf("signed in as %s, want the person with the address", si.Subject)
	}
	if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 1 {
		t.Errorf("%d events of coupling, want 1", n)
	}
	// Once the identity is coupled, its address does not matter any more.
	moved := identitytest.Known()
	moved.Email, moved.EmailVerified = "", false
	if si := e.MustEnter(e.Browser(), moved); si.Subject != e.DemoID() {
		t.Errorf("signed in as %s, want the coupled person", si.Subject)
	}
	// A new owner of the address at the provider is another person, and no password would change that.
	next := identitytest.Known()
	next.Subject = "4712"
	wantLinked(e, "another identity with the address", e.Browser(), next)
}

// wantLinked asserts that an identity ends at the page that says why it signs no one in.
func wantLinked(e *identitytest.Federated, what string, b *identitytest.Browser, id *idp.Identity) {
	e.T.Helper()
	a := e.Through(b, id)
	if a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "linked to another sign-in") ||
		strings.Contains(a.Body.String(), "type=\"password\"") || b.IsSignedIn() {
		e.T.Errorf("%s: ended at %s with %d, want the page about the link\n%s", what, a.URL, a.Code, a.Body)
	}
}

func TestCoupleByEmailRefuses(t *testing.T) {
	t.Parallel()
	t.Run("an address that is not verified", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		id := identitytest.Known()
		id.EmailVerified = false
		if si := e.MustEnter(e.Browser(), id); si.Subject == e.DemoID() {
			t.Error("coupled with the person of an address that no one has verified")
		}
	})
	t.Run("a provider without couple", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		e.WantAsked("verified address of somebody", e.Browser(), identitytest.Known())
	})
	t.Run("a person whose own address is not verified", func(t *testing.T) {
		t.Parallel()
		no := false
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "claimer", Email: "ann@partner.example", EmailVerified: &no})
		})
		e.At("partner")
		si := e.MustEnter(e.Browser(), identitytest.Ann())
		if p, err := e.Person.Person(t.Context(), "claimer"); err != nil || p.ID == si.Subject {
			t.Errorf("coupled with %+v, %v, who has never shown that the address is theirs", p, err)
		}
	})
	t.Run("two persons with one address", func(t *testing.T) {
		t.Parallel()
		yes := true
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "second", Email: identitytest.Demo, EmailVerified: &yes})
		})
		e.At("partner")
		e.WantAsked("address of two", e.Browser(), identitytest.Known())
	})
	t.Run("a person who is blocked", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		if err := e.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		b := e.Browser()
		if a := e.Through(b, identitytest.Known()); a.Code != http.StatusForbidden || b.IsSignedIn() {
			t.Errorf("blocked: %d", a.Code)
		}
	})
}

func TestConnect(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	b := e.Browser()
	page := e.WantAsked("verified address of somebody", b, identitytest.Known())
	for name, fields := range map[string][]string{
		"problem.mismatch": {"username", identitytest.Demo, "password", "wrong password"},
		"nobody":           {"username", "nobody", "password", identitytest.DemoPassword},
		"problem.password": {"username", identitytest.Demo},
		"problem.username": {"password", identitytest.DemoPassword},
	} {
		if a := b.Post(page, fields...); a.Code != http.StatusUnprocessableEntity || b.IsSignedIn() {
			t.Errorf("%s: %d, want 422", name, a.Code)
		}
	}
	a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("connect: %d\n%s", a.Code, a.Body)
	}
	si, err := e.SessionOf(b)
	if err != nil || si.Subject != e.DemoID() || si.Provider != "partner" || si.Level != 1 { // not the provider's 2: a password was shown here
		t.Errorf("session = %+v, %v, want demo's by partner", si, err)
	}
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after connecting: %d", a.Code)
	}
	if si := e.MustEnter(e.Browser(), identitytest.Known()); si.Subject != e.DemoID() {
		t.Errorf("the next time signed in as %s, want demo", si.Subject)
	}
	// The form cannot be used again, nor can the page behind it.
	if a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusBadRequest {
		t.Errorf("form again: %d, want 400", a.Code)
	}
	// Another identity at that provider is not accepted as the same person.
	other := identitytest.Known()
	other.Subject = "4712"
	c := e.Browser()
	if a := c.Post(e.WantAsked("second identity", c, other), "username", identitytest.Demo, "password",
		identitytest.DemoPassword); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "already linked") ||
		c.IsSignedIn() {
		t.Errorf("second identity of one provider: %d\n%s", a.Code, a.Body)
	}
}

// TestConnectIsThrottled: the page that connects accounts counts wrong passwords together with the sign-in page.
func TestConnectIsThrottled(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	b := e.Browser()
	page := e.WantAsked("verified address of somebody", b, identitytest.Known())
	code := 0
	for range 6 {
		code = b.Post(page, "username", identitytest.Demo, "password", "wrong password").Code
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("sixth try: %d, want 429", code)
	}
	wait := new(authn.ThrottledError)
	if _, err := e.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword,
		audit.Origin{ClientIP: "203.0.113.7"}); !errors.As(err, &wait) {
		t.Errorf("the same person elsewhere: %v, want a wait: the tries of the page were not counted", err)
	}
}

func TestUsernameTaken(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, func(c *identity.Config) { c.Persons = append(c.Persons, person.NewPerson{Username: "ann"}) })
	e.At("partner")
	id := identitytest.Ann()
	id.Username = "Ann"
	e.WantAsked("username of somebody", e.Browser(), id)
	odd := identitytest.Ann()
	odd.Subject, odd.Email, odd.EmailVerified, odd.Details = "no name at all", "", false, nil
	si := e.MustEnter(e.Browser(), odd)
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || !strings.HasPrefix(p.Username, "partner-") {
		t.Errorf("Person = %+v, %v, want a username of ours", p, err)
	}
}

// TestRemovedComesBack: an identity whose person was removed gets a new person at the next sign-in, not the old one.
func TestRemovedComesBack(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	first := e.MustEnter(e.Browser(), identitytest.Ann())
	if err := e.Person.SetState(t.Context(), first.Subject, person.Removed, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	if second := e.MustEnter(e.Browser(), identitytest.Ann()); second.Subject == first.Subject {
		t.Error("a removed person has come back")
	}
}

// TestOneNewcomer: concurrent answers for one new identity create only one person.
func TestOneNewcomer(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	var wg sync.WaitGroup
	var mu sync.Mutex // guards subjects
	subjects := map[string]bool{}
	ticket := e.Partner.Answer(identitytest.Ann(), nil)
	for range 20 {
		b := e.Browser()
		away := b.Leave("/next")
		wg.Go(func() {
			a := b.Come(away, ticket)
			mu.Lock()
			defer mu.Unlock()
			subjects[a.Body.String()] = true
		})
	}
	wg.Wait()
	if len(subjects) != 1 {
		t.Errorf("signed in as %d: %v, want one person", len(subjects), subjects)
	}
}

func TestSynchronise(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Synchronise = true }))
	e.At("partner")
	si := e.MustEnter(e.Browser(), identitytest.Ann())
	married := identitytest.Ann()
	married.Email, married.Details = "ann.other@partner.example",
		map[string][]string{"lastName": {"Other"}, "email": {"ann.other@partner.example"}}
	e.Clock.Advance(time.Minute)
	e.MustEnter(e.Browser(), married)
	p, err := e.Person.Person(t.Context(), si.Subject)
	if err != nil || p.FamilyName != "Other" || p.GivenName != "Ann" || p.Email != "ann.other@partner.example" || !p.EmailVerified ||
		!strings.HasPrefix(p.Username, "partner-") {
		t.Errorf("Person = %+v, %v, want what the provider says now", p, err)
	}
	stranger := identitytest.Ann()
	stranger.Email, stranger.EmailVerified, stranger.Details = identitytest.Demo, false, map[string][]string{"email": {identitytest.Demo}}
	e.MustEnter(e.Browser(), stranger)
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || p.Email == identitytest.Demo {
		t.Errorf("Person = %+v, %v, want no address that nobody vouches for", p, err)
	}
}

// TestAutoEmailVerification: with VerifiesEmail, addresses from the provider count as verified even if the provider
// does not say so.
func TestAutoEmailVerification(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		e := identitytest.NewFederated(t, identitytest.WithProvider("partner", func(p *federation.Provider) { p.VerifiesEmail = on }))
		e.At("partner")
		id := identitytest.Ann()
		id.EmailVerified = false
		si := e.MustEnter(e.Browser(), id)
		if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || p.Email != "ann@partner.example" || p.EmailVerified != on {
			t.Errorf("switched %t: %+v, %v", on, p, err)
		}
	}
}

// TestClaimedAddress: no one can vouch for addresses that administrators elsewhere choose.
func TestClaimedAddress(t *testing.T) {
	t.Parallel()
	t.Run("attack 582: an address that a tenant claims, where the operator takes those of the provider for verified", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t,
			identitytest.WithProvider("partner", func(p *federation.Provider) { p.VerifiesEmail, p.CoupleEmail = true, true }))
		e.At("partner")
		known := e.MustEnter(e.Browser(), identitytest.Ann())
		id := identitytest.Ann()
		id.Subject, id.EmailVerified, id.EmailClaimed = "of a hostile tenant", false, true
		si := e.MustEnter(e.Browser(), id)
		if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || si.Subject == known.Subject || p.EmailVerified {
			t.Errorf("%+v, %v, want another person than %s, without a verified address", p, err, known.Subject)
		}
	})
}

func TestCouple(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: "second", Password: secret.New(identitytest.DemoPassword)})
	})
	e.At("partner")
	couple := func(person, provider, issuer, subject string) (err error) {
		p, findErr := e.Person.Person(t.Context(), person)
		if findErr != nil {
			t.Fatal(findErr)
		}
		return e.Store.Update(t.Context(), func(tx storage.Tx) error {
			return e.Federation.Couple(tx, p.ID, provider, issuer, subject, e.Clock.Now())
		})
	}
	for _, tc := range []struct {
		person, provider, issuer, subject string
		want                              error
	}{
		{identitytest.Demo, "partner", "", "4711", nil},
		{identitytest.Demo, "partner", "", "4711", nil},
		{"second", "partner", "", "4711", person.ErrCoupled},
		{"second", "partner", "https://partner.example", "4711", person.ErrCoupled},
		{identitytest.Demo, "partner", "", "4712", person.ErrCoupledOther},
		{identitytest.Demo, "corp", "https://corp.example", "4711", nil},
		{"second", "corp", "", "4711", person.ErrCoupled},
		{identitytest.Demo, "corp", "", "4711", nil},
		{identitytest.Demo, "identity", "", "4711", federation.ErrNoProvider},
		{identitytest.Demo, "partner", "", "", federation.ErrNoProvider},
	} {
		if err := couple(tc.person, tc.provider, tc.issuer, tc.subject); err != tc.want { //nolint:errorlint // as it is
			t.Errorf("Couple(%s, %s, %s, %s) = %v, want %v", tc.person, tc.provider, tc.issuer, tc.subject, err, tc.want)
		}
	}
	// A coupling without an issuer matches that subject under any issuer of the provider.
	if si := e.MustEnter(e.Browser(), identitytest.Ann()); si.Subject != e.DemoID() {
		t.Errorf("signed in as %s, want the coupled person", si.Subject)
	}
}

// TestConnectNeedsNoClient: a sign-in that no application asked for can be connected too.
func TestConnectNeedsNoClient(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	e.Asking(func(d *authn.Demand) { d.Client = authn.Client{} })
	b := e.Browser()
	page := e.WantAsked("verified address of somebody", b, identitytest.Known())
	if a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("connect: %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
}

// TestAutoActivation: with Activates, a sign-in at a provider activates a person who awaits activation. It never
// activates a person that an administrator has blocked or made inactive.
func TestAutoActivation(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"EMAIL", "EXTERNALLY_DELIVERED_CODE"} {
		for _, on := range []bool{false, true} {
			e := identitytest.NewFederated(t, identitytest.CoupleByEmail,
				identitytest.WithProvider("partner", func(p *federation.Provider) { p.Activates = on }))
			u := settings.Defaults()
			u.Features.PersonActivation.Enabled, u.Features.PersonActivation.Type = true, kind
			e.Units, e.Notices = func(storage.Tx) (*settings.Units, error) { return &u, nil }, &notifytest.Notices{}
			e.Start()
			e.At("partner")
			verified := true
			p := e.Add(person.NewPerson{Username: "ann", Email: identitytest.Ann().Email, EmailVerified: &verified})
			want := person.Inactive
			if on {
				want = person.Active
			}
			b := e.Browser()
			if a := e.Through(b, identitytest.Ann()); e.StateOf(p.ID) != want || b.IsSignedIn() != on ||
				(e.Events()["person.PersonActivatedEvent"] == 1) != on {
				t.Errorf("%s, switched %t: the person is %s, signed in %t at %s, events %v", kind, on, e.StateOf(p.ID),
					b.IsSignedIn(), a.URL, e.Events())
			}
			for _, state := range []person.State{person.Inactive, person.Blocked} {
				if err := e.Person.SetState(t.Context(), p.ID, state, identitytest.Ops); err != nil {
					t.Fatal(err)
				}
				if a := e.Through(e.Browser(), identitytest.Ann()); a.Code != http.StatusForbidden || e.StateOf(p.ID) != state {
					t.Errorf("%s, switched %t: of somebody made %s by an administrator: %d, %s", kind, on, state, a.Code, e.StateOf(p.ID))
				}
			}
		}
	}
}
