package stepup

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// setUpLife is how long a secret that was shown waits for its first code.
const setUpLife = 30 * time.Minute

func authenticatorSection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	if TOTPMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	out := &page.SecuritySection{Key: TOTPMethod.Name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: TOTPMethod.setUp}}}
	if st.Own.TOTP != nil {
		out.State, out.Actions = "on", []page.SecurityAction{{Label: "security.remove", URL: removeURL(&TOTPMethod)}}
	}
	return out, nil
}

// authenticatorPage reads what the two handlers of the page share. Otherwise it has written the answer and is not ok.
func (s *Service) authenticatorPage(w http.ResponseWriter, r *http.Request) (si *session.Current, self, next string, ok bool) {
	return s.setUpOnce(w, r, &TOTPMethod, func(own *Record) bool { return own.TOTP != nil })
}

// showAuthenticator serves GET /account/security/authenticator: a secret for the app, as a QR code and as text.
func (s *Service) showAuthenticator(w http.ResponseWriter, r *http.Request) {
	si, self, next, ok := s.authenticatorPage(w, r)
	if !ok {
		return
	}
	key, err := s.pendingTOTP(r.Context(), si)
	if err != nil {
		s.front.Fail(w, r, err, self)
		return
	}
	s.writeAuthenticator(w, r, si, key, page.Authenticator{Action: self, Cancel: next}, http.StatusOK)
}

// pendingTOTP returns the secret that the session is about to confirm: the same one when the page is loaded again.
func (s *Service) pendingTOTP(ctx context.Context, si *session.Current) ([]byte, error) {
	fresh, err := newTOTPSecret(s.random)
	if err != nil {
		return nil, err
	}
	sealed, err := s.keyring.Seal(totpPurpose(si.Session.PersonID), fresh)
	if err != nil {
		return nil, err
	}
	now, key := s.now(), fresh
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		rec, err := totpSetUps.Get(tx, si.ID)
		if err == nil && rec.ExpiresAt.After(now) {
			if key, err = s.keyring.Open(totpPurpose(si.Session.PersonID), rec.Sealed); err == nil {
				return nil
			}
			err = storage.ErrNotFound // of another person, or a key that is gone
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		key = fresh
		rec = totpSetUpRecord{Sealed: sealed, ExpiresAt: now.Add(setUpLife)}
		return totpSetUps.Put(tx, si.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return key, err
}

func (s *Service) writeAuthenticator(w http.ResponseWriter, r *http.Request, si *session.Current, key []byte, in page.Authenticator, status int) {
	code, err := qr.Encode(totpURI(key, s.pages.Name(), si.Person.Username), qr.M)
	if err == nil {
		in.CSRF, err = s.front.SecurityForm(w, r, si, "authenticator")
	}
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	in.QR, in.Secret = page.NewQR(code.Size, code.Black), encodeSecret(key)
	s.pages.Render(w, r, page.View{Template: "authenticator", Status: status, Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// handleAuthenticator serves POST /account/security/authenticator: the first code of the app.
func (s *Service) handleAuthenticator(w http.ResponseWriter, r *http.Request) {
	si, self, next, ok := s.authenticatorPage(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "authenticator", self) {
		return
	}
	key, err := s.pendingTOTP(r.Context(), si)
	if err != nil {
		s.front.Fail(w, r, err, self)
		return
	}
	step, ok := totpStep(key, r.PostForm.Get("code"), 0, s.now())
	if !ok {
		s.writeAuthenticator(w, r, si, key, page.Authenticator{Action: self, Cancel: next, Problem: "problem.code_app"}, http.StatusUnprocessableEntity)
		return
	}
	codes, err := s.addTOTP(w, r, si, key, step)
	switch {
	case errors.Is(err, person.ErrMismatch): // another page was faster
		s.front.Redirect(w, r, next)
	case err != nil:
		s.front.Fail(w, r, err, self)
	default:
		s.pages.Render(w, r, page.View{Template: "recovery", Data: page.Recovery{Codes: codes, New: true, Next: next}})
	}
}

// addTOTP stores a secret whose code the person has shown, and raises the session to what such a code is worth. It returns recovery codes.
func (s *Service) addTOTP(w http.ResponseWriter, r *http.Request, si *session.Current, key []byte, step int64) (codes []string, err error) {
	person := si.Session.PersonID
	sealed, err := s.keyring.Seal(totpPurpose(person), key)
	if err != nil {
		return nil, err
	}
	codes, hashes, err := newRecoveryCodes(s.random, person)
	if err != nil {
		return nil, err
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpAdded, recoveryMade)
	if err != nil {
		return nil, err
	}
	now := s.now()
	return codes, s.raise(w, r, raise{si: si, method: &TOTPMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		// Looked at again here: of two pages that add the first method at once, the later one needs the level of the earlier.
		st, err := s.MaySetUp(tx, si)
		if err != nil {
			return false, err
		}
		if st.Own.TOTP != nil || TOTPMethod.Level(st.Units) == 0 {
			return false, nil
		}
		own.TOTP, own.Recovery = &totpRecord{Sealed: sealed, LastStep: step, Since: now}, hashes
		if err := totpSetUps.Delete(tx, si.ID); err != nil {
			return false, err
		}
		if err := s.events.Append(tx, si.OwnEvent(ev[0], TOTPMethod.Name)); err != nil {
			return false, err
		}
		return true, s.events.Append(tx, si.OwnEvent(ev[1], ""))
	}})
}
