package notice_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/access/notice"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

const wiki = "https://wiki.example.com"

// office is a store with persons who ask, and those who are told of it.
type office struct {
	*access.Service
	*testing.T
	persons *person.Service
	mails   *notifytest.Notices
	now     time.Time
}

func newOffice(t *testing.T, c notice.Config) *office {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	o := &office{T: t, mails: new(notifytest.Notices), now: time.Date(2035, 11, 23, 12, 0, 0, 0, time.UTC)}
	o.mails.In(store)
	now := func() time.Time { return o.now }
	events := &audit.Recorder{Random: rand.Reader, Now: now}
	o.persons, err = person.New(t.Context(), person.Config{}, person.Deps{
		Store: store, Keyring: ring, Hasher: secret.NewHasher(secret.HashCost{}), Events: events, Notify: o.mails, Log: zap.NewNop(),
		Now: now, Random: rand.Reader,
		Units: func(storage.Tx) (*settings.Units, error) { return new(settings.Units), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.persons.OnWelcome(func(storage.Tx, person.Recipient, person.Welcome, time.Time) error { return nil })
	c.Page = func(_ storage.Tx, id string) (string, error) { return "/admin/requests/" + id, nil }
	o.Service = access.New(access.Deps{Store: store, Events: events, Now: now, Tell: notice.New(c, o.persons).Tell})
	return o
}

func (o *office) add(address string, verified bool, groups ...string) audit.Actor {
	o.Helper()
	p, err := o.persons.AddPerson(context.Background(),
		person.NewPerson{Username: strings.Split(address, "@")[0], Email: address, EmailVerified: &verified, Groups: groups}, audit.Actor{})
	if err != nil {
		o.Fatal(err)
	}
	o.mails.Take()
	return audit.Actor{ID: p.ID, Name: p.Username}
}

func (o *office) ask(by audit.Actor, site, reason string) {
	o.Helper()
	if err := o.Ask(o.Context(), site, reason, by); err != nil {
		o.Fatal(err)
	}
}

// to returns the addresses that were written to, sorted.
func to(sent []notify.Notice) (out []string) {
	for _, n := range sent {
		out = append(out, n.To)
	}
	slices.Sort(out)
	return out
}

// TestWhoIsTold: operators read who asks for what and why, and the person reads what was decided.
func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	o := newOffice(t, notice.Config{Addresses: []string{"desk@example.com", "Root@example.com"}, Groups: []string{"admins", "nobody"}})
	ada := o.add("ada@example.com", true)
	o.add("root@example.com", true, "admins")
	o.add("ops@example.com", true, "admins")
	o.add("unsure@example.com", false, "admins") // a stranger can own the address
	o.ask(ada, wiki, "to write the minutes")
	sent := o.mails.Take()
	if got := to(sent); !slices.Equal(got, []string{"Root@example.com", "desk@example.com", "ops@example.com"}) {
		t.Fatalf("told are %q", got)
	}
	for _, n := range sent {
		if n.Kind != notify.AccessRequested || n.Data["person"] != "ada" || n.Data["site"] != "wiki.example.com" ||
			n.Data["note"] != "to write the minutes" || !strings.HasPrefix(n.Link, "/admin/requests/") {
			t.Errorf("operators are told %+v", n)
		}
	}
	if _, err := o.Refuse(t.Context(), ada.ID, wiki, "Ask https://team.example.com first", audit.Actor{Name: "ops"}); err != nil {
		t.Fatal(err)
	}
	sent = o.mails.Take()
	if len(sent) != 1 || sent[0].Kind != notify.AccessRefused || sent[0].To != "ada@example.com" || sent[0].Link != "" ||
		sent[0].Data["note"] != "Ask https://team.example.com first" {
		t.Errorf("after a refusal %+v are told", sent)
	}
	if _, err := o.Grant(t.Context(), ada.ID, wiki, access.Terms{For: time.Hour}, "", audit.Actor{Name: "ops"}); err != nil {
		t.Fatal(err)
	}
	sent = o.mails.Take()
	if len(sent) != 1 || sent[0].Kind != notify.AccessGranted || sent[0].To != "ada@example.com" || sent[0].Link != wiki+"/" ||
		!sent[0].Until.Equal(o.now.Add(time.Hour)) {
		t.Errorf("after a grant %+v are told", sent)
	}
	if _, err := o.Revoke(t.Context(), ada.ID, wiki, "", audit.Actor{Name: "ops"}); err != nil || len(o.mails.Take()) > 0 {
		t.Errorf("a withdrawal is told: %v", err)
	}
}

// TestOperatorsAreNotFlooded: who asks again and again, or asks in words that lead elsewhere, or many who ask at once.
func TestOperatorsAreNotFlooded(t *testing.T) {
	t.Parallel()
	t.Run("attack 336: operators are flooded with mails, or led to another place", func(t *testing.T) {
		o := newOffice(t, notice.Config{Addresses: []string{"desk@example.com"}})
		ada := o.add("ada@example.com", true)
		told := 0
		for range 24 {
			o.ask(ada, wiki, "please")
			told += len(o.mails.Take())
			if _, err := o.Refuse(t.Context(), ada.ID, wiki, "", audit.Actor{Name: "ops"}); err != nil {
				t.Fatal(err)
			}
			o.mails.Take()
			o.now = o.now.Add(time.Hour)
		}
		if told != 1 {
			t.Errorf("who asks 24 times in a day is told of %d times, want once", told)
		}
		o.ask(ada, wiki, "urgent: sign in at evil.example")
		if sent := o.mails.Take(); len(sent) != 1 || sent[0].Data["note"] != "" {
			t.Errorf("on the next day operators are told %+v, want one mail without an address of another's", sent)
		}
		o.now = o.now.Add(time.Hour)
		told = 0
		for i := range 30 {
			o.ask(audit.Actor{ID: fmt.Sprint(i), Name: "https://evil.example"}, wiki, "let me in")
			for _, n := range o.mails.Take() {
				if told++; strings.Contains(n.Data["person"], "evil") {
					t.Errorf("operators read %q", n.Data["person"])
				}
			}
		}
		if told != 20 {
			t.Errorf("of 30 who ask at once %d are told of, want 20", told)
		}
	})
}
