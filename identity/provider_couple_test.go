package identity_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func couples(c *identity.Config) {
	for i := range c.Providers {
		c.Providers[i].CoupleEmail = true
	}
}

// known returns an identity with the e-mail address of the demo person.
func known() *idp.Identity {
	id := ann()
	id.Email, id.Details["email"] = demo, []string{demo}
	return id
}

func (e *elsewhere) demoID() string {
	e.t.Helper()
	p, err := e.Person.Person(e.t.Context(), demo)
	if err != nil {
		e.t.Fatal(err)
	}
	return p.ID
}

// wantAsked asserts that an identity leads to the page that asks for the password of an account.
func (e *elsewhere) wantAsked(what string, b *browser, id *idp.Identity) *answer {
	e.t.Helper()
	a := e.through(b, id)
	if a.Code != http.StatusOK || !strings.HasPrefix(a.url, "/sign-in/connect") || !strings.Contains(a.Body.String(), "Link your account") || b.isSignedIn() {
		e.t.Errorf("%s: ended at %s with %d, want to be asked\n%s", what, a.url, a.Code, a.Body)
	}
	return a
}

func TestCoupleByEmail(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, couples)
	e.at("partner")
	upper := known()
	upper.Email = "Demo@Example.COM"
	if si := e.mustEnter(e.browser(), upper); si.Subject != e.demoID() {
		t.Errorf("signed in as %s, want the person with the address", si.Subject)
	}
	if n := e.events()["person.ExternalIdentityCoupledEvent"]; n != 1 {
		t.Errorf("%d events of coupling, want 1", n)
	}
	// Once the identity is coupled, its address does not matter any more.
	moved := known()
	moved.Email, moved.EmailVerified = "", false
	if si := e.mustEnter(e.browser(), moved); si.Subject != e.demoID() {
		t.Errorf("signed in as %s, want the coupled person", si.Subject)
	}
	// A new owner of the address at the provider is another person, and no password would change that.
	next := known()
	next.Subject = "4712"
	e.wantLinked("another identity with the address", e.browser(), next)
}

// wantLinked asserts that an identity ends at the page that says why it signs nobody in.
func (e *elsewhere) wantLinked(what string, b *browser, id *idp.Identity) {
	e.t.Helper()
	a := e.through(b, id)
	if a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "linked to another sign-in") || strings.Contains(a.Body.String(), "type=\"password\"") || b.isSignedIn() {
		e.t.Errorf("%s: ended at %s with %d, want the page about the link\n%s", what, a.url, a.Code, a.Body)
	}
}

func TestCoupleByEmailRefuses(t *testing.T) {
	t.Parallel()
	t.Run("an address that is not verified", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t, couples)
		e.at("partner")
		id := known()
		id.EmailVerified = false
		if si := e.mustEnter(e.browser(), id); si.Subject == e.demoID() {
			t.Error("coupled with the person of an address that nobody has verified")
		}
	})
	t.Run("a provider without couple", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t)
		e.at("partner")
		e.wantAsked("verified address of somebody", e.browser(), known())
	})
	t.Run("a person whose own address is not verified", func(t *testing.T) {
		t.Parallel()
		no := false
		e := newElsewhere(t, couples, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "claimer", Email: "ann@partner.example", EmailVerified: &no})
		})
		e.at("partner")
		si := e.mustEnter(e.browser(), ann())
		if p, err := e.Person.Person(t.Context(), "claimer"); err != nil || p.ID == si.Subject {
			t.Errorf("coupled with %+v, %v, who has never shown that the address is theirs", p, err)
		}
	})
	t.Run("two persons with one address", func(t *testing.T) {
		t.Parallel()
		yes := true
		e := newElsewhere(t, couples, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "second", Email: demo, EmailVerified: &yes})
		})
		e.at("partner")
		e.wantAsked("address of two", e.browser(), known())
	})
	t.Run("a person who is blocked", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t, couples)
		e.at("partner")
		if err := e.Person.SetState(t.Context(), demo, person.Blocked, event.Actor{}); err != nil {
			t.Fatal(err)
		}
		b := e.browser()
		if a := e.through(b, known()); a.Code != http.StatusForbidden || b.isSignedIn() {
			t.Errorf("blocked: %d", a.Code)
		}
	})
}

