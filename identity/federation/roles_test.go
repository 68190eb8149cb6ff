package federation_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// administrators makes the demo person one who has a role in the console.
func administrators(c *identity.Config) {
	c.HasRole = func(_ string, groups []string) bool { return slices.Contains(groups, "editors") }
}

// ofTheSettings makes partner a provider of the settings.
func ofTheSettings(c *identity.Config) {
	identitytest.WithProvider("partner", func(p *federation.Provider) { p.Managed = true })(c)
}

// wantNoRole asserts that an identity ends at the page that says that people with a role cannot sign in by its
// provider.
func wantNoRole(e *identitytest.Federated, what string, b *identitytest.Browser, id *idp.Identity) {
	e.T.Helper()
	a := e.Through(b, id)
	if a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "hasn’t been allowed for people with a role") || b.IsSignedIn() {
		e.T.Errorf("%s: ended at %s with %d, want the page about roles\n%s", what, a.URL, a.Code, a.Body)
	}
}

// TestAddressOfAnAdministrator: a provider that states the address of an administrator does not open their account,
// wherever it is configured and whatever else it states.
func TestAddressOfAnAdministrator(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]func(*identity.Config){
		"a provider of the Caddyfile": {administrators, identitytest.CoupleByEmail},
		"a provider of the settings":  {administrators, identitytest.CoupleByEmail, ofTheSettings},
		"one that vouches for anything": {
			administrators, identitytest.CoupleByEmail, ofTheSettings,
			identitytest.WithProvider("partner", func(p *federation.Provider) { p.VerifiesEmail, p.Administrators = true, true }),
		},
		"one that people move from": {
			administrators, identitytest.CoupleByEmail,
			identitytest.WithProvider("partner", func(p *federation.Provider) { p.Moving = federation.Moving{Ask: true, Trust: true} }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, change...)
			e.At("partner")
			id := identitytest.Known()
			id.Level = 4
			id.Details["person_identifier"] = []string{e.DemoID()}
			b := e.Browser()
			page := e.WantAsked("the address of an administrator", b, id)
			// The password alone is not enough either.
			a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword)
			if a.Code != http.StatusSeeOther {
				t.Fatalf("the password = %d\n%s", a.Code, a.Body)
			}
			if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
				t.Errorf("%d events of linking after the password, want none", n)
			}
		})
	}
}

// TestProviderOfTheSettingsAndRoles: what is linked already signs in people with a role only where an owner has allowed
// that, and others in any case.
func TestProviderOfTheSettingsAndRoles(t *testing.T) {
	t.Parallel()
	link := func(e *identitytest.Federated) {
		err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
			return e.Person.CoupleProved(tx, "partner", identitytest.Known(), e.DemoID(), e.Clock.Now())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := identitytest.NewFederated(t, administrators, ofTheSettings)
	refused.At("partner")
	link(refused)
	wantNoRole(refused, "a linked identity", refused.Browser(), identitytest.Known())

	for name, change := range map[string][]func(*identity.Config){
		"an owner has allowed it": {
			administrators, ofTheSettings,
			identitytest.WithProvider("partner", func(p *federation.Provider) { p.Administrators = true }),
		},
		"a provider of the Caddyfile":   {administrators},
		"a person who has no role here": {ofTheSettings},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, change...)
			e.At("partner")
			link(e)
			if si := e.MustEnter(e.Browser(), identitytest.Known()); si.Subject != e.DemoID() {
				t.Errorf("signed in as %s, want the linked person", si.Subject)
			}
		})
	}
}

// TestAssertionAboutAnAdministrator: an identity assertion names a person with a role only where their provider signs
// them in too.
func TestAssertionAboutAnAdministrator(t *testing.T) {
	t.Parallel()
	allowed := identitytest.WithProvider("partner", func(p *federation.Provider) { p.Administrators = true })
	for name, tt := range map[string]struct {
		change []func(*identity.Config)
		want   error
	}{
		"attack 9931: a provider of the settings": {[]func(*identity.Config){administrators, ofTheSettings}, storage.ErrNotFound},
		"an owner has allowed it":                 {[]func(*identity.Config){administrators, ofTheSettings, allowed}, nil},
		"a provider of the Caddyfile":             {[]func(*identity.Config){administrators}, nil},
		"a person who has no role":                {[]func(*identity.Config){ofTheSettings}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, tt.change...)
			id := identitytest.Known()
			var got string
			var vouched bool
			err := e.Store.Update(t.Context(), func(tx storage.Tx) (err error) {
				if err := e.Person.CoupleProved(tx, "partner", id, e.DemoID(), e.Clock.Now()); err != nil {
					return err
				}
				got, vouched, err = e.Subjects().Linked(tx, "partner", id.Issuer, id.Subject)
				if errors.Is(err, tt.want) {
					err = nil
				}
				return err
			})
			if err != nil {
				t.Fatalf("Linked = %v, want %v", err, tt.want)
			}
			if want := map[bool]string{true: e.DemoID()}[tt.want == nil]; got != want {
				t.Errorf("Linked = %q, want %q", got, want)
			}
			if want := name == "a person who has no role"; vouched != want {
				t.Errorf("Linked says vouched %v, want %v", vouched, want)
			}
		})
	}
}

