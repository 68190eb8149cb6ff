package identity

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const recoveryPath = securityPath + "/recovery"

func recoverySection(_ storage.Tx, _ *signedIn, st *standing) (*page.SecuritySection, error) {
	if pick(st.has, totpMethod.name) == nil {
		return nil, nil //nolint:nilnil // they stand in for the app
	}
	out := &page.SecuritySection{Key: recoveryMethod.name, State: "off", Count: len(st.own.Recovery), Actions: []page.SecurityAction{{Label: "security.recovery.new", URL: recoveryPath}}}
	if out.Count > 0 {
		out.State = "on"
	}
	return out, nil
}

// recoveryOwner returns who may make recovery codes: a person with an app. Otherwise it has written the answer and is not ok.
func (s *Service) recoveryOwner(w http.ResponseWriter, r *http.Request) (*signedIn, bool) {
	si, st, ok := s.requireSetUp(w, r, recoveryPath)
	if ok && pick(st.has, totpMethod.name) == nil {
		s.redirect(w, r, securityPath)
		return nil, false
	}
	return si, ok
}

// showRecovery serves GET /account/security/recovery: it asks, and changes nothing.
func (s *Service) showRecovery(w http.ResponseWriter, r *http.Request) {
	si, ok := s.recoveryOwner(w, r)
	if !ok {
		return
	}
	csrf, err := s.securityForm(w, r, si, "recovery")
	if err != nil {
		s.fail(w, r, err, recoveryPath)
		return
	}
	s.Pages.Render(w, r, page.View{Template: "confirm", Data: page.Confirm{Key: "recovery.renew", Action: recoveryPath, CSRF: csrf, Cancel: securityPath}})
}

// handleRecovery serves POST /account/security/recovery: new codes in place of the old ones.
func (s *Service) handleRecovery(w http.ResponseWriter, r *http.Request) {
	si, ok := s.recoveryOwner(w, r)
	if !ok || !s.checkSecurityForm(w, r, si, "recovery", recoveryPath) {
		return
	}
	codes, hashes, err := newRecoveryCodes(s.Random, si.session.PersonID)
	if err != nil {
		s.fail(w, r, err, recoveryPath)
		return
	}
	ev, err := s.newEvents(s.Origin(r), recoveryMade)
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			st, err := s.maySetUp(tx, si)
			if err != nil {
				return err
			}
			if st.own.TOTP == nil {
				return errMismatch
			}
			own := st.own
			own.Recovery = hashes
			if err := putStepUp(tx, si.session.PersonID, own); err != nil {
				return err
			}
			return s.Events.Append(tx, si.own(ev[0], ""))
		})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, securityPath)
	case err != nil:
		s.fail(w, r, err, recoveryPath)
	default:
		s.Pages.Render(w, r, page.View{Template: "recovery", Data: page.Recovery{Codes: codes, Next: securityPath}})
	}
}
