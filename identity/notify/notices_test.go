package notify_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// notified returns a harness whose notices the test reads.
func notified(t *testing.T) (*identitytest.Harness, *settings.EmailNotifications, *notifytest.Notices) {
	t.Helper()
	h := identitytest.New(t)
	u := settings.Defaults()
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Notices = new(notifytest.Notices)
	h.Start()
	return h, &u.EmailNotifications, h.Notices
}

func TestNotifyWelcome(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	ann := person.NewPerson{Username: "ann", Email: "ann@example.com", Name: "Ann", Locale: "nl-NL"}
	identitytest.WantNotices(t, "the person of the configuration", m)
	h.Add(person.NewPerson{Username: "bob@example.com"})
	identitytest.WantNotices(t, "switched off", m)
	on.Welcome.OnAPIEnabled = true
	h.Add(ann)
	list := identitytest.WantNotices(t, "switched on", m, "welcome ann@example.com")
	if n := list[0]; n.Name != "Ann" || !slices.Equal(n.Locales, []string{"nl-NL"}) || n.Data["username"] != "ann" ||
		!n.At.Equal(h.Clock.Now()) || n.Link != "/account" {
		t.Errorf("notice = %+v", n)
	}
	h.Add(person.NewPerson{Username: "nobody"})
	identitytest.WantNotices(t, "without an address", m)
	if _, err := h.Person.AddPerson(t.Context(), ann, identitytest.Ops); !errors.Is(err, person.ErrUsernameTaken) {
		t.Fatal(err)
	}
	m.Take() // drops the notices of a transaction that was rolled back

	imported := []ldapmigration.Person{{NewPerson: person.NewPerson{Username: "cid@example.com"}}}
	if _, err := h.Migration.Import(t.Context(), imported, ldapmigration.How{}, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "an import, with the switch of the API", m)
	on.Welcome.OnAPIEnabled, on.Welcome.OnMigrationEnabled = false, true
	imported[0].Username = "dan@example.com"
	if _, err := h.Migration.Import(t.Context(), imported, ldapmigration.How{}, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "an import, with its own switch", m, "welcome dan@example.com")
}

func TestNotifyWelcomeOnWeb(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verified, on bool
		want         []string
	}{
		"verified":                           {true, true, []string{"welcome eve@example.com"}},
		"an address that nobody vouches for": {false, true, nil},
		"switched off":                       {true, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := identitytest.NewFederated(t)
			u := settings.Defaults()
			u.EmailNotifications.Welcome.OnWebEnabled, u.EmailNotifications.Welcome.OnAPIEnabled = tt.on, true
			e.Units, e.Notices = func(storage.Tx) (*settings.Units, error) { return &u, nil }, new(notifytest.Notices)
			e.Start()
			e.At("partner")
			id := &idp.Identity{
				Issuer: "https://partner.example.com", Subject: "eve", Email: "eve@example.com",
				EmailVerified: tt.verified, Level: 1,
			}
			e.MustEnter(e.Browser(), id)
			identitytest.WantNotices(t, name, e.Notices, tt.want...)
			e.MustEnter(e.Browser(), id)
			identitytest.WantNotices(t, "the second time", e.Notices)
		})
	}
}

func TestNotifyIdentityCoupled(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	couple := func(subject string) {
		t.Helper()
		p, err := h.Person.Person(t.Context(), identitytest.Demo)
		if err != nil {
			t.Fatal(err)
		}
		now := h.Clock.Now()
		if err := h.Store.Update(t.Context(),
			func(tx storage.Tx) error { return h.Federation.Couple(tx, p.ID, "partner", "", subject, now) }); err != nil {
			t.Fatal(err)
		}
	}
	couple("1")
	identitytest.WantNotices(t, "switched off", m)
	on.IdentityCoupledToAccount = true
	couple("1")
	identitytest.WantNotices(t, "coupled already", m)
	if err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
		p, err := h.Person.ByUsername(tx, audit.DefaultPartition, identitytest.Demo)
		if err != nil {
			return err
		}
		return h.Federation.Couple(tx, p, "other", "", "2", h.Clock.Now())
	}); err != nil {
		t.Fatal(err)
	}
	if list := identitytest.WantNotices(t, "switched on", m, "identity_coupled "+identitytest.Demo); list[0].Data["provider"] != "other" ||
		list[0].Data["account"] != "2" {
		t.Errorf("notice = %+v, want the provider's name and that of the account there", list[0])
	}
}

