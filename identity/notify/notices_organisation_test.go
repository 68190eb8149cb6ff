package notify_test

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestNotifyUncoupled: the organisation of an application is told why identities could not be coupled by address, at
// most once in six hours.
func TestNotifyUncoupled(t *testing.T) {
	t.Parallel()
	yes := true
	u := settings.Defaults()
	u.EmailNotifications.ConfigurationErrorForAccountLinking = true
	acme := settings.Organisation{
		ID: "acme", SupportEmail: "help@acme.example", PreferredLanguage: "nl",
		ServiceProviders: map[string]settings.ServiceProvider{"shop": {ID: "shop"}},
	}
	u.Organisations = []settings.Organisation{acme}
	open := func(t *testing.T, u settings.Units, change ...func(*identity.Config)) *identitytest.Federated {
		t.Helper()
		e := identitytest.NewFederated(t, change...)
		e.At("partner")
		e.Units, e.Notices = func(storage.Tx) (*settings.Units, error) { return &u, nil }, new(notifytest.Notices)
		e.Start()
		return e
	}
	second := func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: "second", Email: identitytest.Demo, EmailVerified: &yes})
	}
	unverified := func() *idp.Identity {
		id := identitytest.Ann()
		id.EmailVerified = false
		return id
	}
	claimed := func() *idp.Identity { // has the username of an existing person, so a password is asked for
		id := identitytest.Known()
		id.EmailVerified = false
		return id
	}
	off, elsewhere, silent := u, u, u
	off.EmailNotifications.ConfigurationErrorForAccountLinking = false
	elsewhere.Organisations = []settings.Organisation{{
		ID: "other", SupportEmail: "help@other.example",
		ServiceProviders: map[string]settings.ServiceProvider{"other": {ID: "other"}},
	}}
	silent.Organisations = []settings.Organisation{{ID: "acme", ServiceProviders: acme.ServiceProviders}}
	for name, tt := range map[string]struct {
		units  settings.Units
		change []func(*identity.Config)
		id     *idp.Identity
		want   []string
	}{
		"a newcomer without a verified address": {
			u,
			[]func(*identity.Config){identitytest.CoupleByEmail},
			unverified(),
			[]string{"coupling_unverified help@acme.example"},
		},
		"somebody's address that is unverified": {
			u,
			[]func(*identity.Config){identitytest.CoupleByEmail},
			claimed(),
			[]string{"coupling_unverified help@acme.example"},
		},
		"an address of two": {
			u,
			[]func(*identity.Config){identitytest.CoupleByEmail, second},
			identitytest.Known(),
			[]string{"coupling_ambiguous help@acme.example"},
		},
		"a newcomer whose address is verified":  {u, []func(*identity.Config){identitytest.CoupleByEmail}, identitytest.Ann(), nil},
		"somebody who is coupled":               {u, []func(*identity.Config){identitytest.CoupleByEmail}, identitytest.Known(), nil},
		"a provider that does not couple":       {u, nil, unverified(), nil},
		"the same with the address of somebody": {u, nil, identitytest.Known(), nil},
		"switched off":                          {off, []func(*identity.Config){identitytest.CoupleByEmail}, unverified(), nil},
		"no organisation has the application":   {elsewhere, []func(*identity.Config){identitytest.CoupleByEmail}, unverified(), nil},
		"the organisation has no address":       {silent, []func(*identity.Config){identitytest.CoupleByEmail}, unverified(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, tt.units, tt.change...)
			e.Through(e.Browser(), tt.id)
			for _, n := range identitytest.WantNotices(t, name, e.Notices, tt.want...) {
				if n.PersonID != "" || n.Name != "" || n.Link != "" || len(n.Data) != 2 || n.Data["provider"] != "Partner account" ||
					n.Data["application"] != "The shop" ||
					len(n.Locales) != 1 || n.Locales[0] != "nl" {
					t.Errorf("notice = %+v, want the provider and the application alone, in the organisation's language", n)
				}
			}
		})
	}

	t.Run("a person whom another provider signs in that does not couple", func(t *testing.T) {
		t.Parallel()
		e := open(t, u, identitytest.WithProvider("partner", func(p *federation.Provider) { p.CoupleEmail = true }))
		id := e.DemoID()
		if err := e.Store.Update(t.Context(),
			func(tx storage.Tx) error { return e.Federation.Couple(tx, id, "corp", "", "1", e.Clock.Now()) }); err != nil {
			t.Fatal(err)
		}
		e.Notices.Take()
		e.WantAsked("another provider is not believed", e.Browser(), identitytest.Known())
		identitytest.WantNotices(t, "once", e.Notices, "coupling_untrusted help@acme.example")
		e.WantAsked("another provider is not believed", e.Browser(), identitytest.Known())
		identitytest.WantNotices(t, "again at once", e.Notices)
		e.Clock.Advance(6*time.Hour + time.Second)
		e.WantAsked("another provider is not believed", e.Browser(), identitytest.Known())
		identitytest.WantNotices(t, "again after six hours", e.Notices, "coupling_untrusted help@acme.example")
	})

	t.Run("a flood of newcomers without an address fills no mailbox", func(t *testing.T) {
		t.Parallel()
		e := open(t, u, identitytest.CoupleByEmail)
		for _, subject := range []string{"1", "2", "3", "4", "5"} {
			id := unverified()
			id.Subject, id.Username = subject, "ann-"+subject
			e.Through(e.Browser(), id)
		}
		identitytest.WantNotices(t, "five newcomers", e.Notices, "coupling_unverified help@acme.example")
	})
}
