package mfa

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/mfa/codes"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pinTries = 5 // wrong ones in a row; then the PIN is locked until it is removed or reset
	pinForm  = "pin"
)

// pinMethod is a number that the person chose.
var pinMethod = Method{
	Name: session.MethodPIN, setUp: webflow.SecurityPath + "/pin",
	Level: func(u *settings.Units) int {
		if !u.Features.PINEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.PINAuthenticationLevel
	},
	has:    func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return own.PIN != nil, nil },
	locked: func(own *Record) bool { return own.PIN != nil && own.PIN.Failures >= pinTries },
	remove: func(own *Record) { own.PIN = nil },
	check:  checkPIN,
	wrong:  "problem.pin",
}

func pinPurpose(personID string) string { return "step-up PIN " + personID }

// checkPIN counts the attempt before it verifies the PIN: of any number of requests at once, at most pinTries are
// verified.
func checkPIN(ctx context.Context, s *Service, a *response) (spender, error) {
	personID := a.signIn.Session.PersonID
	ev, err := s.deps.Person.NewEvents(a.from, pinLocked)
	if err != nil {
		return nil, err
	}
	rec, err := s.countPIN(ctx, personID, 1)
	if err != nil {
		return nil, err
	}
	ok, err := s.verifyPIN(ctx, personID, rec, a.code)
	switch {
	case err != nil:
		if _, err := s.countPIN(ctx, personID, -1); err != nil && !errors.Is(err, person.ErrMismatch) {
			s.deps.Log.Error("attempt not undone", zap.Error(err))
		}
		return nil, err
	case !ok && rec.Failures >= pinTries:
		err = s.deps.Store.Update(ctx, func(tx storage.Tx) error { return s.deps.Events.Append(tx, a.signIn.OwnEvent(ev[0], "")) })
		return nil, cmp.Or(err, person.ErrMismatch)
	case !ok:
		return nil, person.ErrMismatch
	}
	now := s.deps.Now().Truncate(time.Second)
	return func(_ storage.Tx, own *Record) (bool, error) {
		if own.PIN == nil || !bytes.Equal(own.PIN.Sealed, rec.Sealed) {
			return false, nil
		}
		next := *own.PIN
		next.Failures, next.Used = 0, now
		own.PIN = &next
		return true, nil
	}, nil
}

// countPIN changes the count of wrong PINs in a row, and returns the PIN with its new count. person.ErrMismatch: there
// is no PIN, or it is locked and takes no further attempt.
func (s *Service) countPIN(ctx context.Context, personID string, by int) (rec pinRecord, err error) {
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		own, err := readRecord(tx, personID)
		if err != nil {
			return err
		}
		if own.PIN == nil || by > 0 && own.PIN.Failures >= pinTries {
			return person.ErrMismatch
		}
		rec = *own.PIN
		rec.Failures = max(0, rec.Failures+by)
		own.PIN = &rec
		return putRecord(tx, personID, own)
	})
	return rec, err
}

func (s *Service) verifyPIN(ctx context.Context, personID string, rec pinRecord, pin string) (ok bool, err error) {
	phc, err := s.deps.Keyring.Open(pinPurpose(personID), rec.Sealed)
	if err == nil {
		ok, _, err = s.deps.Hasher.Verify(ctx, string(phc), strings.TrimSpace(pin))
	}
	return ok, err
}

func (s *Service) pinSection(tx storage.Tx, q *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if pinMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	out := switchedOff(&pinMethod)
	if st.Own.PIN != nil {
		out = switchedOn(&pinMethod, st.Own.PIN.Used)
	}
	if pinMethod.locked(&st.Own) {
		out.State = "locked"
	}
	to, err := s.pinResetAddress(tx, q.SignIn, st)
	if to != "" {
		out.Actions = append(out.Actions, web.SecurityAction{Label: "security.pin.reset", URL: pinForgotPath})
	}
	return out, err
}

func (s *Service) pinPage(q *webflow.Request, x setUp, status int, problem string) error {
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(pinForm, q.SignIn))
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "pin", Status: status, Client: x.client, Data: web.PIN{
		Action: x.self, Cancel: x.next, CSRF: csrf, Problem: problem,
	}})
	return nil
}

// showPIN serves GET /account/security/pin.
func (s *Service) showPIN(q *webflow.Request) error {
	x, err := s.readSetUpOnce(q, &pinMethod)
	if err != nil {
		return err
	}
	return s.pinPage(q, x, http.StatusOK, "")
}

// handlePIN serves POST /account/security/pin.
func (s *Service) handlePIN(q *webflow.Request) error {
	x, err := s.readSetUpOnce(q, &pinMethod)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(pinForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	pin := strings.TrimSpace(q.PostForm.Get("pin"))
	if problem := codes.PINProblem(pin, strings.TrimSpace(q.PostForm.Get("again"))); problem != "" {
		return s.pinPage(q, x, http.StatusUnprocessableEntity, problem)
	}
	if err := s.addPIN(q, pin); err != nil && !errors.Is(err, person.ErrMismatch) { // mismatch: another page was faster
		return err
	}
	return q.Redirect(x.next)
}

// addPIN stores a PIN, and raises the session to its level.
func (s *Service) addPIN(q *webflow.Request, pin string) error {
	rec, err := s.newPIN(q.Context(), q.SignIn.Session.PersonID, pin)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpAdded)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.raise(q, gain{method: &pinMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil || st.Own.PIN != nil || pinMethod.Level(st.Units) == 0 {
			return false, err
		}
		own.PIN = rec
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], pinMethod.Name))
	}})
}

// newPIN returns what is stored of a PIN.
func (s *Service) newPIN(ctx context.Context, personID, pin string) (*pinRecord, error) {
	phc, err := s.deps.Hasher.Hash(ctx, pin)
	if err != nil {
		return nil, err
	}
	// There are so few PINs that a hash alone does not protect one.
	sealed, err := s.deps.Keyring.Seal(pinPurpose(personID), []byte(phc))
	return &pinRecord{Sealed: sealed, Since: s.deps.Now().Truncate(time.Second)}, err
}
