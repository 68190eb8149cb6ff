package handover_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const evePassword = "eve's old password"

// withOld is a harness with an old directory that people move here from, where Eve is.
type withOld struct {
	*identitytest.Harness
	old *idptest.Directory
}

func newWithOld(t testing.TB, change ...func(*identity.Config)) *withOld {
	t.Helper()
	o := &withOld{old: &idptest.Directory{Groups: []string{"admins", "staff"}}}
	o.old.Put("eve", evePassword, identitytest.Eve())
	o.old.Put("eve@example.com", evePassword, identitytest.Eve())
	o.Harness = identitytest.New(t, append([]func(*identity.Config){func(c *identity.Config) {
		c.Providers = []federation.Provider{{ID: "old", Name: "Old directory", Source: o.old, Migrates: true}}
	}}, change...)...)
	t.Cleanup(o.CheckInvariants)
	return o
}

// signsIn reports whether a username and a password sign a new browser in, and as whom.
func (o *withOld) signsIn(username, password string) (id string, ok bool) {
	o.T.Helper()
	b := o.Browser()
	a := b.Try(username, password)
	if a.Code != http.StatusSeeOther {
		return "", false
	}
	return strings.CutPrefix(b.Get(a.Header().Get("Location")).Body.String(), "signed in as ")
}

// TestFirstSignInByAnOldDirectory: who is unknown here signs in with the password that the old directory knows, once;
// from then on the account and its password are here.
func TestFirstSignInByAnOldDirectory(t *testing.T) {
	t.Parallel()
	o := newWithOld(t)
	if page := o.Browser().Get("/next"); strings.Contains(page.Body.String(), "Old directory") {
		t.Errorf("the old directory is offered as a way to sign in:\n%s", page.Body)
	}
	if _, ok := o.signsIn("eve", "wrong"); ok || o.old.Tried() != 1 {
		t.Fatalf("a wrong password signs in: %v, the directory was asked %d times", ok, o.old.Tried())
	}
	id, ok := o.signsIn("eve", evePassword)
	if !ok || o.old.Tried() != 2 {
		t.Fatalf("signed in: %v, the directory was asked %d times", ok, o.old.Tried())
	}
	p, err := o.Person.Person(t.Context(), id)
	if err != nil || p.Username != "eve" || p.Name != "Eve Example" || p.EmailVerified || !slices.Equal(p.Groups, []string{"staff"}) {
		t.Errorf("person %+v, %v", p, err)
	}
	if n := o.Events(); n["person.PersonMigratedEvent"] != 1 || n["person.PersonCreatedEvent"] != 2 {
		t.Errorf("events %v, want one person who came", n)
	}
	o.old.Put("eve", "a new one there", identitytest.Eve())
	for name, want := range map[string]bool{"eve": true, "EVE": true, "eve@example.com": true} {
		if again, ok := o.signsIn(name, evePassword); ok != want || again != id {
			t.Errorf("%s: signed in %v as %s, want %s", name, ok, again, id)
		}
	}
	for _, name := range []string{"eve", "eve@example.com"} {
		if _, ok := o.signsIn(name, "a new one there"); ok {
			t.Errorf("%s: the password of the old directory still counts", name)
		}
	}
	if n := o.old.Tried(); n != 2 {
		t.Errorf("the old directory was asked %d times, want twice", n)
	}
	for _, e := range o.Logs.All() {
		if strings.Contains(e.Message+fieldsOf(e.Context), evePassword) {
			t.Errorf("the log has the password: %s", e.Message)
		}
	}
}

// TestExcludedByAnOldDirectory: a detail that the operator excludes does not come along.
func TestExcludedByAnOldDirectory(t *testing.T) {
	t.Parallel()
	o := newWithOld(t, func(c *identity.Config) { c.Providers[0].Excluded = []string{"name"} })
	id, ok := o.signsIn("eve", evePassword)
	p, err := o.Person.Person(t.Context(), id)
	if !ok || err != nil || p.Username != "eve" || p.Name == "Eve Example" {
		t.Errorf("signed in %v as %+v, %v, want eve without her name there", ok, p, err)
	}
}

func fieldsOf(fields []zapcore.Field) string {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	var out strings.Builder
	for _, v := range enc.Fields {
		if s, ok := v.(string); ok {
			out.WriteString(s + "\n")
		}
	}
	return out.String()
}