func TestNotifyPasswordBlocked(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	fail := func(username string) {
		t.Helper()
		for range 5 {
			_, err := h.CheckPassword(t.Context(), "shop", username, "wrong password", audit.Origin{ClientIP: "203.0.113.7"})
			if !errors.Is(err, authn.ErrBadCredentials) && !errors.As(err, new(*authn.ThrottledError)) {
				t.Fatal(err)
			}
		}
	}
	fail(identitytest.Demo)
	identitytest.WantNotices(t, "switched off", m)
	on.PasswordBlocked = true
	h.Clock.Advance(time.Hour)
	fail("nobody@example.com")
	identitytest.WantNotices(t, "nobody's username", m)
	fail(identitytest.Demo)
	identitytest.WantNotices(t, "switched on", m, "password_blocked "+identitytest.Demo)
	h.Clock.Advance(time.Hour)
	fail(identitytest.Demo)
	identitytest.WantNotices(t, "again within six hours", m)
	h.Clock.Advance(6 * time.Hour)
	fail(identitytest.Demo)
	identitytest.WantNotices(t, "again after six hours", m, "password_blocked "+identitytest.Demo)
}

func TestNotifyAccountBlocked(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	on.AdministratorAccountBlocked = true
	state := func(to person.State) {
		t.Helper()
		if err := h.Person.SetState(t.Context(), identitytest.Demo, to, identitytest.Ops); err != nil {
			t.Fatal(err)
		}
	}
	state(person.Blocked)
	identitytest.WantNotices(t, "blocked", m, "account_blocked "+identitytest.Demo)
	state(person.Blocked)
	identitytest.WantNotices(t, "blocked already", m)
	state(person.Active)
	identitytest.WantNotices(t, "active again", m)
	edit(h, person.Edit{By: identitytest.Ops}, func(d *person.Details) { d.State = person.Blocked })
	identitytest.WantNotices(t, "blocked with a directory's words", m, "account_blocked "+identitytest.Demo)
	state(person.Active)
	on.AdministratorAccountBlocked = false
	state(person.Blocked)
	identitytest.WantNotices(t, "switched off", m)
}

func TestNotifyAccountRemoved(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	on.AccountRemoved = true
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Removed, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "removed", m, "account_removed "+identitytest.Demo)
	p := h.Add(person.NewPerson{Username: "ann", Email: "ann@example.com"})
	refuse := func(storage.Tx, *person.Details) error { return person.ErrNoPerson }
	if err := h.Person.RemovePerson(t.Context(), p.ID, identitytest.Ops, refuse); !errors.Is(err, person.ErrNoPerson) {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "not removed", m)
	on.AccountRemoved = false
	if err := h.Person.RemovePerson(t.Context(), p.ID, identitytest.Ops, func(storage.Tx, *person.Details) error { return nil }); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "switched off", m)
}

// edit changes the details of the demo person.
func edit(h *identitytest.Harness, e person.Edit, fn func(*person.Details)) {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), identitytest.Demo)
	if err == nil {
		_, err = h.Person.UpdatePerson(h.T.Context(), p.ID, e, func(_ storage.Tx, d *person.Details) error {
			fn(d)
			return nil
		})
	}
	if err != nil {
		h.T.Fatal(err)
	}
}

