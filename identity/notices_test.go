package identity_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/migration"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// notified returns a harness whose notices the test reads.
func notified(t *testing.T) (*harness, *config.EmailNotifications, *notifytest.Notices) {
	t.Helper()
	h := newHarness(t)
	u := config.Defaults()
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.notices = new(notifytest.Notices)
	h.start()
	return h, &u.EmailNotifications, h.notices
}

// heard compares the notices sent with kinds and addresses such as "welcome ann@example.com".
func heard(t *testing.T, what string, m *notifytest.Notices, want ...string) []notify.Notice {
	t.Helper()
	list := m.Take()
	var got []string
	for _, n := range list {
		got = append(got, string(n.Kind)+" "+n.To)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s: notices = %q, want %q", what, got, want)
	}
	return list
}

func (h *harness) add(n person.NewPerson) person.Person {
	h.t.Helper()
	p, err := h.Person.AddPerson(h.t.Context(), n, ops)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

var ops = event.Actor{ID: "ops", Name: "ops"}

func TestNotifyWelcome(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	ann := person.NewPerson{Username: "ann", Email: "ann@example.com", Name: "Ann", Locale: "nl-NL"}
	heard(t, "the person of the configuration", m)
	h.add(person.NewPerson{Username: "bob@example.com"})
	heard(t, "switched off", m)
	on.Welcome.OnAPIEnabled = true
	h.add(ann)
	list := heard(t, "switched on", m, "welcome ann@example.com")
	if n := list[0]; n.Name != "Ann" || !slices.Equal(n.Locales, []string{"nl-NL"}) || n.Data["username"] != "ann" || !n.At.Equal(h.clock.Now()) || n.Link != "/account" {
		t.Errorf("notice = %+v", n)
	}
	h.add(person.NewPerson{Username: "nobody"})
	heard(t, "without an address", m)
	if _, err := h.Person.AddPerson(t.Context(), ann, ops); !errors.Is(err, person.ErrUsernameTaken) {
		t.Fatal(err)
	}
	m.Take() // drops the notices of a transaction that was rolled back

	imported := []migration.Person{{NewPerson: person.NewPerson{Username: "cid@example.com"}}}
	if _, err := h.Migration.Import(t.Context(), imported, migration.How{}, ops); err != nil {
		t.Fatal(err)
	}
	heard(t, "an import, with the switch of the API", m)
	on.Welcome.OnAPIEnabled, on.Welcome.OnMigrationEnabled = false, true
	imported[0].Username = "dan@example.com"
	if _, err := h.Migration.Import(t.Context(), imported, migration.How{}, ops); err != nil {
		t.Fatal(err)
	}
	heard(t, "an import, with its own switch", m, "welcome dan@example.com")
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
			e := newElsewhere(t)
			u := config.Defaults()
			u.EmailNotifications.Welcome.OnWebEnabled, u.EmailNotifications.Welcome.OnAPIEnabled = tt.on, true
			e.units, e.notices = func(storage.Tx) (*config.Units, error) { return &u, nil }, new(notifytest.Notices)
			e.start()
			e.at("partner")
			id := &idp.Identity{Issuer: "https://partner.example.com", Subject: "eve", Email: "eve@example.com", EmailVerified: tt.verified, Level: 1}
			e.mustEnter(e.browser(), id)
			heard(t, name, e.notices, tt.want...)
			e.mustEnter(e.browser(), id)
			heard(t, "the second time", e.notices)
		})
	}
}

