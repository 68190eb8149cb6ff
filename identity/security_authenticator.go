package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// setUpLife is how long a secret that was shown waits for its first code.
const setUpLife = 30 * time.Minute

func authenticatorSection(_ storage.Tx, _ *signedIn, st *standing) (*page.SecuritySection, error) {
	if totpMethod.level(st.units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	out := &page.SecuritySection{Key: totpMethod.name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: totpMethod.setUp}}}
	if st.own.TOTP != nil {
		out.State, out.Actions = "on", []page.SecurityAction{{Label: "security.remove", URL: removeURL(&totpMethod)}}
	}
	return out, nil
}

// authenticatorPage reads what the two handlers of the page share. Otherwise it has written the answer and is not ok.
func (s *Service) authenticatorPage(w http.ResponseWriter, r *http.Request) (si *signedIn, self, next string, ok bool) {
	return s.setUpOnce(w, r, &totpMethod, func(own *stepUpRecord) bool { return own.TOTP != nil })
}

// showAuthenticator serves GET /account/security/authenticator: a secret for the app, as a QR code and as text.
func (s *Service) showAuthenticator(w http.ResponseWriter, r *http.Request) {
	si, self, next, ok := s.authenticatorPage(w, r)
	if !ok {
		return
	}
	key, err := s.pendingTOTP(r.Context(), si)
	if err != nil {
		s.fail(w, r, err, self)
		return
	}
	s.writeAuthenticator(w, r, si, key, page.Authenticator{Action: self, Cancel: next}, http.StatusOK)
}

// pendingTOTP returns the secret that the session is about to confirm: the same one when the page is loaded again.
func (s *Service) pendingTOTP(ctx context.Context, si *signedIn) ([]byte, error) {
	fresh, err := newTOTPSecret(s.Random)
	if err != nil {
		return nil, err
	}
	sealed, err := s.Keyring.Seal(totpPurpose(si.session.PersonID), fresh)
	if err != nil {
		return nil, err
	}
	now, key := s.Now(), fresh
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, err := totpSetUps.Get(tx, si.id)
		if err == nil && rec.ExpiresAt.After(now) {
			if key, err = s.Keyring.Open(totpPurpose(si.session.PersonID), rec.Sealed); err == nil {
				return nil
			}
			err = storage.ErrNotFound // of another person, or a key that is gone
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		key = fresh
		rec = totpSetUpRecord{Sealed: sealed, ExpiresAt: now.Add(setUpLife)}
		return totpSetUps.Put(tx, si.id, rec, rec.ExpiresAt.Add(collectAfter))
	})
	return key, err
}

func (s *Service) writeAuthenticator(w http.ResponseWriter, r *http.Request, si *signedIn, key []byte, in page.Authenticator, status int) {
	code, err := qr.Encode(totpURI(key, s.Pages.Name(), si.person.Username), qr.M)
	if err == nil {
		in.CSRF, err = s.securityForm(w, r, si, "authenticator")
	}
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	in.QR, in.Secret = page.NewQR(code.Size, code.Black), encodeSecret(key)
	s.Pages.Render(w, r, page.View{Template: "authenticator", Status: status, Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// handleAuthenticator serves POST /account/security/authenticator: the first code of the app.
func (s *Service) handleAuthenticator(w http.ResponseWriter, r *http.Request) {
	si, self, next, ok := s.authenticatorPage(w, r)
	if !ok || !s.checkSecurityForm(w, r, si, "authenticator", self) {
		return
	}
	key, err := s.pendingTOTP(r.Context(), si)
	if err != nil {
		s.fail(w, r, err, self)
		return
	}
	step, ok := totpStep(key, r.PostForm.Get("code"), 0, s.Now())
	if !ok {
		s.writeAuthenticator(w, r, si, key, page.Authenticator{Action: self, Cancel: next, Problem: "problem.code_app"}, http.StatusUnprocessableEntity)
		return
	}
	codes, err := s.addTOTP(w, r, si, key, step)
	switch {
	case errors.Is(err, errMismatch): // another page was faster
		s.redirect(w, r, next)
	case err != nil:
		s.fail(w, r, err, self)
	default:
		s.Pages.Render(w, r, page.View{Template: "recovery", Data: page.Recovery{Codes: codes, New: true, Next: next}})
	}
}

// addTOTP stores a secret whose code the person has shown, and raises the session to what such a code is worth. It returns recovery codes.
func (s *Service) addTOTP(w http.ResponseWriter, r *http.Request, si *signedIn, key []byte, step int64) (codes []string, err error) {
	person := si.session.PersonID
	sealed, err := s.Keyring.Seal(totpPurpose(person), key)
	if err != nil {
		return nil, err
	}
	codes, hashes, err := newRecoveryCodes(s.Random, person)
	if err != nil {
		return nil, err
	}
	ev, err := s.newEvents(s.Origin(r), stepUpAdded, recoveryMade)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	return codes, s.raise(w, r, raising{si: si, method: &totpMethod, setUp: true, spend: func(tx storage.Tx, own *stepUpRecord) (bool, error) {
		// Looked at again here: of two pages that add the first method at once, the later one needs the level of the earlier.
		st, err := s.maySetUp(tx, si)
		if err != nil {
			return false, err
		}
		if st.own.TOTP != nil || totpMethod.level(st.units) == 0 {
			return false, nil
		}
		own.TOTP, own.Recovery = &totpRecord{Sealed: sealed, LastStep: step, Since: now}, hashes
		if err := totpSetUps.Delete(tx, si.id); err != nil {
			return false, err
		}
		if err := s.Events.Append(tx, si.own(ev[0], totpMethod.name)); err != nil {
			return false, err
		}
		return true, s.Events.Append(tx, si.own(ev[1], ""))
	}})
}
