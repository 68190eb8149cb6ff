package person_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const breached = "password from a breach"

// breachList is a breach check that knows one password, or fails with err.
type breachList struct {
	err    error
	closed bool
	asked  int
}

func (b *breachList) Breached(_ context.Context, password string) (bool, error) {
	b.asked++
	return password == breached, b.err
}

func (b *breachList) Closed() bool { return b.closed }

// withBreaches returns a harness whose password policy blocks breached passwords.
func withBreaches(t *testing.T, b *breachList) (*identitytest.Harness, *settings.Units) {
	t.Helper()
	h, u := identitytest.NewConfigured(t)
	u.PasswordPolicy.BreachedPasswordBlocked = true
	h.Breached = b
	h.Start()
	return h, u
}

// waysIn are the ways to set a password.
var waysIn = map[string]func(h *identitytest.Harness, password string) error{
	"a new person": func(h *identitytest.Harness, password string) error {
		_, err := h.Person.AddPerson(h.T.Context(), person.NewPerson{Username: "ann", Password: secret.New(password)}, identitytest.Ops)
		return err
	},
	"a command": func(h *identitytest.Harness, password string) error {
		return h.Person.SetPassword(h.T.Context(), identitytest.Demo, secret.New(password), identitytest.Ops)
	},
	"a directory": func(h *identitytest.Harness, password string) error {
		p, err := h.Person.Person(h.T.Context(), identitytest.Demo)
		if err == nil {
			_, err = h.Person.UpdatePerson(h.T.Context(), p.ID, person.Edit{By: identitytest.Ops, Password: secret.New(password)},
				func(storage.Tx, *person.Details) error { return nil })
		}
		return err
	},
	"an import": func(h *identitytest.Harness, password string) error {
		list := []ldapmigration.Person{{NewPerson: person.NewPerson{Username: "bob", Password: secret.New(password)}}}
		out, err := h.Migration.Import(h.T.Context(), list, ldapmigration.How{}, identitytest.Ops)
		if err == nil && out[0].Status == ldapmigration.Failed {
			field, problem, _ := strings.Cut(out[0].Error, " ")
			err = &person.ValidationError{Field: field, Problem: problem}
		}
		return err
	},
	"the configuration": func(h *identitytest.Harness, password string) error {
		cfg := h.Config
		cfg.Persons = []person.NewPerson{{Username: "conf", Password: secret.New(password)}}
		s, err := identity.New(h.T.Context(), cfg, h.Deps)
		if err != nil {
			return err
		}
		for _, d := range s.Differences {
			if _, said, ok := strings.Cut(d.Reason, "cannot be created: "); ok {
				field, problem, _ := strings.Cut(said, " ")
				return &person.ValidationError{Field: field, Problem: problem}
			}
		}
		return nil
	},
}

func TestBreachedPasswordBlocked(t *testing.T) {
	t.Parallel()
	for way, set := range waysIn {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			list := new(breachList)
			h, _ := withBreaches(t, list)
			refused := new(person.ValidationError)
			if err := set(h, breached); !errors.As(err, &refused) || refused.Field != "password" || !strings.Contains(err.Error(), "breach") ||
				strings.Contains(err.Error(), breached) {
				t.Errorf("a password of a breach: %v, want a refusal that does not repeat it", err)
			}
			if err := set(h, "one that nobody knows"); err != nil {
				t.Errorf("another password: %v", err)
			}
			if list.asked != 2 {
				t.Errorf("asked %d times, want twice", list.asked)
			}
			h, u := withBreaches(t, list)
			u.PasswordPolicy.BreachedPasswordBlocked = false
			list.asked = 0
			if err := set(h, breached); err != nil || list.asked != 0 {
				t.Errorf("switched off: %v, asked %d times, want neither", err, list.asked)
			}
		})
	}
	t.Run("what the policy refuses is not asked for", func(t *testing.T) {
		t.Parallel()
		list := new(breachList)
		h, _ := withBreaches(t, list)
		if err := waysIn["a command"](h, "short"); err == nil || list.asked != 0 {
			t.Errorf("a short password: %v, asked %d times", err, list.asked)
		}
	})
}

func TestBreachServiceDown(t *testing.T) {
	t.Parallel()
	for way, set := range waysIn {
		t.Run("attack 229: open, "+way, func(t *testing.T) {
			t.Parallel()
			h, _ := withBreaches(t, &breachList{err: errors.New("down")})
			if err := set(h, breached); err != nil {
				t.Errorf("a password of which nobody can tell: %v, want it taken", err)
			}
			if n := h.Events()["password.BreachCheckUnavailableEvent"]; n != 1 {
				t.Errorf("%d events, want one", n)
			}
		})
		t.Run("attack 229: closed, "+way, func(t *testing.T) {
			t.Parallel()
			h, _ := withBreaches(t, &breachList{err: errors.New("down"), closed: true})
			err := set(h, "one that nobody knows")
			if way == "the configuration" { // the server starts, and adds the person later
				if _, missing := h.Person.Person(t.Context(), "conf"); err != nil || !errors.Is(missing, person.ErrNoPerson) {
					t.Errorf("New = %v, and the person: %v, want no error and nobody", err, missing)
				}
				return
			}
			if !errors.Is(err, storage.ErrUnavailable) || strings.Contains(err.Error(), "nobody knows this") {
				t.Errorf("a password of which nobody can tell: %v, want a doubt", err)
			}
		})
	}
	t.Run("events are bounded", func(t *testing.T) {
		t.Parallel()
		h, _ := withBreaches(t, &breachList{err: errors.New("down")})
		for range 30 {
			if err := waysIn["a command"](h, breached); err != nil {
				t.Fatal(err)
			}
		}
		if n := h.Events()["password.BreachCheckUnavailableEvent"]; n < 1 || n > 20 {
			t.Errorf("%d events, want a few", n)
		}
	})
	t.Run("a sign-in asks nobody", func(t *testing.T) {
		t.Parallel()
		list := &breachList{err: errors.New("down"), closed: true}
		h, _ := withBreaches(t, list)
		begin := time.Now()
		if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword,
			audit.Origin{ClientIP: "203.0.113.7"}); err != nil || list.asked != 0 {
			t.Errorf("CheckPassword = %v after %v, asked %d times", err, time.Since(begin), list.asked)
		}
	})
}
