package stepup

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup/codes"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// RecoveryPath is the page that makes new recovery codes.
const RecoveryPath = front.SecurityPath + "/recovery"

const recoveryForm = "recovery"

// recoveryMethod is a code that the person wrote down, for the time when the authenticator app is lost.
var recoveryMethod = Method{
	Name:  session.MethodRecovery,
	Level: func(u *config.Units) int { return TOTPMethod.Level(u) },
	has:   func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return len(own.Recovery) > 0, nil },
	check: func(_ context.Context, _ *Service, a *answer) (spender, error) {
		hash := codes.Hash(a.signIn.Session.PersonID, a.code)
		if !slices.Contains(a.own().Recovery, hash) {
			return nil, person.ErrMismatch
		}
		return func(_ storage.Tx, own *Record) (bool, error) {
			i := slices.Index(own.Recovery, hash)
			if i < 0 {
				return false, nil
			}
			own.Recovery = slices.Delete(slices.Clone(own.Recovery), i, i+1)
			return true, nil
		}, nil
	},
}

func recoverySection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	if Pick(st.Has, TOTPMethod.Name) == nil {
		return nil, nil //nolint:nilnil // they replace the app
	}
	out := &page.SecuritySection{
		Key: recoveryMethod.Name, State: "off", Count: len(st.Own.Recovery),
		Actions: []page.SecurityAction{{Label: "security.recovery.new", URL: RecoveryPath}},
	}
	if out.Count > 0 {
		out.State = "on"
	}
	return out, nil
}

// needRecovery returns nil when the person may make recovery codes: they need an authenticator app.
func (s *Service) needRecovery(q *front.Request) error {
	st, err := s.needSetUp(q, RecoveryPath)
	if err == nil && Pick(st.Has, TOTPMethod.Name) == nil {
		err = redirectInstead(q, front.SecurityPath)
	}
	return err
}

// showRecovery serves GET /account/security/recovery: a question; it changes nothing.
func (s *Service) showRecovery(q *front.Request) error {
	if err := s.needRecovery(q); err != nil {
		return err
	}
	csrf, err := s.front.FormToken(q, front.SessionForm(recoveryForm, q.SignIn))
	if err != nil {
		return err
	}
	s.pages.Render(q.W, q.Request, page.View{Template: "confirm", Data: page.Confirm{
		Key: "recovery.renew", Action: RecoveryPath, CSRF: csrf, Cancel: front.SecurityPath,
	}})
	return nil
}

// handleRecovery serves POST /account/security/recovery: new codes replace the old ones.
func (s *Service) handleRecovery(q *front.Request) error {
	err := s.needRecovery(q)
	if err == nil {
		err = s.front.CheckForm(q, front.SessionForm(recoveryForm, q.SignIn), RecoveryPath)
	}
	if err != nil {
		return err
	}
	fresh, hashes, err := codes.NewRecovery(s.random, q.SignIn.Session.PersonID)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(q.Request), recoveryMade)
	if err != nil {
		return err
	}
	now := s.now()
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil {
			return err
		}
		if st.Own.TOTP == nil {
			return person.ErrMismatch
		}
		own := st.Own
		own.Recovery = hashes
		if err := putRecord(tx, q.SignIn.Session.PersonID, own); err != nil {
			return err
		}
		return s.events.Append(tx, q.SignIn.OwnEvent(ev[0], ""))
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(front.SecurityPath)
	case err != nil:
		return err
	}
	s.pages.Render(q.W, q.Request, page.View{Template: "recovery", Data: page.Recovery{Codes: fresh, Next: front.SecurityPath}})
	return nil
}
