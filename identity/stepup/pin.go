package stepup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pinTries = 5 // wrong ones in a row; then it opens nothing until it is removed
	pinMin   = 6
	pinMax   = 12
)

// PINMethod is a number that the person has chosen.
var PINMethod = Method{
	Name: session.MethodPIN, setUp: front.SecurityPath + "/pin",
	Level: func(u *config.Units) int {
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

func pinPurpose(person string) string { return "step-up PIN " + person }

// checkPIN counts the try before it looks: however many come at once, no more than pinTries are looked at.
func checkPIN(ctx context.Context, s *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
	personID := t.si.Session.PersonID
	ev, err := s.person.NewEvents(t.from, pinLocked)
	if err != nil {
		return nil, err
	}
	var rec pinRecord
	count := func(by int) error {
		return s.store.Update(ctx, func(tx storage.Tx) error {
			own, err := readStepUp(tx, personID)
			if err != nil {
				return err
			}
			if own.PIN == nil || by > 0 && own.PIN.Failures >= pinTries {
				return person.ErrMismatch
			}
			next := *own.PIN
			next.Failures = max(0, next.Failures+by)
			own.PIN, rec = &next, next
			return putStepUp(tx, personID, own)
		})
	}
	if err := count(1); err != nil {
		return nil, err
	}
	phc, err := s.keyring.Open(pinPurpose(personID), rec.Sealed)
	ok := false
	if err == nil {
		ok, _, err = s.hasher.Verify(ctx, string(phc), strings.TrimSpace(t.code))
	}
	if err != nil {
		if err := count(-1); err != nil && !errors.Is(err, person.ErrMismatch) {
			s.log.Error("try not given back", zap.Error(err))
		}
		return nil, err
	}
	if !ok {
		if rec.Failures >= pinTries {
			err = s.store.Update(ctx, func(tx storage.Tx) error { return s.events.Append(tx, t.si.OwnEvent(ev[0], "")) })
		}
		return nil, cmp.Or(err, person.ErrMismatch)
	}
	return func(_ storage.Tx, own *Record) (bool, error) {
		if own.PIN == nil || string(own.PIN.Sealed) != string(rec.Sealed) {
			return false, nil
		}
		next := *own.PIN
		next.Failures = 0
		own.PIN = &next
		return true, nil
	}, nil
}

// pinProblem returns the message that says what is wrong with a new PIN, or "".
func pinProblem(pin, again string) string {
	digits := []byte(pin)
	if len(digits) < pinMin || len(digits) > pinMax || slices.ContainsFunc(digits, func(c byte) bool { return c < '0' || c > '9' }) {
		return "problem.pin_digits"
	}
	runs := [3]bool{true, true, true} // one digit, upwards, downwards
	for i := 1; i < len(digits); i++ {
		step := int(digits[i]) - int(digits[i-1])
		runs[0], runs[1], runs[2] = runs[0] && step == 0, runs[1] && step == 1, runs[2] && step == -1
	}
	switch {
	case runs[0] || runs[1] || runs[2]:
		return "problem.pin_easy"
	case pin != again:
		return "problem.pin_again"
	}
	return ""
}

func (s *Service) pinSection(tx storage.Tx, si *session.Current, st *Standing) (*page.SecuritySection, error) {
	if PINMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	out := &page.SecuritySection{Key: PINMethod.Name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: PINMethod.setUp}}}
	if st.Own.PIN != nil {
		out.State, out.Actions = "on", []page.SecurityAction{{Label: "security.remove", URL: removeURL(&PINMethod)}}
	}
	if PINMethod.locked(&st.Own) {
		out.State = "locked"
	}
	to, err := s.resetsPIN(tx, si, st)
	if to != "" {
		out.Actions = append(out.Actions, page.SecurityAction{Label: "security.pin.reset", URL: pinForgotPath})
	}
	return out, err
}

// pinPage reads what the two handlers of the page share. Otherwise it has written the answer and is not ok.
func (s *Service) pinPage(w http.ResponseWriter, r *http.Request) (si *session.Current, self, next string, ok bool) {
	return s.setUpOnce(w, r, &PINMethod, func(own *Record) bool { return own.PIN != nil })
}

func (s *Service) writePIN(w http.ResponseWriter, r *http.Request, si *session.Current, in page.PIN, status int) {
	var err error
	if in.CSRF, err = s.front.SecurityForm(w, r, si, "pin"); err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	s.pages.Render(w, r, page.View{Template: "pin", Status: status, Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// showPIN serves GET /account/security/pin.
func (s *Service) showPIN(w http.ResponseWriter, r *http.Request) {
	if si, self, next, ok := s.pinPage(w, r); ok {
		s.writePIN(w, r, si, page.PIN{Action: self, Cancel: next}, http.StatusOK)
	}
}

// handlePIN serves POST /account/security/pin.
func (s *Service) handlePIN(w http.ResponseWriter, r *http.Request) {
	si, self, next, ok := s.pinPage(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "pin", self) {
		return
	}
	pin := strings.TrimSpace(r.PostForm.Get("pin"))
	if problem := pinProblem(pin, strings.TrimSpace(r.PostForm.Get("again"))); problem != "" {
		s.writePIN(w, r, si, page.PIN{Action: self, Cancel: next, Problem: problem}, http.StatusUnprocessableEntity)
		return
	}
	if err := s.addPIN(w, r, si, pin); err != nil && !errors.Is(err, person.ErrMismatch) { // another page was faster
		s.front.Fail(w, r, err, self)
		return
	}
	s.front.Redirect(w, r, next)
}

// addPIN stores a PIN, and raises the session to what it is worth.
func (s *Service) addPIN(w http.ResponseWriter, r *http.Request, si *session.Current, pin string) error {
	rec, err := s.newPIN(r.Context(), si.Session.PersonID, pin)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpAdded)
	if err != nil {
		return err
	}
	return s.raise(w, r, raise{si: si, method: &PINMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.MaySetUp(tx, si)
		if err != nil || st.Own.PIN != nil || PINMethod.Level(st.Units) == 0 {
			return false, err
		}
		own.PIN = rec
		return true, s.events.Append(tx, si.OwnEvent(ev[0], PINMethod.Name))
	}})
}

// newPIN returns what is stored of a PIN.
func (s *Service) newPIN(ctx context.Context, person, pin string) (*pinRecord, error) {
	phc, err := s.hasher.Hash(ctx, pin)
	if err != nil {
		return nil, err
	}
	// There are so few PINs that a hash alone would not keep one.
	sealed, err := s.keyring.Seal(pinPurpose(person), []byte(phc))
	return &pinRecord{Sealed: sealed, Since: s.now().Truncate(time.Second)}, err
}