// TestLinkForAnAdministrator: an action token, which an API client makes, links no one with a role.
func TestLinkForAnAdministrator(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, administrators)
	err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
		return e.Federation.Couple(tx, e.DemoID(), "partner", identitytest.PartnerIssuer, "4711", e.Clock.Now())
	})
	if !errors.Is(err, person.ErrHasRole) {
		t.Errorf("Couple = %v, want ErrHasRole", err)
	}
}

// helpdesk is an administrator below owner.
var helpdesk = audit.Actor{ID: "helpdesk", Name: "helpdesk", BelowOwner: true}

// setEmail changes the primary address of a person as the console does.
func setEmail(h *identitytest.Harness, username, address string, by audit.Actor) error {
	_, err := h.Person.UpdatePerson(h.T.Context(), h.IDOf(username), person.Edit{By: by, Verified: true},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Verified: true, Value: address}}
			return nil
		})
	return err
}

// TestAddressOfSomebodyElse: an administrator below owner gives no one an address that is verified for another person.
func TestAddressOfSomebodyElse(t *testing.T) {
	t.Parallel()
	yes := true
	h := identitytest.New(t, func(c *identity.Config) {
		c.Persons = append(c.Persons,
			person.NewPerson{Username: "boss", Email: "boss@example.com", EmailVerified: &yes},
			person.NewPerson{Username: "puppet", Email: "puppet@example.com"})
	})
	for _, address := range []string{"boss@example.com", "BOSS@Example.com"} {
		if err := setEmail(h, "puppet", address, helpdesk); !errors.Is(err, person.ErrEmailTaken) {
			t.Errorf("the address %s = %v, want ErrEmailTaken", address, err)
		}
	}
	for name, n := range map[string]person.NewPerson{
		"as an address": {Username: "second", Email: "boss@example.com", EmailVerified: new(bool)},
		"as a username": {Username: "boss@example.com"},
		"in the profile": {
			Username: "third",
			Profile:  &person.Profile{EmailAddresses: []person.EmailAddress{{Value: "x@example.com", Primary: true}, {Value: "boss@example.com"}}},
		},
	} {
		if _, err := h.Person.AddPerson(t.Context(), n, helpdesk); !errors.Is(err, person.ErrEmailTaken) {
			t.Errorf("a new person with it %s = %v, want ErrEmailTaken", name, err)
		}
	}
	_, err := h.Person.UpdatePerson(t.Context(), h.IDOf("puppet"), person.Edit{By: helpdesk, Verified: true},
		func(_ storage.Tx, d *person.Details) error {
			d.Username = "boss@example.com"
			return nil
		})
	if !errors.Is(err, person.ErrEmailTaken) {
		t.Errorf("the address as a username = %v, want ErrEmailTaken", err)
	}
	if err := setEmail(h, "puppet", "free@example.com", helpdesk); err != nil {
		t.Errorf("an address of nobody = %v", err)
	}
	if err := setEmail(h, "puppet", "boss@example.com", audit.Actor{ID: "owner"}); err != nil {
		t.Errorf("by an owner = %v", err)
	}
}

// TestStatedAddressLinksNobody: a puppet with the address of a newcomer does not get their first sign-in. What the
// person has proved counts.
func TestStatedAddressLinksNobody(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t, identitytest.CoupleByEmail, func(c *identity.Config) {
		c.Persons = append(c.Persons,
			person.NewPerson{Username: "puppet", Password: secret.New(identitytest.DemoPassword), Email: "puppet@example.com"})
	})
	e.At("partner")
	if err := setEmail(e.Harness, "puppet", "ann@partner.example", helpdesk); err != nil {
		t.Fatal(err)
	}
	if si := e.MustEnter(e.Browser(), identitytest.Ann()); si.Subject == e.IDOf("puppet") {
		t.Error("the newcomer signed in as the person whose address an administrator has stated")
	}
	next := identitytest.Ann()
	next.Subject, next.Email, next.Details["email"] = "4712", "other@partner.example", []string{"other@partner.example"}
	if err := setEmail(e.Harness, "puppet", next.Email, audit.Actor{ID: "owner"}); err != nil {
		t.Fatal(err)
	}
	if si := e.MustEnter(e.Browser(), next); si.Subject != e.IDOf("puppet") {
		t.Error("an address that an owner has entered links nobody")
	}
}