// TestFirstSignInOfAClient: the same holds where an application sends the password.
func TestFirstSignInOfAClient(t *testing.T) {
	t.Parallel()
	o := newWithOld(t)
	check := func(password string) error {
		_, err := o.CheckPasswordOnly(t.Context(), "shop", "eve", password, audit.Origin{ClientIP: "192.0.2.1"})
		return err
	}
	if err := check("wrong"); !errors.Is(err, authn.ErrBadCredentials) {
		t.Errorf("a wrong password: %v", err)
	}
	if err := check(evePassword); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if err := check(evePassword); err != nil || o.old.Tried() != 2 {
		t.Errorf("again: %v, the directory was asked %d times", err, o.old.Tried())
	}
	o.old.Answer(func(context.Context) error { return errors.New("no route to host") })
	if _, err := o.CheckPasswordOnly(t.Context(), "shop", "fay", "x", audit.Origin{ClientIP: "192.0.2.1"}); !errors.Is(err, secret.ErrBusy) {
		t.Errorf("while the directory is down: %v, want one that is answered by 503", err)
	}
}

// TestOldDirectoryIsAttacked: what strangers try by way of the old directory.
func TestOldDirectoryIsAttacked(t *testing.T) {
	t.Parallel()
	t.Run("attack 701: passwords are sprayed on the old server through us", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		for range 30 {
			o.signsIn("eve", "guess")
			o.signsIn("eve@example.com", "guess")
		}
		if n := o.old.Tried(); n > 5 {
			t.Errorf("the old directory was asked %d times by one address, want 5", n)
		}
		if _, ok := o.signsIn("eve", evePassword); ok {
			t.Error("the right guess after too many wrong ones signs in")
		}
		asked := o.old.Tried()
		for range 30 {
			o.signsIn("nobody", "guess")
		}
		if n := o.old.Tried() - asked; n > 5 {
			t.Errorf("the old directory was asked %d times for an unknown name, want 5", n)
		}
	})
	t.Run("attack 701: passwords are guessed at one old server while another one is down", func(t *testing.T) {
		t.Parallel()
		for _, first := range []string{"up", "down"} {
			down := &idptest.Directory{}
			down.Answer(func(context.Context) error { return errors.New("connection refused") })
			o := newWithOld(t, func(c *identity.Config) {
				c.Providers = append(c.Providers, federation.Provider{ID: "down", Name: "Another directory", Source: down, Migrates: true})
				if first == "down" {
					slices.Reverse(c.Providers)
				}
			})
			for _, name := range []string{"eve", "nobody"} {
				before := o.old.Tried()
				for range 30 {
					o.signsIn(name, "guess")
				}
				if n := o.old.Tried() - before; n > 5 {
					t.Errorf("first %s: the old directory was asked %d times for %s, want 5", first, n, name)
				}
			}
		}
	})
	t.Run("attack 702: the password of an account here is tried at the old server", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		o.old.Put(identitytest.Demo, "another password", idp.Identity{Subject: "uuid-of-demo", Username: identitytest.Demo, Level: 1})
		if _, ok := o.signsIn(identitytest.Demo, "another password"); ok || o.old.Tried() != 0 {
			t.Errorf("signed in: %v, the old directory was asked %d times", ok, o.old.Tried())
		}
	})
	t.Run("attack 702: an empty password binds as nobody", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		for _, empty := range []string{"", "\x00"} {
			if _, ok := o.signsIn("eve", empty); ok || o.old.Tried() != 0 {
				t.Errorf("%q: signed in %v, the old directory was asked %d times", empty, ok, o.old.Tried())
			}
		}
	})
	t.Run("attack 703: a removed or blocked person comes back", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		id, _ := o.signsIn("eve", evePassword)
		if err := o.Person.SetState(t.Context(), id, person.Blocked, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		stays := func(state string) {
			t.Helper()
			for _, name := range []string{"eve", "EVE", "eve@example.com"} {
				if _, ok := o.signsIn(name, evePassword); ok {
					t.Errorf("%s signs in although the person is %s", name, state)
				}
			}
			if n := o.old.Tried(); n != 1 {
				t.Errorf("%s: the old directory was asked %d times, want once", state, n)
			}
		}
		stays("blocked")
		o.Clock.Advance(20 * time.Minute)
		if err := o.Person.SetState(t.Context(), id, person.Removed, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		stays("removed")
	})
	t.Run("attack 703: a person who was removed before, by another name", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		d, err := o.Person.CreatePerson(t.Context(), person.NewPerson{Username: "e.example", Email: "eve@example.com"}, audit.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Person.SetState(t.Context(), d.ID, person.Removed, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		if _, ok := o.signsIn("eve", evePassword); ok {
			t.Error("the person is back")
		}
	})
	t.Run("attack 704: the address of somebody else here", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		yes := true
		if _, err := o.Person.CreatePerson(t.Context(), person.NewPerson{Username: "victim", Email: "eve@example.com", EmailVerified: &yes},
			audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		proven := identitytest.Eve()
		proven.EmailVerified = true
		o.old.Put("eve", evePassword, proven)
		if _, ok := o.signsIn("eve", evePassword); ok {
			t.Error("a second account got the address")
		}
	})
	t.Run("attack 704: a name that people trust is typed", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		nameless := idp.Identity{Subject: "uuid-of-mallory", Level: 1}
		for _, name := range []string{"admin", "boss@example.com"} {
			o.old.Put(name, evePassword, nameless)
			if _, ok := o.signsIn(name, evePassword); ok {
				t.Errorf("%s signs in, although the operator maps no username", name)
			}
		}
		o.old.Put("mallory", evePassword, nameless)
		if _, ok := o.signsIn("mallory", evePassword); !ok {
			t.Error("a plain name does not sign in")
		}
	})
	t.Run("attack 705: the old server is down, or answers garbage", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		for _, failure := range []error{errors.New("connection refused"), &idp.Invalid{Reason: "garbage"}, context.DeadlineExceeded} {
			o.old.Answer(func(context.Context) error { return failure })
			for range 7 { // no guess, so it does not count
				a := o.Browser().Try("eve", evePassword)
				if a.Code != http.StatusServiceUnavailable || !strings.Contains(a.Body.String(), "can’t be checked right now") {
					t.Fatalf("%v: %d\n%s", failure, a.Code, a.Body)
				}
			}
			if _, ok := o.signsIn(identitytest.Demo, identitytest.DemoPassword); !ok {
				t.Errorf("%v: others cannot sign in", failure)
			}
		}
		o.old.Answer(nil)
		if _, ok := o.signsIn("eve", evePassword); !ok {
			t.Error("nobody signs in after the failure")
		}
	})
	t.Run("attack 706: two first sign-ins at once", func(t *testing.T) {
		t.Parallel()
		o := newWithOld(t)
		var wait sync.WaitGroup
		ids := make([]string, 4)
		for i, name := range []string{"eve", "eve@example.com", "eve", "EVE"} {
			o.old.Put(name, evePassword, identitytest.Eve())
			wait.Go(func() { ids[i], _ = o.signsIn(name, evePassword) })
		}
		wait.Wait()
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Errorf("accounts %v, want one", ids)
			}
		}
		if n := o.Events()["person.PersonMigratedEvent"]; n != 1 {
			t.Errorf("%d people came, want one", n)
		}
	})
}