func TestNotifyAttributesUpdate(t *testing.T) {
	t.Parallel()
	const moved = "moved@example.com"
	email := func(d *person.Details) {
		d.Profile.EmailAddresses = []person.EmailAddress{{Primary: true, Value: moved}}
	}
	phone := func(d *person.Details) {
		d.Profile.PhoneNumbers = []person.PhoneNumber{{Primary: true, Value: "+31201234567"}}
	}
	name := func(d *person.Details) { d.Profile.Name.FirstName = "Another" }
	group := func(d *person.Details) { d.Groups = append(d.Groups, "more") }
	password := func(*person.Details) {}
	nothing := password
	all := func(on *settings.EmailNotifications) { on.AttributesUpdate.OnAllUpdated = true }
	tests := map[string]struct {
		on   func(*settings.EmailNotifications)
		edit func(*person.Details)
		want []string
	}{
		"e-mail": {
			func(on *settings.EmailNotifications) { on.AttributesUpdate.OnEmailUpdated = true }, email,
			[]string{"email_updated " + identitytest.Demo},
		},
		"e-mail, all": {all, email, []string{"email_updated " + identitytest.Demo}},
		"e-mail, other switches": {func(on *settings.EmailNotifications) {
			on.AttributesUpdate.OnPhoneNumberUpdated, on.AttributesUpdate.OnPasswordUpdated = true, true
		}, email, nil},
		"phone number": {
			func(on *settings.EmailNotifications) { on.AttributesUpdate.OnPhoneNumberUpdated = true }, phone,
			[]string{"phone_number_updated " + identitytest.Demo},
		},
		"phone number, all":            {all, phone, []string{"phone_number_updated " + identitytest.Demo}},
		"phone number, another switch": {func(on *settings.EmailNotifications) { on.AttributesUpdate.OnEmailUpdated = true }, phone, nil},
		"name, all":                    {all, name, []string{"attributes_updated " + identitytest.Demo}},
		"name, other switches": {func(on *settings.EmailNotifications) {
			on.AttributesUpdate.OnEmailUpdated, on.AttributesUpdate.OnPhoneNumberUpdated = true, true
		}, name, nil},
		"a group, which is no attribute": {all, group, nil},
		"nothing":                        {all, nothing, nil},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h, on, m := notified(t)
			tt.on(on)
			edit(h, person.Edit{By: identitytest.Ops}, tt.edit)
			list := identitytest.WantNotices(t, what, m, tt.want...)
			for _, n := range list {
				if n.Kind == notify.EmailUpdated && n.Data["address"] != moved {
					t.Errorf("notice = %+v, want the new address in it", n)
				}
			}
		})
	}
	for what, set := range map[string]func(*identitytest.Harness) error{
		"password by command": func(h *identitytest.Harness) error {
			return h.Person.SetPassword(context.Background(), identitytest.Demo, secret.New("another horse 2"), identitytest.Ops)
		},
		"password by a directory": func(h *identitytest.Harness) error {
			edit(h, person.Edit{By: identitytest.Ops, Password: secret.New("another horse 2")}, password)
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h, on, m := notified(t)
			on.AttributesUpdate.OnEmailUpdated = true
			if err := set(h); err != nil {
				t.Fatal(err)
			}
			identitytest.WantNotices(t, "another switch", m)
			on.AttributesUpdate.OnPasswordUpdated = true
			if err := set(h); err != nil {
				t.Fatal(err)
			}
			if list := identitytest.WantNotices(t, what, m,
				"password_updated "+identitytest.Demo); strings.Contains(list[0].Data["username"]+list[0].Name, "horse") {
				t.Error("the password is in the notice")
			}
		})
	}
	t.Run("a person without an address is told at the new one", func(t *testing.T) {
		t.Parallel()
		h, on, m := notified(t)
		on.AttributesUpdate.OnEmailUpdated = true
		p := h.Add(person.NewPerson{Username: "ann"})
		_, err := h.Person.UpdatePerson(t.Context(), p.ID, person.Edit{By: identitytest.Ops}, func(_ storage.Tx, d *person.Details) error {
			email(d)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		identitytest.WantNotices(t, "the first address", m, "email_updated "+moved)
	})
}

// TestNobodyIsTold: without a way to send notices, everything else works, whatever is switched on.
func TestNobodyIsTold(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	on := &u.EmailNotifications
	on.AdministratorAccountBlocked, on.AccountRemoved, on.PasswordBlocked, on.IdentityCoupledToAccount = true, true, true, true
	on.Welcome.OnAPIEnabled, on.AttributesUpdate.OnAllUpdated = true, true
	edit(h, person.Edit{By: identitytest.Ops, Password: secret.New("another horse 2")},
		func(d *person.Details) { d.Profile.Name.FirstName = "Another" })
	h.Add(person.NewPerson{Username: "ann", Email: "ann@example.com"})
	for _, to := range []person.State{person.Blocked, person.Removed} {
		if err := h.Person.SetState(t.Context(), identitytest.Demo, to, identitytest.Ops); err != nil {
			t.Error(err)
		}
	}
}
