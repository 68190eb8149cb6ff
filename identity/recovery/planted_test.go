package recovery_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

var (
	program  = audit.Actor{ID: "crm", Name: "crm", BelowRoles: true}
	operator = audit.Actor{ID: "oscar", Name: "oscar", BelowOwner: true}
)

// promoting is a harness where people get a role in the admin console when role is set, and are sent e-mails.
type promoting struct {
	*identitytest.Harness
	role atomic.Bool
}

func newPromoting(t *testing.T) *promoting {
	t.Helper()
	x := new(promoting)
	x.Harness = identitytest.New(t, func(c *identity.Config) {
		c.HasRole = func(string, []string) bool { return x.role.Load() }
	})
	u := settings.Defaults()
	u.Features.PasswordResetEnabled, u.Features.AcceptingInvitationEnabled, u.EmailNotifications.AccountInvitation = true, true, true
	x.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	x.Notices = new(notifytest.Notices)
	x.Start()
	return x
}

// update lets an actor change the demo person.
func (x *promoting) update(e person.Edit, change func(*person.Details)) {
	x.T.Helper()
	_, err := x.Person.UpdatePerson(x.T.Context(), x.Details(identitytest.Demo).ID, e, func(_ storage.Tx, d *person.Details) error {
		change(d)
		return nil
	})
	if err != nil {
		x.T.Fatal(err)
	}
}

// TestPlantedPassword: a password that a program or an administrator below owner has set opens no account of a person
// with a role, whenever they got it. One that an owner, or the person, has set does.
func TestPlantedPassword(t *testing.T) {
	t.Parallel()
	const planted = "a planted secret 7"
	keep := func(*person.Details) {}
	mine := []person.EmailAddress{{Value: "mallory@example.com", Primary: true, Verified: true}}
	for name, tt := range map[string]struct {
		set  func(t *testing.T, x *promoting)
		want bool // the sign-in with a role
	}{
		"attack 7248: set by a program": {func(_ *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Password: secret.New(planted)}, keep)
		}, false},
		"attack 7248: a person made by a program": {func(t *testing.T, x *promoting) {
			if err := x.Person.SetState(t.Context(), x.Details(identitytest.Demo).ID, person.Removed, identitytest.Ops); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Person.AddPerson(t.Context(), person.NewPerson{
				Username: identitytest.Demo, Password: secret.New(planted),
			}, program); err != nil {
				t.Fatal(err)
			}
		}, false},
		"attack 7248: imported by an operator": {func(t *testing.T, x *promoting) {
			if err := x.Person.SetState(t.Context(), x.Details(identitytest.Demo).ID, person.Removed, identitytest.Ops); err != nil {
				t.Fatal(err)
			}
			got, err := x.Migration.Import(t.Context(), []ldapmigration.Person{{NewPerson: person.NewPerson{
				Username: identitytest.Demo, Password: secret.New(planted),
			}}}, ldapmigration.How{}, operator)
			if err != nil || got[0].Status != ldapmigration.Created {
				t.Fatalf("Import = %+v, %v", got, err)
			}
		}, false},
		"attack 7248: by the link at an address of a program": {func(_ *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Verified: true}, func(d *person.Details) { d.Profile.EmailAddresses = mine })
			b := x.Browser()
			b.Forget(identitytest.Demo)
			b.Post(b.Get(x.Link(notify.ResetLink, mine[0].Value)), "password", planted)
		}, false},
		"attack 7248: by a link that an operator hands over": {func(t *testing.T, x *promoting) {
			made, err := x.Recovery.HandReset(t.Context(), identitytest.Demo, false, operator)
			if err != nil {
				t.Fatal(err)
			}
			b := x.Browser()
			b.Post(b.Get(strings.TrimPrefix(made.Link, identitytest.Issuer)), "password", planted)
		}, false},
		"attack 7248: changed with the password of a program": {func(_ *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Password: secret.New(identitytest.FreshPassword)}, keep)
			b := x.Browser()
			b.SignIn(identitytest.Demo, identitytest.FreshPassword)
			const page = "/account/security/password"
			b.Fill(b.Get(page), page, "current", identitytest.FreshPassword, "password", planted)
		}, false},
		"set by an owner": {func(_ *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Password: secret.New(identitytest.FreshPassword)}, keep)
			x.update(person.Edit{By: identitytest.Ops, Password: secret.New(planted)}, keep)
		}, true},
		"by a link that an owner hands over": {func(t *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Password: secret.New(identitytest.FreshPassword)}, keep)
			made, err := x.Recovery.HandReset(t.Context(), identitytest.Demo, false, identitytest.Ops)
			if err != nil {
				t.Fatal(err)
			}
			b := x.Browser()
			b.Post(b.Get(strings.TrimPrefix(made.Link, identitytest.Issuer)), "password", planted)
		}, true},
		"by the link at the person's own address": {func(_ *testing.T, x *promoting) {
			x.update(person.Edit{By: program, Password: secret.New(identitytest.FreshPassword)}, keep)
			b := x.Browser()
			b.Forget(identitytest.Demo)
			b.Post(b.Get(x.Link(notify.ResetLink, identitytest.Demo)), "password", planted)
		}, true},
		"changed in a session of the person": {func(_ *testing.T, x *promoting) {
			b := x.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			const page = "/account/security/password"
			b.Fill(b.Get(page), page, "current", identitytest.DemoPassword, "password", planted)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newPromoting(t)
			tt.set(t, x)
			early := x.Browser()
			early.SignIn(identitytest.Demo, planted)
			x.role.Store(true)
			if got := early.IsSignedIn(); got != tt.want {
				t.Errorf("the session from before the role is signed in: %v, want %v", got, tt.want)
			}
			b := x.Browser()
			a := b.Try(identitytest.Demo, planted)
			if got := b.IsSignedIn(); got != tt.want {
				t.Errorf("sign-in with a role: %v, want %v", got, tt.want)
			}
			if !tt.want && (a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "someone else set this password")) {
				t.Errorf("Try(%q) status = %d, want 403 and the reason\n%s", identitytest.Demo, a.Code, a.Body)
			}
			_, err := x.CheckPassword(t.Context(), "app", identitytest.Demo, planted, audit.Origin{ClientIP: "192.0.2.9"})
			if (err == nil) != tt.want {
				t.Errorf("CheckPassword = %v, want an error: %v", err, !tt.want)
			}
			if a := x.Browser().Try(identitytest.Demo, "a wrong password 3"); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("a wrong password = %d, want 422", a.Code)
			}
		})
	}
}

