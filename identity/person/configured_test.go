package person_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// differences are the reasons and fixes after a restart with these persons, a line each.
func differences(h *identitytest.Harness, persons ...person.NewPerson) []string {
	h.T.Helper()
	h.Config.Persons = persons
	h.Start()
	var out []string
	for _, d := range h.Service.Differences {
		out = append(out, d.Option+": "+d.Reason+": "+d.Fix)
	}
	return out
}

func groupsOf(h *identitytest.Harness, username string) []string {
	h.T.Helper()
	p, err := h.Person.Person(context.Background(), username)
	if err != nil {
		h.T.Fatal(err)
	}
	return p.Groups
}

// A person of the Caddyfile is a seed. Their groups follow the Caddyfile; everything else that differs is said, with
// the command that makes it so.
func TestPersonsThatDifferFromTheCaddyfile(t *testing.T) {
	t.Parallel()
	ann := person.NewPerson{
		Username: "ann@example.com", Password: secret.New("the first password of ann"), Name: "Ann One",
		Groups: []string{"staff", "admins"},
	}
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann} })
	if got := differences(h, ann); len(got) != 0 {
		t.Errorf("nothing was changed, and the differences are %q", got)
	}

	changed := ann
	changed.Groups = []string{"staff"}
	if got := differences(h, changed); len(got) != 0 {
		t.Errorf("groups follow the Caddyfile, and the differences are %q", got)
	}
	if got := groupsOf(h, ann.Username); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("groups = %v, want those of the Caddyfile", got)
	}
	if n := h.Events()[person.EventUpdated.Type]; n != 1 {
		t.Errorf("%d events of the change of groups, want 1", n)
	}

	changed.Password, changed.Name = secret.New("the second password of ann"), "Ann Two"
	got := strings.Join(differences(h, changed), "\n")
	for _, want := range []string{
		"password: person ann@example.com: has a different password", "`caddy gatehouse person passwd ann@example.com`",
		`name: person ann@example.com: name is "Ann One"`, "caddy gatehouse import FILE --update",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("differences lack %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "second password") {
		t.Errorf("the differences repeat the password: %s", got)
	}

	ann.Groups = nil
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "the Caddyfile names none") ||
		!strings.Contains(got[0], "group leave staff ann@example.com") {
		t.Errorf("without groups in the Caddyfile the differences are %q", got)
	}
	if got := groupsOf(h, ann.Username); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("groups = %v, want those of the storage", got)
	}

	if err := h.Person.SetState(t.Context(), ann.Username, person.Blocked, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	ann.Groups = []string{"staff"}
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "person unblock ann@example.com") {
		t.Errorf("the differences of a blocked person are %q", got)
	}
}

// A person who is no longer in the Caddyfile can still sign in. That is said once.
func TestPersonGoneFromTheCaddyfile(t *testing.T) {
	t.Parallel()
	ann, bob := person.NewPerson{Username: "ann@example.com"}, person.NewPerson{Username: "bob@example.com"}
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann, bob} })
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "person bob@example.com: is no longer in the Caddyfile") ||
		!strings.Contains(got[0], "person block bob@example.com") {
		t.Errorf("differences = %q", got)
	}
	if got := differences(h, ann); len(got) != 0 {
		t.Errorf("said again: %q", got)
	}
	if got := differences(h, ann, bob); len(got) != 0 {
		t.Errorf("back in the Caddyfile: %q", got)
	}
}

// The command that the difference names is about the person of that partition, not one of the same name in another.
func TestPersonOfAPartitionGoneFromTheCaddyfile(t *testing.T) {
	t.Parallel()
	ann, bob := person.NewPerson{Username: "ann"}, person.NewPerson{Username: `acme\ann`}
	h := identitytest.New(t, partitioned(), func(c *identity.Config) { c.Persons = []person.NewPerson{ann, bob} })
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "person block 'acme\\ann'`") {
		t.Errorf("differences = %q, want the person of acme", got)
	}
}

