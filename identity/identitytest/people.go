package identitytest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// Fill posts to one of our addresses with the CSRF token of a page.
func (b *Browser) Fill(page *Answer, action string, fields ...string) *Answer {
	v := url.Values{"csrf": {page.CSRF()}}
	for i := 0; i+1 < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	return b.Do(http.MethodPost, action, v.Encode())
}

// Details returns everything that is stored about a person.
func (h *Harness) Details(username string) person.Details {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), username)
	if err != nil {
		h.T.Fatal(err)
	}
	var d person.Details
	if err := h.Store.View(h.T.Context(), func(tx storage.Tx) (err error) {
		d, err = h.Person.Details(tx, p.ID)
		return err
	}); err != nil {
		h.T.Fatal(err)
	}
	return d
}

// DemandLogin makes GET /next ask for a new sign-in (prompt=login).
func (h *Harness) DemandLogin() {
	from := h.Clock.Now().Add(time.Second)
	before := h.Demand
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.NotBefore = from
		return d
	}
	h.Clock.Advance(time.Second)
}

// WantNotices compares the notices sent with kinds and addresses such as "welcome ann@example.com".
func WantNotices(t *testing.T, what string, m *notifytest.Notices, want ...string) []notify.Notice {
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

// Add adds a person.
func (h *Harness) Add(n person.NewPerson) person.Person {
	h.T.Helper()
	p, err := h.Person.AddPerson(h.T.Context(), n, Ops)
	if err != nil {
		h.T.Fatal(err)
	}
	return p
}

// Ops is an operator who changes people.
var Ops = audit.Actor{ID: "ops", Name: "ops"}

// IDOf returns the ID of a person.
func (h *Harness) IDOf(username string) string {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), username)
	if err != nil {
		h.T.Fatal(err)
	}
	return p.ID
}

// Admin is the administrator who changes people.
var Admin = audit.Actor{ID: "ops", Name: "ops"}

// Stored counts the records of a table.
func (h *Harness) Stored(table string) (n int) {
	for key := range h.Dump() {
		if name, _, _ := strings.Cut(key, "/"); name == table {
			n++
		}
	}
	return n
}

// NewConfigured returns a harness with configuration units that the test can change.
func NewConfigured(t *testing.T, change ...func(*identity.Config)) (*Harness, *settings.Units) {
	t.Helper()
	h := New(t, change...)
	u := settings.Defaults()
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Start()
	return h, &u
}

// UnitsOf returns units as a service reads them from JSON.
func UnitsOf(t *testing.T, raw string) *settings.Units {
	t.Helper()
	h := New(t)
	s, err := settings.New(t.Context(), settings.Config{Bootstrap: []byte(raw)}, settings.Deps{Store: h.Store, Keyring: h.Keyring})
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Wrong sends n wrong passwords and returns the last answer.
func (b *Browser) Wrong(username string, n int) (a *Answer) {
	b.H.T.Helper()
	for range n {
		a = b.Try(username, "wrong password")
	}
	return a
}

// Watcher records what it is told.
type Watcher struct {
	Told   storagetest.Notes[string]
	Frames []string
	Err    error
}

// NewWatcher returns a watcher that has been told nothing.
func NewWatcher() *Watcher { return &Watcher{Told: storagetest.NewNotes[string]("watcher")} }

// SessionEnded implements session.Watcher.
func (w *Watcher) SessionEnded(tx storage.Tx, person, session string) error {
	return errors.Join(w.Err, w.Told.Add(tx, "session "+session+" of "+person))
}

// SessionsEnded implements session.Watcher.
func (w *Watcher) SessionsEnded(tx storage.Tx, person, except string) error {
	return errors.Join(w.Err, w.Told.Add(tx, "all of "+person+" but "+except))
}

// TokensEnded implements session.Watcher.
func (w *Watcher) TokensEnded(tx storage.Tx, person, session string) error {
	return errors.Join(w.Err, w.Told.Add(tx, "tokens of "+session+" of "+person))
}

// LogoutFrames implements session.Watcher.
func (w *Watcher) LogoutFrames(context.Context, string, string) ([]string, error) {
	return w.Frames, w.Err
}