// TestPlantedAddress: an address or number that a program has entered gets no link for a new password of a person
// with a role, and a link of before ends. One that an owner has entered does.
func TestPlantedAddress(t *testing.T) {
	t.Parallel()
	x := newPromoting(t)
	const evil = "mallory@example.com"
	set := func(address string) func(*person.Details) {
		return func(d *person.Details) {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: address, Primary: true, Verified: true}}
		}
	}
	x.update(person.Edit{By: program, Verified: true}, set(evil))
	b := x.Browser()
	b.Forget(identitytest.Demo)
	link := x.Link(notify.ResetLink, evil)
	x.role.Store(true)
	if a := b.Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("attack 7248: the link of before = %d, want 400", a.Code)
	}
	for _, typed := range []string{identitytest.Demo, evil} {
		x.Browser().Forget(typed)
		for _, n := range x.Notices.Take() {
			if n.Kind != notify.Nothing {
				t.Errorf("attack 7248: after %q, %s was sent a %s", typed, n.To, n.Kind)
			}
		}
	}
	x.update(person.Edit{By: identitytest.Ops, Verified: true, Confirmed: evil}, func(*person.Details) {})
	x.update(person.Edit{By: identitytest.Ops, Verified: true, Confirmed: evil}, set(evil))
	x.Browser().Forget(identitytest.Demo)
	x.Link(notify.ResetLink, evil)
}

