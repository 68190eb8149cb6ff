package mfa

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/mfa/codes"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// RecoveryPath is the page that makes new recovery codes.
const RecoveryPath = webflow.SecurityPath + "/recovery"

const (
	recoveryFilePath = RecoveryPath + "/file"

	recoveryForm     = "recovery"
	recoveryFileForm = "recovery file"
)

// recoveryMethod is a code that the person wrote down, for the time when the app or the passkeys are lost. StandingIn
// takes it away from a person who has neither.
var recoveryMethod = Method{
	Name:  session.MethodRecovery,
	Level: func(u *settings.Units) int { return cmp.Or(TOTPMethod.Level(u), session.PasskeyLevel) },
	has:   func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return len(own.Recovery) > 0, nil },
	check: func(_ context.Context, _ *Service, a *response) (spender, error) {
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

// Recovers reports whether the person can have recovery codes: they stand in for an app, or for passkeys if they give
// no higher level than one.
func (st *Standing) Recovers() bool {
	return Pick(st.Has, TOTPMethod.Name) != nil || Pick(st.Has, passkeyMethod.Name) != nil &&
		recoveryMethod.Level(st.Units) <= session.PasskeyLevel
}

func recoverySection(_ storage.Tx, _ *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if !st.Recovers() {
		return nil, nil //nolint:nilnil // there is nothing that they could replace
	}
	out := &web.SecuritySection{
		Key: recoveryMethod.Name, State: "off", Count: len(st.Own.Recovery),
		Actions: []web.SecurityAction{{Label: "security.recovery.new", URL: RecoveryPath}},
	}
	if out.Count > 0 {
		out.State = "on"
	}
	return out, nil
}

// needRecovery returns how the person can step up, if they may make recovery codes.
func (s *Service) needRecovery(q *webflow.Request) (st *Standing, err error) {
	st, err = s.needSetUp(q, RecoveryPath)
	if err == nil && !st.Recovers() {
		err = redirectInstead(q, webflow.SecurityPath)
	}
	return st, err
}

// showRecovery serves GET /account/security/recovery: a question; it changes nothing.
func (s *Service) showRecovery(q *webflow.Request) error {
	if _, err := s.needRecovery(q); err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(recoveryForm, q.SignIn))
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "confirm", Data: web.Confirm{
		Key: "recovery.renew", Action: RecoveryPath, CSRF: csrf, Cancel: webflow.SecurityPath,
	}})
	return nil
}

// handleRecovery serves POST /account/security/recovery: new codes replace the old ones.
func (s *Service) handleRecovery(q *webflow.Request) error {
	_, err := s.needRecovery(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(recoveryForm, q.SignIn), RecoveryPath)
	}
	if err != nil {
		return err
	}
	fresh, hashes, err := codes.NewRecovery(s.deps.Random, q.SignIn.Session.PersonID)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), recoveryMade)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil {
			return err
		}
		if !st.Recovers() {
			return person.ErrMismatch
		}
		// Other sessions that were raised with an old code may belong to a thief.
		if err := s.deps.Session.LowerOthers(tx, q.SignIn.ID, q.SignIn.Session.PersonID, recoveryMethod.Name); err != nil {
			return err
		}
		own := st.Own
		own.Recovery = hashes
		if err := putRecord(tx, q.SignIn.Session.PersonID, own); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], ""))
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(webflow.SecurityPath)
	case err != nil:
		return err
	}
	return s.recoveryPage(q, web.Recovery{Codes: fresh, Next: webflow.SecurityPath})
}

// recoveryPage shows new codes, the only time.
func (s *Service) recoveryPage(q *webflow.Request, in web.Recovery) (err error) {
	// The session has a new cookie by now, and the codes themselves name their owner: the form belongs to the browser.
	if in.CSRF, err = s.deps.Front.FormToken(q, recoveryFileForm); err != nil {
		return err
	}
	in.Action = recoveryFilePath
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "recovery", Locales: q.SignIn.Locales(), Data: in})
	return nil
}

// handleRecoveryFile serves POST /account/security/recovery/file: the codes that a page shows, as a file. Only their
// hashes are stored, so the page sends the codes, and nothing else than the person's own codes comes back.
func (s *Service) handleRecoveryFile(q *webflow.Request) error {
	st, err := s.needRecovery(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, recoveryFileForm, RecoveryPath)
	}
	if err != nil {
		return err
	}
	shown := strings.Fields(q.PostForm.Get("codes"))
	for _, code := range shown {
		if !slices.Contains(st.Own.Recovery, codes.Hash(q.SignIn.Session.PersonID, code)) {
			return q.Redirect(RecoveryPath)
		}
	}
	webflow.Attach(q.W.Header(), "recovery-codes.txt", "text/plain; charset=utf-8")
	text := s.deps.Pages.Name() + ": " + q.SignIn.Person.Username + "\r\n" + s.deps.Pages.AccountURL() + "\r\n\r\n" +
		strings.Join(shown, "\r\n") + "\r\n"
	if _, err := io.WriteString(q.W, text); err != nil {
		s.deps.Log.Debug("recovery codes not sent")
	}
	return nil
}

// removeIdleRecovery removes the recovery codes of a person who has lost the last thing that they stood in for.
func removeIdleRecovery(tx storage.Tx, personID string, own *Record) error {
	set, err := passkey.Read(tx, personID)
	if err != nil || own.TOTP != nil || len(set.Keys) > 0 || len(own.Recovery) == 0 {
		return err
	}
	own.Recovery = nil
	return putRecord(tx, personID, *own)
}
