package person_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// differences are the reasons and mends after a restart with these persons, a line each.
func differences(h *identitytest.Harness, persons ...person.NewPerson) []string {
	h.T.Helper()
	h.Config.Persons = persons
	h.Start()
	var out []string
	for _, d := range h.Service.Differences {
		out = append(out, d.Option+": "+d.Reason+": "+d.Mend)
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
	ann := person.NewPerson{Username: "ann@example.com", Password: secret.New("the first password of ann"), Name: "Ann One", Groups: []string{"staff", "admins"}}
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
	for _, want := range []string{"password: person ann@example.com: has another password", "`caddy gatehouse person passwd ann@example.com`", `name: person ann@example.com: name is "Ann One"`, "person import FILE --update"} {
		if !strings.Contains(got, want) {
			t.Errorf("differences lack %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "second password") {
		t.Errorf("the differences repeat the password: %s", got)
	}

	ann.Groups = nil
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "the Caddyfile names none") || !strings.Contains(got[0], "group leave staff ann@example.com") {
		t.Errorf("without groups in the Caddyfile the differences are %q", got)
	}
	if got := groupsOf(h, ann.Username); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("groups = %v, want those of the storage", got)
	}

	if err := h.Person.SetState(t.Context(), ann.Username, person.Blocked, event.Actor{}); err != nil {
		t.Fatal(err)
	}
	ann.Groups = []string{"staff"}
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "person unblock ann@example.com") {
		t.Errorf("the differences of a blocked person are %q", got)
	}
}

// A person who is gone from the Caddyfile can still sign in. That is said once.
func TestPersonGoneFromTheCaddyfile(t *testing.T) {
	t.Parallel()
	ann, bob := person.NewPerson{Username: "ann@example.com"}, person.NewPerson{Username: "bob@example.com"}
	h := identitytest.New(t, func(c *identity.Config) { c.Persons = []person.NewPerson{ann, bob} })
	if got := differences(h, ann); len(got) != 1 || !strings.Contains(got[0], "person bob@example.com: is gone from the Caddyfile") || !strings.Contains(got[0], "person block bob@example.com") {
		t.Errorf("differences = %q", got)
	}
	if got := differences(h, ann); len(got) != 0 {
		t.Errorf("said again: %q", got)
	}
	if got := differences(h, ann, bob); len(got) != 0 {
		t.Errorf("back in the Caddyfile: %q", got)
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
