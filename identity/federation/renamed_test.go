package federation_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// named is the identity of ann as the provider names her in a form, with the attribute that identifies her there.
func named(subject, form, stable string) *idp.Identity {
	id := identitytest.Ann()
	id.Subject, id.Form, id.Stable = subject, form, stable
	return id
}

// TestProviderChangesItsNames: a provider that names people in another way, such as by another NameID format, does not
// keep them out of the accounts that they have had, for which they have never had a password.
func TestProviderChangesItsNames(t *testing.T) {
	t.Parallel()
	t.Run("an attribute identifies the person", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "persistent", "staff-7"))
		for _, next := range []*idp.Identity{
			named("ann@partner.example", "email", "staff-7"), named("x-1", "email", "staff-7"), named("4711", "persistent", "staff-7"),
		} {
			next.Email, next.EmailVerified, next.Details = "", false, nil // the address has nothing to do with it
			if si := e.MustEnter(e.Browser(), next); si.Subject != first.Subject {
				t.Errorf("as %s signed in as %s, want %s", next.Subject, si.Subject, first.Subject)
			}
		}
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 4 {
			t.Errorf("%d events of linking, want one for each name", n)
		}
		// Only the newest name is linked: an older one that the provider gives to someone else opens no account.
		other := named("x-1", "email", "staff-8")
		other.Email, other.Details = "other@partner.example", nil
		if si := e.MustEnter(e.Browser(), other); si.Subject == first.Subject {
			t.Error("the new owner of an older name is in the account of the old one")
		}
	})
	t.Run("the address identifies the person", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "persistent", ""))
		if si := e.MustEnter(e.Browser(), named("ann@partner.example", "email", "")); si.Subject != first.Subject {
			t.Errorf("signed in as %s, want %s", si.Subject, first.Subject)
		}
	})
	t.Run("a link that was made before the form was known", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "", ""))
		wantLinked(e, "before the next sign-in", e.Browser(), named("ann@partner.example", "email", ""))
		e.MustEnter(e.Browser(), named("4711", "persistent", ""))
		if si := e.MustEnter(e.Browser(), named("ann@partner.example", "email", "")); si.Subject != first.Subject {
			t.Errorf("signed in as %s, want %s", si.Subject, first.Subject)
		}
	})
}

// TestRenamingAttacks: only the same person takes an account along.
func TestRenamingAttacks(t *testing.T) {
	t.Parallel()
	t.Run("the new owner of an address, in the same form", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		e.MustEnter(e.Browser(), named("4711", "persistent", ""))
		wantLinked(e, "another NameID", e.Browser(), named("4712", "persistent", ""))
	})
	t.Run("the new owner of an address, whom the attribute contradicts", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		e.MustEnter(e.Browser(), named("4711", "persistent", "staff-7"))
		wantLinked(e, "another attribute", e.Browser(), named("ann@partner.example", "email", "staff-8"))
	})
	t.Run("the same address and form names at another issuer", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t, identitytest.CoupleByEmail)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "persistent", "staff-7"))
		for _, form := range []string{"persistent", "email"} {
			next := named("4711", form, "staff-7")
			next.Issuer = "https://evil.example"
			wantLinked(e, "another issuer", e.Browser(), next)
		}
		next := named("9", "email", "staff-7")
		next.Issuer, next.Email, next.EmailVerified, next.Details = "https://evil.example", "", false, nil
		if si := e.MustEnter(e.Browser(), next); si.Subject == first.Subject {
			t.Error("an attribute of another issuer opened the account")
		}
	})
	t.Run("somebody else's attribute, once it is known", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "persistent", "staff-7"))
		thief := named("6666", "persistent", "")
		thief.Email, thief.Details = "thief@partner.example", nil
		second := e.MustEnter(e.Browser(), thief)
		thief.Stable = "staff-7"
		if si := e.MustEnter(e.Browser(), thief); si.Subject != second.Subject {
			t.Errorf("signed in as %s, want the own account", si.Subject)
		}
		if si := e.MustEnter(e.Browser(), named("ann@partner.example", "email", "staff-7")); si.Subject != first.Subject {
			t.Errorf("the attribute leads to %s, want its first owner", si.Subject)
		}
	})
	t.Run("a person who is blocked or removed", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		first := e.MustEnter(e.Browser(), named("4711", "persistent", "staff-7"))
		if err := e.Person.SetState(t.Context(), first.Subject, person.Blocked, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		b := e.Browser()
		if a := e.Through(b, named("ann@partner.example", "email", "staff-7")); a.Code != 403 || b.IsSignedIn() {
			t.Errorf("blocked: %d", a.Code)
		}
		if err := e.Person.RemovePerson(t.Context(), first.Subject, audit.Actor{},
			func(storage.Tx, *person.Details) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for key := range e.Dump() {
			if strings.Contains(key, "identity_external") {
				t.Errorf("after the removal there is %q", key)
			}
		}
		if si := e.MustEnter(e.Browser(), named("ann@partner.example", "email", "staff-7")); si.Subject == first.Subject {
			t.Error("a removed person is back")
		}
	})
}
