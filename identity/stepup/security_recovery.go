package stepup

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const RecoveryPath = front.SecurityPath + "/recovery"

func recoverySection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	if Pick(st.Has, TOTPMethod.Name) == nil {
		return nil, nil //nolint:nilnil // they stand in for the app
	}
	out := &page.SecuritySection{Key: recoveryMethod.Name, State: "off", Count: len(st.Own.Recovery), Actions: []page.SecurityAction{{Label: "security.recovery.new", URL: RecoveryPath}}}
	if out.Count > 0 {
		out.State = "on"
	}
	return out, nil
}

// recoveryOwner returns who may make recovery codes: a person with an app. Otherwise it has written the answer and is not ok.
func (s *Service) recoveryOwner(w http.ResponseWriter, r *http.Request) (*session.Current, bool) {
	si, st, ok := s.RequireSetUp(w, r, RecoveryPath)
	if ok && Pick(st.Has, TOTPMethod.Name) == nil {
		s.front.Redirect(w, r, front.SecurityPath)
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
	csrf, err := s.front.SecurityForm(w, r, si, "recovery")
	if err != nil {
		s.front.Fail(w, r, err, RecoveryPath)
		return
	}
	s.pages.Render(w, r, page.View{Template: "confirm", Data: page.Confirm{Key: "recovery.renew", Action: RecoveryPath, CSRF: csrf, Cancel: front.SecurityPath}})
}

// handleRecovery serves POST /account/security/recovery: new codes in place of the old ones.
func (s *Service) handleRecovery(w http.ResponseWriter, r *http.Request) {
	si, ok := s.recoveryOwner(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "recovery", RecoveryPath) {
		return
	}
	codes, hashes, err := newRecoveryCodes(s.random, si.Session.PersonID)
	if err != nil {
		s.front.Fail(w, r, err, RecoveryPath)
		return
	}
	ev, err := s.person.NewEvents(s.origin(r), recoveryMade)
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			st, err := s.MaySetUp(tx, si)
			if err != nil {
				return err
			}
			if st.Own.TOTP == nil {
				return person.ErrMismatch
			}
			own := st.Own
			own.Recovery = hashes
			if err := putStepUp(tx, si.Session.PersonID, own); err != nil {
				return err
			}
			return s.events.Append(tx, si.OwnEvent(ev[0], ""))
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.SecurityPath)
	case err != nil:
		s.front.Fail(w, r, err, RecoveryPath)
	default:
		s.pages.Render(w, r, page.View{Template: "recovery", Data: page.Recovery{Codes: codes, Next: front.SecurityPath}})
	}
}
