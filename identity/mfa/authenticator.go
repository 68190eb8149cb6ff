package mfa

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/mfa/codes"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	totpSetUpLife     = 30 * time.Minute // for which a secret that was shown waits for its first code
	authenticatorForm = "authenticator"
)

// TOTPMethod is the authenticator app, which makes codes from a secret and the time. (RFC 6238)
var TOTPMethod = Method{
	Name: session.MethodTOTP, setUp: webflow.SecurityPath + "/authenticator",
	remove: func(own *Record) { own.TOTP, own.Recovery = nil, nil },
	Level: func(u *settings.Units) int {
		if !u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.GoogleAuthenticatorAuthenticationLevel
	},
	has:   func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return own.TOTP != nil, nil },
	check: checkTOTP,
}

func checkTOTP(_ context.Context, s *Service, a *response) (spender, error) {
	before, purpose := a.own().TOTP, totpPurpose(a.signIn.Session.PersonID)
	if before == nil {
		return nil, person.ErrMismatch
	}
	key, err := s.deps.Keyring.Open(purpose, before.Sealed)
	if err != nil {
		return nil, err
	}
	step, ok := codes.Step(key, a.code, before.LastStep, s.deps.Now())
	if !ok {
		return nil, person.ErrMismatch
	}
	sealed := before.Sealed
	if !s.deps.Keyring.IsCurrent(sealed) {
		if sealed, err = s.deps.Keyring.Seal(purpose, key); err != nil {
			return nil, err
		}
	}
	return func(_ storage.Tx, own *Record) (bool, error) {
		// RFC 6238 5.2: the code must not be accepted a second time. Another secret by now belongs to another app.
		if own.TOTP == nil || !bytes.Equal(own.TOTP.Sealed, before.Sealed) || own.TOTP.LastStep >= step {
			return false, nil
		}
		next := *own.TOTP
		next.LastStep, next.Sealed = step, sealed
		own.TOTP = &next
		return true, nil
	}, nil
}

func totpPurpose(personID string) string { return "step-up authenticator " + personID }

func authenticatorSection(_ storage.Tx, _ *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if TOTPMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	if totp := st.Own.TOTP; totp != nil {
		return switchedOn(&TOTPMethod, codes.TimeOf(totp.LastStep)), nil
	}
	return switchedOff(&TOTPMethod), nil
}

// totpSetUp is a request of the page that sets up the app.
type totpSetUp struct {
	setUp
	stored totpSetUpRecord // zero: none was begun
	key    []byte          // that the session has to confirm
}

// readTOTPSetUp reads what the two handlers of the page share.
func (s *Service) readTOTPSetUp(q *webflow.Request) (x totpSetUp, err error) {
	x.setUp, err = s.readSetUpOnce(q, &TOTPMethod, func(tx storage.Tx) (err error) {
		x.stored, _, err = totpSetUps.Find(tx, q.SignIn.ID)
		return err
	})
	return x, err
}