func TestConnect(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	b := e.browser()
	page := e.wantAsked("verified address of somebody", b, known())
	for name, fields := range map[string][]string{
		"problem.mismatch": {"username", demo, "password", "wrong password"},
		"nobody":           {"username", "nobody", "password", demoPassword},
		"problem.password": {"username", demo},
		"problem.username": {"password", demoPassword},
	} {
		if a := b.post(page, fields...); a.Code != http.StatusUnprocessableEntity || b.isSignedIn() {
			t.Errorf("%s: %d, want 422", name, a.Code)
		}
	}
	a := b.post(page, "username", demo, "password", demoPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("connect: %d\n%s", a.Code, a.Body)
	}
	si, err := e.session(b)
	if err != nil || si.Subject != e.demoID() || si.Provider != "partner" || si.Level != 1 { // not the provider's 2: a password was shown here
		t.Errorf("session = %+v, %v, want demo's by partner", si, err)
	}
	if a := b.get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after connecting: %d", a.Code)
	}
	if si := e.mustEnter(e.browser(), known()); si.Subject != e.demoID() {
		t.Errorf("the next time signed in as %s, want demo", si.Subject)
	}
	// The form cannot be used again, nor can the page behind it.
	if a := b.post(page, "username", demo, "password", demoPassword); a.Code != http.StatusBadRequest {
		t.Errorf("form again: %d, want 400", a.Code)
	}
	// Another identity at that provider is not accepted as the same person.
	other := known()
	other.Subject = "4712"
	c := e.browser()
	if a := c.post(e.wantAsked("second identity", c, other), "username", demo, "password", demoPassword); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "already linked") || c.isSignedIn() {
		t.Errorf("second identity of one provider: %d\n%s", a.Code, a.Body)
	}
}

// TestConnectIsThrottled: the page that connects accounts counts wrong passwords together with the sign-in page.
func TestConnectIsThrottled(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	b := e.browser()
	page := e.wantAsked("verified address of somebody", b, known())
	code := 0
	for range 6 {
		code = b.post(page, "username", demo, "password", "wrong password").Code
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("sixth try: %d, want 429", code)
	}
	wait := new(login.ThrottledError)
	if _, err := e.CheckPassword(t.Context(), "shop", demo, demoPassword, event.Origin{ClientIP: "203.0.113.7"}); !errors.As(err, &wait) {
		t.Errorf("the same person elsewhere: %v, want a wait: the tries of the page were not counted", err)
	}
}

func TestUsernameTaken(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, func(c *identity.Config) { c.Persons = append(c.Persons, person.NewPerson{Username: "ann"}) })
	e.at("partner")
	id := ann()
	id.Username = "Ann"
	e.wantAsked("username of somebody", e.browser(), id)
	odd := ann()
	odd.Subject, odd.Email, odd.EmailVerified, odd.Details = "no name at all", "", false, nil
	si := e.mustEnter(e.browser(), odd)
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || !strings.HasPrefix(p.Username, "partner-") {
		t.Errorf("Person = %+v, %v, want a username of ours", p, err)
	}
}

// TestRemovedComesBack: an identity whose person was removed gets a new person at the next sign-in, not the old one.
func TestRemovedComesBack(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	first := e.mustEnter(e.browser(), ann())
	if err := e.Person.SetState(t.Context(), first.Subject, person.Removed, event.Actor{}); err != nil {
		t.Fatal(err)
	}
	if second := e.mustEnter(e.browser(), ann()); second.Subject == first.Subject {
		t.Error("a removed person has come back")
	}
}

// TestOneNewcomer: concurrent answers for one new identity create only one person.
func TestOneNewcomer(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	var wg sync.WaitGroup
	var mu sync.Mutex // guards subjects
	subjects := map[string]bool{}
	ticket := e.partner.Answer(ann(), nil)
	for range 20 {
		b := e.browser()
		away := b.leave("/next")
		wg.Go(func() {
			a := b.come(away, ticket)
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
	e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.Synchronise = true }))
	e.at("partner")
	si := e.mustEnter(e.browser(), ann())
	married := ann()
	married.Email, married.Details = "ann.other@partner.example", map[string][]string{"lastName": {"Other"}, "email": {"ann.other@partner.example"}}
	e.clock.Advance(time.Minute)
	e.mustEnter(e.browser(), married)
	p, err := e.Person.Person(t.Context(), si.Subject)
	if err != nil || p.FamilyName != "Other" || p.GivenName != "Ann" || p.Email != "ann.other@partner.example" || !p.EmailVerified || !strings.HasPrefix(p.Username, "partner-") {
		t.Errorf("Person = %+v, %v, want what the provider says now", p, err)
	}
	stranger := ann()
	stranger.Email, stranger.EmailVerified, stranger.Details = demo, false, map[string][]string{"email": {demo}}
	e.mustEnter(e.browser(), stranger)
	if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || p.Email == demo {
		t.Errorf("Person = %+v, %v, want no address that nobody vouches for", p, err)
	}
}

// TestAutoEmailVerification: with VerifiesEmail, addresses from the provider count as verified even if the provider
// does not say so.
func TestAutoEmailVerification(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.VerifiesEmail = on }))
		e.at("partner")
		id := ann()
		id.EmailVerified = false
		si := e.mustEnter(e.browser(), id)
		if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || p.Email != "ann@partner.example" || p.EmailVerified != on {
			t.Errorf("switched %t: %+v, %v", on, p, err)
		}
	}
}

