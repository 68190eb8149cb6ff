package person_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func partitioned(names ...string) func(*identity.Config) {
	return func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: true, Names: names} }
}

func TestPartitionsKeepUsernamesApart(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, partitioned())
	add := func(n person.NewPerson) (person.Person, error) {
		return h.Person.AddPerson(t.Context(), n, audit.Actor{})
	}
	here, err := add(person.NewPerson{Username: "anna", Password: secret.New("the one of default")})
	if err != nil {
		t.Fatal(err)
	}
	there, err := add(person.NewPerson{Username: `acme\anna`, Password: secret.New("the one of acme")})
	if err != nil {
		t.Fatal(err)
	}
	if there.Partition != "acme" || there.Username != "anna" || here.Partition != "" {
		t.Errorf("AddPerson = %+v and %+v, want anna of acme and of the default partition", there, here)
	}
	for _, taken := range []person.NewPerson{
		{Username: "ANNA"},
		{Username: `ACME\Anna`},
		{Username: "anna", Partition: "acme"},
		{Username: `default\anna`},
	} {
		if _, err := add(taken); !errors.Is(err, person.ErrUsernameTaken) {
			t.Errorf("AddPerson(%+v) = %v, want %v", taken, err, person.ErrUsernameTaken)
		}
	}
	for typed, want := range map[string]string{
		"anna": here.ID, `default\anna`: here.ID, `acme\ANNA`: there.ID,
		` Acme\anna `: there.ID, there.ID: there.ID,
	} {
		if p, err := h.Person.Person(t.Context(), typed); err != nil || p.ID != want {
			t.Errorf("Person(%q) = %s, %v, want %s", typed, p.ID, err, want)
		}
	}
	for _, nobody := range []string{
		`other\anna`, `acme\\anna`, `\anna`, `acme\`, `ac me\anna`, `../x\anna`,
		strings.Repeat("x", 100) + `\anna`, `acme\` + here.ID,
	} {
		if _, err := h.Person.Person(t.Context(), nobody); !errors.Is(err, person.ErrNoPerson) {
			t.Errorf("Person(%q) = %v, want %v", nobody, err, person.ErrNoPerson)
		}
	}
	for username, password := range map[string]string{"anna": "the one of default", `acme\anna`: "the one of acme"} {
		h.Browser().SignIn(username, password)
		si, err := h.CheckPassword(t.Context(), "c", username, password, audit.Origin{ClientIP: "203.0.113.1"})
		if err != nil || (si.Subject == there.ID) != strings.HasPrefix(username, "acme") {
			t.Errorf("CheckPassword(%q) = %+v, %v", username, si, err)
		}
	}
	if _, err := h.CheckPassword(t.Context(), "c", "anna", "the one of acme", audit.Origin{}); !errors.Is(err, authn.ErrBadCredentials) {
		t.Errorf("CheckPassword of one partition's password in another: %v, want %v", err, authn.ErrBadCredentials)
	}
	h.CheckInvariants()
}

func TestPartitionNames(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, partitioned("acme"))
	for typed, want := range map[string]bool{
		`acme\a`: true, `default\a`: true, "b": true, `other\a`: false, `acme\a\b`: false,
		`Bad Name\a`: false, `\a`: false,
	} {
		_, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: typed}, audit.Actor{})
		if invalid := new(person.ValidationError); (err == nil) != want || err != nil && !errors.As(err, &invalid) {
			t.Errorf("AddPerson(%q) = %v, want it to be taken: %t", typed, err, want)
		}
	}
	off := identitytest.New(t)
	if _, err := off.Person.AddPerson(t.Context(), person.NewPerson{Username: "a", Partition: "acme"}, audit.Actor{}); err == nil {
		t.Error("AddPerson with a partition while partitions are off: taken")
	}
	if _, err := off.Person.AddPerson(t.Context(), person.NewPerson{Username: `CORP\alice`}, audit.Actor{}); !errors.As(err,
		new(*person.ValidationError)) {
		t.Errorf(`AddPerson(CORP\alice) while partitions are off = %v, want a *ValidationError`, err)
	}
}

// TestPartitionsAreSwitchedOn: persons created before partitions were switched on belong to the default partition.
func TestPartitionsAreSwitchedOn(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	before, err := h.Person.Person(t.Context(), identitytest.Demo)
	if err != nil {
		t.Fatal(err)
	}
	partitioned()(&h.Config)
	h.Start()
	h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	if p, err := h.Person.Person(t.Context(), `default\`+identitytest.Demo); err != nil || p.ID != before.ID {
		t.Errorf("Person = %s, %v, want %s", p.ID, err, before.ID)
	}
}

func TestListOfPartitions(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, partitioned())
	for _, n := range []string{`b\2`, "z", `a\9`, `b\1`, "c"} {
		if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: n}, audit.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for after := ""; ; {
		list, err := h.Person.ListPersons(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			after, err = h.Person.InPartition(h.Person.PartitionOf(p), p.Username)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, after)
		}
		if len(list) < 2 {
			break
		}
	}
	want := []string{`default\c`, `default\` + identitytest.Demo, `default\z`, `a\9`, `b\1`, `b\2`}
	if !slices.Equal(got, want) {
		t.Errorf("ListPersons page by page = %q, want %q", got, want)
	}
}

// TestEventsOfPartitions: every event about a person carries the person's partition.
func TestEventsOfPartitions(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, partitioned())
	p, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: `acme\anna`, Password: secret.New(identitytest.DemoPassword)},
		audit.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	h.Browser().SignIn(`acme\anna`, identitytest.DemoPassword)
	if a := h.Browser().Try(`acme\anna`, "wrong"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("sign-in with a wrong password: status %d, want 422", a.Code)
	}
	if err := h.Person.SetState(t.Context(), p.ID, person.Blocked, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = h.Store.Store.View(t.Context(), func(tx storage.Tx) error {
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			if e.PersonID == p.ID {
				seen[e.Type] = true
				if e.Partition != "acme" {
					t.Errorf("event %s has the partition %q, want acme", e.Type, e.Partition)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"person.PersonCreatedEvent", "login.LoginSucceededEvent", "login.LoginFailedEvent",
		"person.PersonBlockedEvent",
	} {
		if !seen[kind] {
			t.Errorf("no event %s", kind)
		}
	}
}