func TestNotifyIdentityCoupled(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	couple := func(subject string) {
		t.Helper()
		p, err := h.Person.Person(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		now := h.clock.Now()
		if err := h.store.Update(t.Context(), func(tx storage.Tx) error { return h.Federation.Couple(tx, p.ID, "partner", "", subject, now) }); err != nil {
			t.Fatal(err)
		}
	}
	couple("1")
	heard(t, "switched off", m)
	on.IdentityCoupledToAccount = true
	couple("1")
	heard(t, "coupled already", m)
	if err := h.store.Update(t.Context(), func(tx storage.Tx) error {
		p, err := h.Person.ByUsername(tx, event.DefaultPartition, demo)
		if err != nil {
			return err
		}
		return h.Federation.Couple(tx, p, "other", "", "2", h.clock.Now())
	}); err != nil {
		t.Fatal(err)
	}
	if list := heard(t, "switched on", m, "identity_coupled "+demo); list[0].Data["provider"] != "other" || list[0].Data["account"] != "2" {
		t.Errorf("notice = %+v, want the provider's name and that of the account there", list[0])
	}
}

func TestNotifyPasswordBlocked(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	fail := func(username string) {
		t.Helper()
		for range 5 {
			_, err := h.CheckPassword(t.Context(), "shop", username, "wrong password", event.Origin{ClientIP: "203.0.113.7"})
			if !errors.Is(err, login.ErrBadCredentials) && !errors.As(err, new(*login.ThrottledError)) {
				t.Fatal(err)
			}
		}
	}
	fail(demo)
	heard(t, "switched off", m)
	on.PasswordBlocked = true
	h.clock.Advance(time.Hour)
	fail("nobody@example.com")
	heard(t, "nobody's username", m)
	fail(demo)
	heard(t, "switched on", m, "password_blocked "+demo)
	h.clock.Advance(time.Hour)
	fail(demo)
	heard(t, "again within six hours", m)
	h.clock.Advance(6 * time.Hour)
	fail(demo)
	heard(t, "again after six hours", m, "password_blocked "+demo)
}

func TestNotifyAccountBlocked(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	on.AdministratorAccountBlocked = true
	state := func(to person.State) {
		t.Helper()
		if err := h.Person.SetState(t.Context(), demo, to, ops); err != nil {
			t.Fatal(err)
		}
	}
	state(person.Blocked)
	heard(t, "blocked", m, "account_blocked "+demo)
	state(person.Blocked)
	heard(t, "blocked already", m)
	state(person.Active)
	heard(t, "active again", m)
	h.edit(person.Edit{By: ops}, func(d *person.Details) { d.State = person.Blocked })
	heard(t, "blocked with a directory's words", m, "account_blocked "+demo)
	state(person.Active)
	on.AdministratorAccountBlocked = false
	state(person.Blocked)
	heard(t, "switched off", m)
}

func TestNotifyAccountRemoved(t *testing.T) {
	t.Parallel()
	h, on, m := notified(t)
	on.AccountRemoved = true
	if err := h.Person.SetState(t.Context(), demo, person.Removed, ops); err != nil {
		t.Fatal(err)
	}
	heard(t, "removed", m, "account_removed "+demo)
	p := h.add(person.NewPerson{Username: "ann", Email: "ann@example.com"})
	refuse := func(storage.Tx, *person.Details) error { return person.ErrNoPerson }
	if err := h.Person.RemovePerson(t.Context(), p.ID, ops, refuse); !errors.Is(err, person.ErrNoPerson) {
		t.Fatal(err)
	}
	heard(t, "not removed", m)
	on.AccountRemoved = false
	if err := h.Person.RemovePerson(t.Context(), p.ID, ops, func(storage.Tx, *person.Details) error { return nil }); err != nil {
		t.Fatal(err)
	}
	heard(t, "switched off", m)
}

// edit changes the details of the demo person.
func (h *harness) edit(e person.Edit, fn func(*person.Details)) {
	h.t.Helper()
	p, err := h.Person.Person(h.t.Context(), demo)
	if err == nil {
		_, err = h.Person.UpdatePerson(h.t.Context(), p.ID, e, func(_ storage.Tx, d *person.Details) error {
			fn(d)
			return nil
		})
	}
	if err != nil {
		h.t.Fatal(err)
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
	all := func(on *config.EmailNotifications) { on.AttributesUpdate.OnAllUpdated = true }
	tests := map[string]struct {
		on   func(*config.EmailNotifications)
		edit func(*person.Details)
		want []string
	}{
		"e-mail":      {func(on *config.EmailNotifications) { on.AttributesUpdate.OnEmailUpdated = true }, email, []string{"email_updated " + demo}},
		"e-mail, all": {all, email, []string{"email_updated " + demo}},
		"e-mail, other switches": {func(on *config.EmailNotifications) {
			on.AttributesUpdate.OnPhoneNumberUpdated, on.AttributesUpdate.OnPasswordUpdated = true, true
		}, email, nil},
		"phone number":                 {func(on *config.EmailNotifications) { on.AttributesUpdate.OnPhoneNumberUpdated = true }, phone, []string{"phone_number_updated " + demo}},
		"phone number, all":            {all, phone, []string{"phone_number_updated " + demo}},
		"phone number, another switch": {func(on *config.EmailNotifications) { on.AttributesUpdate.OnEmailUpdated = true }, phone, nil},
		"name, all":                    {all, name, []string{"attributes_updated " + demo}},
		"name, other switches": {func(on *config.EmailNotifications) {
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
			h.edit(person.Edit{By: ops}, tt.edit)
			list := heard(t, what, m, tt.want...)
			for _, n := range list {
				if n.Kind == notify.EmailUpdated && n.Data["address"] != moved {
					t.Errorf("notice = %+v, want the new address in it", n)
				}
			}
		})
	}
	for what, set := range map[string]func(*harness) error{
		"password by command": func(h *harness) error {
			return h.Person.SetPassword(context.Background(), demo, secret.New("another horse 2"), ops)
		},
		"password by a directory": func(h *harness) error {
			h.edit(person.Edit{By: ops, Password: secret.New("another horse 2")}, password)
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
			heard(t, "another switch", m)
			on.AttributesUpdate.OnPasswordUpdated = true
			if err := set(h); err != nil {
				t.Fatal(err)
			}
			if list := heard(t, what, m, "password_updated "+demo); strings.Contains(list[0].Data["username"]+list[0].Name, "horse") {
				t.Error("the password is in the notice")
			}
		})
	}
	t.Run("a person without an address is told at the new one", func(t *testing.T) {
		t.Parallel()
		h, on, m := notified(t)
		on.AttributesUpdate.OnEmailUpdated = true
		p := h.add(person.NewPerson{Username: "ann"})
		_, err := h.Person.UpdatePerson(t.Context(), p.ID, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
			email(d)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		heard(t, "the first address", m, "email_updated "+moved)
	})
}

// TestNobodyIsTold: without a way to send notices, everything else works, whatever is switched on.
func TestNobodyIsTold(t *testing.T) {
	t.Parallel()
	h, u := configured(t)
	on := &u.EmailNotifications
	on.AdministratorAccountBlocked, on.AccountRemoved, on.PasswordBlocked, on.IdentityCoupledToAccount = true, true, true, true
	on.Welcome.OnAPIEnabled, on.AttributesUpdate.OnAllUpdated = true, true
	h.edit(person.Edit{By: ops, Password: secret.New("another horse 2")}, func(d *person.Details) { d.Profile.Name.FirstName = "Another" })
	h.add(person.NewPerson{Username: "ann", Email: "ann@example.com"})
	for _, to := range []person.State{person.Blocked, person.Removed} {
		if err := h.Person.SetState(t.Context(), demo, to, ops); err != nil {
			t.Error(err)
		}
	}
}