// pendingTOTP returns the secret that the session has to confirm: the stored one when the page is loaded again,
// otherwise a new one.
func (s *Service) pendingTOTP(q *webflow.Request, stored totpSetUpRecord) ([]byte, error) {
	now, purpose := s.deps.Now(), totpPurpose(q.SignIn.Session.PersonID)
	if stored.ExpiresAt.After(now) {
		if key, err := s.deps.Keyring.Open(purpose, stored.Sealed); err == nil {
			return key, nil
		}
		// It belongs to another person, or the key that sealed it is gone.
	}
	fresh, err := codes.NewSecret(s.deps.Random)
	if err != nil {
		return nil, err
	}
	sealed, err := s.deps.Keyring.Seal(purpose, fresh)
	if err != nil {
		return nil, err
	}
	rec := totpSetUpRecord{Sealed: sealed, ExpiresAt: now.Add(totpSetUpLife)}
	var faster []byte
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		faster = nil
		last, _, err := totpSetUps.Find(tx, q.SignIn.ID)
		if err != nil {
			return err
		}
		if last.ExpiresAt.After(now) && !bytes.Equal(last.Sealed, stored.Sealed) { // another tab was faster
			faster = last.Sealed
			return nil
		}
		return totpSetUps.Put(tx, q.SignIn.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err == nil && faster != nil {
		return s.deps.Keyring.Open(purpose, faster)
	}
	return fresh, err
}

// showAuthenticator serves GET /account/security/authenticator: a secret for the app, as a QR code and as text.
func (s *Service) showAuthenticator(q *webflow.Request) error {
	x, err := s.readTOTPSetUp(q)
	if err == nil {
		x.key, err = s.pendingTOTP(q, x.stored)
	}
	if err != nil {
		return err
	}
	return s.authenticatorPage(q, x, http.StatusOK, "")
}

func (s *Service) authenticatorPage(q *webflow.Request, x totpSetUp, status int, problem string) error {
	in := web.Authenticator{Action: x.self, Cancel: x.next, Problem: problem, Secret: codes.Encode(x.key)}
	in.URI = codes.URI(x.key, s.deps.Pages.Name(), q.SignIn.Person.Username)
	code, err := qr.Encode(in.URI, qr.M)
	if err == nil {
		in.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(authenticatorForm, q.SignIn))
	}
	if err != nil {
		return err
	}
	in.QR = web.NewQR(code.Size, code.Black)
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "authenticator", Status: status, Client: x.client, Data: in})
	return nil
}

// handleAuthenticator serves POST /account/security/authenticator: the first code of the app.
func (s *Service) handleAuthenticator(q *webflow.Request) error {
	x, err := s.readTOTPSetUp(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(authenticatorForm, q.SignIn), x.self)
	}
	if err == nil {
		x.key, err = s.pendingTOTP(q, x.stored)
	}
	if err != nil {
		return err
	}
	step, ok := codes.Step(x.key, q.PostForm.Get("code"), 0, s.deps.Now())
	if !ok {
		return s.authenticatorPage(q, x, http.StatusUnprocessableEntity, "problem.code_app")
	}
	fresh, err := s.addTOTP(q, x.key, step)
	switch {
	case errors.Is(err, person.ErrMismatch): // another page was faster
		return q.Redirect(x.next)
	case err != nil:
		return err
	}
	if len(fresh) == 0 {
		return q.Redirect(x.next)
	}
	return s.recoveryPage(q, web.Recovery{Codes: fresh, Added: TOTPMethod.Name, Next: x.next})
}

// addTOTP stores a secret whose code the person has shown, and raises the session to the level of such a code. It
// returns recovery codes, unless the person has some.
func (s *Service) addTOTP(q *webflow.Request, key []byte, step int64) (fresh []string, err error) {
	personID := q.SignIn.Session.PersonID
	sealed, err := s.deps.Keyring.Seal(totpPurpose(personID), key)
	if err != nil {
		return nil, err
	}
	fresh, hashes, err := codes.NewRecovery(s.deps.Random, personID)
	if err != nil {
		return nil, err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpAdded, recoveryMade)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	made := false
	err = s.raise(q, gain{method: &TOTPMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		// Checked again here: of two pages that add the first method at once, the later one needs the level of the earlier.
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil {
			return false, err
		}
		if st.Own.TOTP != nil || TOTPMethod.Level(st.Units) == 0 {
			return false, nil
		}
		own.TOTP = &totpRecord{Sealed: sealed, LastStep: step, Since: now}
		if made = len(own.Recovery) == 0; made {
			own.Recovery = hashes
		}
		if err := totpSetUps.Delete(tx, q.SignIn.ID); err != nil {
			return false, err
		}
		if err := s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], TOTPMethod.Name)); err != nil || !made {
			return true, err
		}
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[1], ""))
	}})
	if !made {
		fresh = nil
	}
	return fresh, err
}