// TestClaimedAddress: nobody can vouch for addresses that administrators elsewhere choose.
func TestClaimedAddress(t *testing.T) {
	t.Parallel()
	t.Run("attack 582: an address that a tenant claims, where the operator takes those of the provider for verified", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t, provider("partner", func(p *federation.Provider) { p.VerifiesEmail, p.CoupleEmail = true, true }))
		e.at("partner")
		known := e.mustEnter(e.browser(), ann())
		id := ann()
		id.Subject, id.EmailVerified, id.EmailClaimed = "of a hostile tenant", false, true
		si := e.mustEnter(e.browser(), id)
		if p, err := e.Person.Person(t.Context(), si.Subject); err != nil || si.Subject == known.Subject || p.EmailVerified {
			t.Errorf("%+v, %v, want another person than %s, without a verified address", p, err, known.Subject)
		}
	})
}

func TestCouple(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: "second", Password: secret.New(demoPassword)})
	})
	e.at("partner")
	couple := func(person, provider, issuer, subject string) (err error) {
		p, findErr := e.Person.Person(t.Context(), person)
		if findErr != nil {
			t.Fatal(findErr)
		}
		return e.store.Update(t.Context(), func(tx storage.Tx) error {
			return e.Federation.Couple(tx, p.ID, provider, issuer, subject, e.clock.Now())
		})
	}
	for _, tc := range []struct {
		person, provider, issuer, subject string
		want                              error
	}{
		{demo, "partner", "", "4711", nil},
		{demo, "partner", "", "4711", nil},
		{"second", "partner", "", "4711", person.ErrCoupled},
		{"second", "partner", "https://partner.example", "4711", person.ErrCoupled},
		{demo, "partner", "", "4712", person.ErrCoupledOther},
		{demo, "corp", "https://corp.example", "4711", nil},
		{demo, "identity", "", "4711", federation.ErrNoProvider},
		{demo, "partner", "", "", federation.ErrNoProvider},
	} {
		if err := couple(tc.person, tc.provider, tc.issuer, tc.subject); err != tc.want { //nolint:errorlint // as it is
			t.Errorf("Couple(%s, %s, %s, %s) = %v, want %v", tc.person, tc.provider, tc.issuer, tc.subject, err, tc.want)
		}
	}
	// A coupling without an issuer matches that subject under any issuer of the provider.
	if si := e.mustEnter(e.browser(), ann()); si.Subject != e.demoID() {
		t.Errorf("signed in as %s, want the coupled person", si.Subject)
	}
}

// TestConnectNeedsNoClient: a sign-in that no application asked for can be connected too.
func TestConnectNeedsNoClient(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.at("partner")
	e.asking(func(d *login.Demand) { d.Client = login.Client{} })
	b := e.browser()
	page := e.wantAsked("verified address of somebody", b, known())
	if a := b.post(page, "username", demo, "password", demoPassword); a.Header().Get("Location") != "/next" {
		t.Errorf("connect: %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
}

// TestAutoActivation: with Activates, a sign-in at a provider activates a person who awaits activation. It never
// activates a person whom an administrator has blocked or made inactive.
func TestAutoActivation(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"EMAIL", "EXTERNALLY_DELIVERED_CODE"} {
		for _, on := range []bool{false, true} {
			e := newElsewhere(t, couples, provider("partner", func(p *federation.Provider) { p.Activates = on }))
			u := config.Defaults()
			u.Features.PersonActivation.Enabled, u.Features.PersonActivation.Type = true, kind
			e.units, e.notices = func(storage.Tx) (*config.Units, error) { return &u, nil }, &notifytest.Notices{}
			e.start()
			e.at("partner")
			verified := true
			p := e.add(person.NewPerson{Username: "ann", Email: ann().Email, EmailVerified: &verified})
			want := person.Inactive
			if on {
				want = person.Active
			}
			b := e.browser()
			if a := e.through(b, ann()); e.stateOf(p.ID) != want || b.isSignedIn() != on || (e.events()["person.PersonActivatedEvent"] == 1) != on {
				t.Errorf("%s, switched %t: the person is %s, signed in %t at %s, events %v", kind, on, e.stateOf(p.ID), b.isSignedIn(), a.url, e.events())
			}
			for _, state := range []person.State{person.Inactive, person.Blocked} {
				if err := e.Person.SetState(t.Context(), p.ID, state, ops); err != nil {
					t.Fatal(err)
				}
				if a := e.through(e.browser(), ann()); a.Code != http.StatusForbidden || e.stateOf(p.ID) != state {
					t.Errorf("%s, switched %t: of somebody made %s by an administrator: %d, %s", kind, on, state, a.Code, e.stateOf(p.ID))
				}
			}
		}
	}
}
