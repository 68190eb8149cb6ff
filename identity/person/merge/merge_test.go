package merge_test

import (
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/person/merge"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestMergeBeforeARole: what a merge by an administrator below owner has given a person lets no one in once the person
// has a role. What one by an owner has given does.
func TestMergeBeforeARole(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by   audit.Actor
		want bool
	}{
		"attack 5544: by an operator": {audit.Actor{ID: "oscar", Name: "oscar", BelowOwner: true}, false},
		"by an owner":                 {identitytest.Ops, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var role atomic.Bool
			e := identitytest.NewFederated(t, func(c *identity.Config) {
				c.HasRole = func(string, []string) bool { return role.Load() }
			})
			u := settings.Defaults()
			u.Features.PasswordResetEnabled = true
			e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
			e.Notices = new(notifytest.Notices)
			e.Start()
			verified, id := true, identitytest.Mallory()
			puppet := e.Add(person.NewPerson{Username: "puppet", Email: id.Email, EmailVerified: &verified})
			kim := e.Add(person.NewPerson{Username: "kim", Password: secret.New(identitytest.DemoPassword)})
			err := e.Store.Update(t.Context(), func(tx storage.Tx) error {
				return e.Person.CoupleProved(tx, "partner", id, puppet.ID, e.Clock.Now())
			})
			if err != nil {
				t.Fatal(err)
			}
			m := merge.Service{Persons: e.Person, Store: e.Store, Events: e.Deps.Events}
			if err := m.Merge(t.Context(), kim.ID, puppet.ID, tt.by, nil); err != nil {
				t.Fatal(err)
			}
			for _, admin := range []bool{false, true} {
				role.Store(admin)
				want := !admin || tt.want
				e.At("partner")
				b := e.Browser()
				e.Through(b, id)
				if b.IsSignedIn() != want {
					t.Errorf("role %v: the account elsewhere signs in: %v, want %v", admin, b.IsSignedIn(), want)
				}
				e.At("identity")
				e.Notices.Take()
				e.Browser().Forget(id.Email)
				sent := false
				for _, n := range e.Notices.Take() {
					sent = sent || n.Kind == notify.ResetLink && n.To == id.Email
				}
				if sent != want {
					t.Errorf("role %v: a link for a new password goes to the address: %v, want %v", admin, sent, want)
				}
			}
		})
	}
}