// TestUnverifiedAddressInDetails: what a provider says of an address that it has not verified is no detail of a
// sign-in.
func TestUnverifiedAddressInDetails(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	e.At("partner")
	id := identitytest.Ann()
	id.EmailVerified = false
	id.Details["email"], id.Details["contact"] = []string{id.Email}, []string{id.Email}
	id.Details["phone_number"], id.Details["phone_number_verified"] = []string{"+31201234567"}, []string{"false"}
	d := e.MustEnter(e.Browser(), id).Details
	if len(d["email"]) > 0 || len(d["phone_number"]) > 0 || !slices.Equal(d["email_verified"], []string{"false"}) ||
		!slices.Equal(d["contact"], []string{id.Email}) {
		t.Errorf("details = %v, want no address and no number but the contact", d)
	}
}

// TestLinkedByAPlantedAddress: an identity that was linked by an address which a program has entered signs in its
// person until they have a role. One by an address that an owner has entered stays.
func TestLinkedByAPlantedAddress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by      audit.Actor
		address string
		signsIn bool
	}{
		"attack 7248: of a program":             {audit.Actor{ID: "crm", Name: "crm", BelowRoles: true}, "ann@partner.example", false},
		"attack 7248: in another case, as well": {audit.Actor{ID: "crm", Name: "crm", BelowRoles: true}, "Ann@Partner.example", false},
		"of an owner":                           {identitytest.Ops, "ann@partner.example", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t, administrators, identitytest.CoupleByEmail)
			e.At("partner")
			kim := e.Add(person.NewPerson{Username: "kim"})
			edit := func(by audit.Actor, change func(*person.Details)) {
				_, err := e.Person.UpdatePerson(t.Context(), kim.ID, person.Edit{By: by, Verified: true}, func(_ storage.Tx, d *person.Details) error {
					change(d)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			edit(tt.by, func(d *person.Details) {
				d.Profile.EmailAddresses = []person.EmailAddress{{Value: tt.address, Primary: true, Verified: true}}
			})
			b := e.Browser()
			if si := e.MustEnter(b, identitytest.Ann()); si.Subject != kim.ID {
				t.Fatalf("the first sign-in is of %s, want the person with the address", si.Subject)
			}
			edit(identitytest.Ops, func(d *person.Details) { d.Groups = []string{"editors"} })
			if b.IsSignedIn() != tt.signsIn {
				t.Errorf("signed in after getting a role = %t, want %t", b.IsSignedIn(), tt.signsIn)
			}
			again := e.Browser()
			a := e.Through(again, identitytest.Ann())
			if again.IsSignedIn() != tt.signsIn {
				t.Errorf("a sign-in with the role ended at %s with %d, signed in %t, want %t\n%s", a.URL, a.Code, again.IsSignedIn(), tt.signsIn, a.Body)
			}
		})
	}
}

// TestProviderBeforeARole: what a provider of the settings has shown of a person, and what was added in a session that
// it has opened, lets no one in once the person has a role, unless an owner has allowed the provider for them.
func TestProviderBeforeARole(t *testing.T) {
	t.Parallel()
	allowed := identitytest.WithProvider("partner", func(p *federation.Provider) { p.Administrators = true })
	for name, tt := range map[string]struct {
		change []func(*identity.Config)
		want   bool
	}{
		"attack 8531: a provider of the settings": {[]func(*identity.Config){ofTheSettings}, false},
		"an owner has allowed it":                 {[]func(*identity.Config){ofTheSettings, allowed}, true},
		"a provider of the Caddyfile":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var role atomic.Bool
			e := identitytest.NewFederated(t, append([]func(*identity.Config){
				identitytest.PasskeysOn, identitytest.WithProvider("partner", func(p *federation.Provider) { p.Synchronise = true }),
				func(c *identity.Config) { c.HasRole = func(string, []string) bool { return role.Load() } },
			}, tt.change...)...)
			u := settings.Defaults()
			u.Features.PasswordResetEnabled = true
			e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
			e.Notices = new(notifytest.Notices)
			e.Start()
			id := identitytest.Mallory()
			err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
				return e.Person.CoupleProved(tx, "partner", id, e.DemoID(), e.Clock.Now())
			})
			if err != nil {
				t.Fatal(err)
			}
			e.At("partner")
			b, key := e.Browser(), identitytest.NewAuthenticator(t)
			e.MustEnter(b, id)
			b.AddPasskey(key)
			for _, admin := range []bool{false, true} {
				role.Store(admin)
				want := !admin || tt.want
				if b.IsSignedIn() != want {
					t.Errorf("role %v: the session is open: %v, want %v", admin, b.IsSignedIn(), want)
				}
				e.At("identity")
				in := e.Browser()
				in.TryPasskey(key)
				if in.IsSignedIn() != want {
					t.Errorf("role %v: the passkey signs in: %v, want %v", admin, in.IsSignedIn(), want)
				}
				e.Notices.Take()
				e.Browser().Forget(identitytest.Demo)
				sent := slices.ContainsFunc(e.Notices.Take(), func(n notify.Notice) bool {
					return n.Kind == notify.ResetLink && n.To == id.Email
				})
				if sent != want {
					t.Errorf("role %v: a link for a new password goes to the address: %v, want %v", admin, sent, want)
				}
			}
		})
	}
}