// hashesOf returns how many slow hashes a restart with these persons computes, and the differences.
func hashesOf(h *identitytest.Harness, persons ...person.NewPerson) (hashes int64, differ []string) {
	h.T.Helper()
	before := h.Hasher.Computed()
	differ = differences(h, persons...)
	return h.Hasher.Computed() - before, differ
}

// A start waits for each slow hash. What was compared once costs none again, whatever came out, and whatever is another
// since then is compared again.
func TestPasswordsOfTheCaddyfileAreComparedOnce(t *testing.T) {
	t.Parallel()
	const first, second = "the first password of ann", "the second password of ann"
	ann := person.NewPerson{Username: "ann@example.com", Password: secret.New(first)}
	other := ann
	other.Password = secret.New(second)
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann} })
	restart := func(when string, n person.NewPerson, want int64, differs bool) {
		t.Helper()
		if hashes, got := hashesOf(h, n); hashes != want || (len(got) == 1) != differs {
			t.Errorf("%s: a start computes %d hashes and differs in %q, want %d and a difference: %t", when, hashes, got, want, differs)
		}
	}
	restart("after the person was created", ann, 0, false)
	restart("another password in the Caddyfile", other, 1, true)
	restart("which was compared", other, 0, true)
	h.Browser().SignIn(ann.Username, first)

	if err := h.Person.SetPassword(t.Context(), ann.Username, secret.New(second), identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	restart("the person has the password of the Caddyfile now", other, 1, false)
	restart("which was compared", other, 0, false)
	restart("the first password in the Caddyfile", ann, 1, true)

	if err := h.Person.SetPassword(t.Context(), ann.Username, secret.New(first), identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	restart("the same password with a new hash", ann, 1, false)
	ann.Password = secret.String{}
	restart("no password in the Caddyfile", ann, 0, false)
	ann.Password = secret.New(first)
	restart("the password is back", ann, 1, false)
	ann.Groups = []string{"staff"}
	restart("other groups", ann, 0, false)
	restart("the same groups", ann, 0, false)
}

// A start computes a bounded number of hashes, and the next one goes on with the rest.
func TestManyPasswordsOfTheCaddyfileAreComparedInTime(t *testing.T) {
	t.Parallel()
	const most, more = 50, 5
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = nil })
	var persons []person.NewPerson
	for i := range most + more {
		n := person.NewPerson{Username: fmt.Sprintf("person%d@example.com", i), Password: secret.New("a password of the Caddyfile")}
		if _, err := h.Person.AddPerson(t.Context(), n, identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		persons = append(persons, n)
	}
	for i, want := range []int64{most, more, 0} {
		if hashes, differ := hashesOf(h, persons...); hashes != want || len(differ) != 0 {
			t.Errorf("start %d computes %d hashes and differs in %q, want %d", i+1, hashes, differ, want)
		}
	}
}

// What is remembered of a comparison is of no use to a thief of the store without its encryption key: no guess can be
// tested against it. It outlives a rotation of the key.
func TestComparedPasswordsInAStolenStore(t *testing.T) {
	t.Parallel()
	ann := person.NewPerson{Username: "ann@example.com", Password: secret.New("the first password of ann")}
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann} })
	ring := func(first byte, more ...byte) *secret.Keyring {
		t.Helper()
		var keys [][]byte
		for _, b := range append([]byte{first}, more...) {
			keys = append(keys, bytes.Repeat([]byte{b}, secret.KeySize))
		}
		k, err := secret.NewKeyring(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	remembered := func() (out []string) {
		t.Helper()
		for key, value := range h.Dump() {
			if strings.HasPrefix(key, "identity_configured") {
				out = append(out, value)
			}
		}
		return out
	}
	if got := remembered(); len(got) != 1 || len(got[0]) < 32 {
		t.Fatalf("%d comparisons are remembered: %q, want 1", len(got), got)
	}
	for _, step := range []struct {
		name   string
		keys   *secret.Keyring
		hashes int64
	}{
		{"a rotated key", ring(1, 0), 0},
		{"without the former key", ring(1), 0},
		{"the store with the key of somebody else", ring(2), 1},
		{"and with that again", ring(2), 0},
	} {
		before := remembered()
		h.Keyring = step.keys
		if hashes, differ := hashesOf(h, ann); hashes != step.hashes || len(differ) != 0 {
			t.Errorf("%s: a start with the right password computes %d hashes and differs in %q, want %d", step.name, hashes, differ, step.hashes)
		}
		if after := remembered(); step.name == "a rotated key" && slices.Equal(before, after) {
			t.Errorf("%s: the comparison is still that of the former key", step.name)
		}
	}
	if err := h.Person.RemovePerson(t.Context(), idOf(h, ann.Username), identitytest.Admin,
		func(storage.Tx, *person.Details) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := remembered(); len(got) != 0 {
		t.Errorf("of a person who was removed %q is remembered", got)
	}
}

func idOf(h *identitytest.Harness, username string) string {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), username)
	if err != nil {
		h.T.Fatal(err)
	}
	return p.ID
}