// TestPlantedInvitation: an invitation by a program ends when the person gets a role; what the person has chosen by
// it before does not sign them in then. An owner's invitation goes on.
func TestPlantedInvitation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by       audit.Actor
		accepted bool // before the role
		want     bool
	}{
		"attack 7248: a program's":                    {program, false, false},
		"attack 7248: a program's, accepted before":   {program, true, false},
		"attack 7248: an operator's, who is no owner": {operator, false, false},
		"an owner's":                  {identitytest.Ops, false, true},
		"an owner's, accepted before": {identitytest.Ops, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newPromoting(t)
			if _, err := x.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: identitytest.Guest}, tt.by); err != nil {
				t.Fatal(err)
			}
			link := x.Link(notify.AccountInvitation, identitytest.Guest)
			x.Clock.Advance(time.Second)
			x.role.Store(!tt.accepted)
			b := x.Browser()
			if page := b.Get(link); page.Code == http.StatusOK {
				b.Post(page, "password", identitytest.GuestPassword)
			}
			x.role.Store(true)
			if got := b.IsSignedIn(); got != tt.want {
				t.Errorf("signed in: %v, want %v", got, tt.want)
			}
			b = x.Browser()
			b.Try(identitytest.Guest, identitytest.GuestPassword)
			if got := b.IsSignedIn(); got != tt.want {
				t.Errorf("signed in again: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestHandedInvitation: what is chosen by the link of an invitation that was shown to a program, or to an administrator
// below owner, signs in no one with a role, even if an owner has entered the address.
func TestHandedInvitation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to       audit.Actor
		accepted bool // before the role
		want     bool
	}{
		"attack 5353: to a program":                   {program, false, false},
		"attack 5353: to a program, accepted before":  {program, true, false},
		"attack 5353: to the helpdesk":                {operator, false, false},
		"attack 5353: to the helpdesk, accepted then": {operator, true, false},
		"to an owner": {identitytest.Ops, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newPromoting(t)
			made, err := x.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: identitytest.Guest}, identitytest.Ops)
			if err != nil {
				t.Fatal(err)
			}
			u, err := x.Units(nil)
			if err != nil {
				t.Fatal(err)
			}
			u.EmailNotifications.AccountInvitation = false
			x.Clock.Advance(time.Minute)
			if made, err = x.Invitation.InviteAgain(t.Context(), made.PersonID, tt.to); err != nil || made.Link == "" {
				t.Fatalf("InviteAgain = %+v, %v, want a link", made, err)
			}
			x.role.Store(!tt.accepted)
			b := x.Browser()
			if page := b.Get(strings.TrimPrefix(made.Link, identitytest.Issuer)); page.Code == http.StatusOK {
				b.Post(page, "password", identitytest.GuestPassword)
			}
			x.role.Store(true)
			if got := b.IsSignedIn(); got != tt.want {
				t.Errorf("signed in: %v, want %v", got, tt.want)
			}
			b = x.Browser()
			b.Try(identitytest.Guest, identitytest.GuestPassword)
			if got := b.IsSignedIn(); got != tt.want {
				t.Errorf("signed in again: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPlantedContact: an address that is added in a session by a program's password is the program's.
func TestPlantedContact(t *testing.T) {
	t.Parallel()
	x := newPromoting(t)
	add := func(password, address string) {
		t.Helper()
		b := x.Browser()
		b.SignIn(identitytest.Demo, password)
		const path = "/account/profile/contact"
		a := b.Fill(b.Get("/account/profile?edit=details"), path, "kind", "email", "do", "add", "value", address)
		if a.Code != http.StatusSeeOther {
			t.Fatalf("adding %s = %d\n%s", address, a.Code, a.Body)
		}
	}
	add(identitytest.DemoPassword, "own@example.com")
	x.update(person.Edit{By: program, Password: secret.New(identitytest.FreshPassword)}, func(*person.Details) {})
	add(identitytest.FreshPassword, "planted@example.com")
	want := map[string]bool{"own@example.com": false, "planted@example.com": true}
	for _, e := range x.Details(identitytest.Demo).Profile.EmailAddresses {
		planted, known := want[e.Value]
		if known && (e.SetBy != "") != planted {
			t.Errorf("%s was set by %q, want someone untrusted: %v", e.Value, e.SetBy, planted)
		}
		delete(want, e.Value)
	}
	if len(want) > 0 {
		t.Errorf("not added: %v", want)
	}
}