// TestRenamedAfterMoving: the old name of a person who moved here leads to them, and never to the old directory.
func TestRenamedAfterMoving(t *testing.T) {
	t.Parallel()
	o := newWithOld(t)
	id, _ := o.signsIn("eve", evePassword)
	_, err := o.Person.UpdatePerson(t.Context(), id, person.Edit{}, func(_ storage.Tx, d *person.Details) error {
		d.Username = "eva"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eva", "eve"} {
		if again, ok := o.signsIn(name, evePassword); !ok || again != id {
			t.Errorf("%s: signed in %v as %q, want %q", name, ok, again, id)
		}
	}
	if n := o.old.Tried(); n != 1 {
		t.Errorf("the old directory was asked %d times", n)
	}
}

// TestPasswordOfAnOldDirectory: a password that an old directory of the settings has brought signs in no one with a
// role, unless an owner has allowed the directory for them.
func TestPasswordOfAnOldDirectory(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*federation.Provider)
		want   bool
	}{
		"attack 8531: a directory of the settings": {func(p *federation.Provider) { p.Managed = true }, false},
		"an owner has allowed it":                  {func(p *federation.Provider) { p.Managed, p.Administrators = true, true }, true},
		"a directory of the Caddyfile":             {func(*federation.Provider) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var role atomic.Bool
			o := newWithOld(t, identitytest.WithProvider("old", tt.change), func(c *identity.Config) {
				c.HasRole = func(string, []string) bool { return role.Load() }
			})
			if _, ok := o.signsIn("eve", evePassword); !ok {
				t.Fatal("not signed in before the role")
			}
			role.Store(true)
			if _, ok := o.signsIn("eve", evePassword); ok != tt.want {
				t.Errorf("signed in with a role: %v, want %v", ok, tt.want)
			}
		})
	}
}