// The settings refuse a person of the Caddyfile who has to be created. The others are served, and the person comes once
// the two agree.
func TestPersonOfTheCaddyfileThatTheSettingsRefuse(t *testing.T) {
	t.Parallel()
	ann := person.NewPerson{Username: "ann@example.com", Password: secret.New("the first password of ann")}
	bob := person.NewPerson{Username: "bob@example.com", GivenName: "Bob", FamilyName: "Stone"}
	for name, c := range map[string]struct {
		change func(*settings.Units)
		reason string
	}{
		"the policy of passwords": {
			func(u *settings.Units) { u.PasswordPolicy.MinLength = 30 },
			"cannot be created: password must have 30 to ",
		},
		"mandatory fields": {
			func(u *settings.Units) { u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true },
			"cannot be created: given_name is required",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			u := settings.Defaults()
			c.change(&u)
			h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
			got := strings.Join(differences(h, ann, bob), "\n")
			if !strings.Contains(got, ": person ann@example.com: does not exist and "+c.reason) {
				t.Errorf("differences = %q, want %q", got, c.reason)
			}
			idOf(h, bob.Username)
			h.Units = nil
			if got := strings.Join(differences(h, ann, bob), "\n"); strings.Contains(got, ann.Username) {
				t.Errorf("differences without these settings = %q", got)
			}
			idOf(h, ann.Username)
		})
	}
}

// The group of a person of the Caddyfile was renamed, and the storage was full before all members had the new name.
func TestPersonOfTheCaddyfileInAGroupWithoutAllItsMembers(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	ann := renamedInPart(h)
	ann.Groups = []string{"crew"}
	if got := strings.Join(differences(h, ann), "\n"); !strings.Contains(got, "groups: person "+ann.Username+": does not get the groups") {
		t.Errorf("differences = %q", got)
	}
	if n, err := h.Person.FinishGroups(t.Context()); n != 0 || err != nil {
		t.Errorf("%d groups finished, %v: the call that renames it can still be on its way", n, err)
	}
	h.Clock.Advance(time.Hour)
	if n, err := h.Person.FinishGroups(t.Context()); n != 1 || err != nil {
		t.Errorf("%d groups finished, %v, want 1", n, err)
	}
	if got := differences(h, ann); len(got) != 0 || !slices.Equal(groupsOf(h, ann.Username), []string{"crew"}) {
		t.Errorf("groups = %q with the differences %q, want crew", groupsOf(h, ann.Username), got)
	}
}

// A password that cannot be compared now, such as while the server is busy, does not stop a start or a reload.
func TestPasswordOfTheCaddyfileCannotBeCompared(t *testing.T) {
	t.Parallel()
	ann := person.NewPerson{Username: "ann@example.com", Password: secret.New("the first password of ann")}
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann} })
	p, err := h.Person.Person(t.Context(), ann.Username)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
		return person.Passwords.Put(tx, p.ID, person.PasswordRecord{PHC: "$unknown$"}, time.Time{})
	}); err != nil {
		t.Fatal(err)
	}
	if got := differences(h, ann); len(got) != 0 {
		t.Errorf("differences = %q", got)
	}
}
