package account

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passwordPath = webflow.SecurityPath + "/password"

// PasswordSection is the part of the security page about the password. It is nil while passwords are switched off.
func PasswordSection(tx storage.Tx, q *webflow.Request, st *mfa.Standing) (*web.SecuritySection, error) {
	if !st.Units.PasswordLogin() {
		return nil, nil //nolint:nilnil // there is nothing to show
	}
	has, err := person.Passwords.Has(tx, q.SignIn.Session.PersonID)
	out := &web.SecuritySection{
		Key: "password", State: "off",
		Actions: []web.SecurityAction{{Label: "security.password.set", URL: passwordPath}},
	}
	if has {
		out.State, out.Actions[0].Label = "on", "security.password.change"
	}
	return out, err
}

func changePasswordLevel(u *settings.Units) int {
	return u.StepUp.Actions.ChangePasswordAuthenticationLevel
}

// readOwner returns the person of a sign-in with their password, if they have one.
func readOwner(tx storage.Tx, si *session.Current) (owner person.Holder, err error) {
	owner.ID = si.Session.PersonID
	if owner.Person, err = person.Records.Get(tx, owner.ID); err != nil {
		return owner, err
	}
	pw, _, err := person.Passwords.Find(tx, owner.ID)
	owner.PHC = pw.PHC
	return owner, err
}

// visitPassword admits a person who can set their password. The first password is a new way to sign in, so it needs the
// level of setting up a method.
func (s *Service) visitPassword(q *webflow.Request, admit guard) (a *webflow.Visit, owner person.Holder, err error) {
	a, err = s.visit(q, admit, passwordPath, func(tx storage.Tx, st *mfa.Standing) (level int, err error) {
		owner, err = readOwner(tx, q.SignIn)
		switch {
		case err != nil, !q.Settings.PasswordLogin():
			return session.PasswordLevel, err
		case owner.PHC == "":
			return st.SetUpLevel(), nil
		}
		return changePasswordLevel(q.Settings), nil
	})
	if err == nil && !q.Settings.PasswordLogin() {
		err = cmp.Or(q.Redirect(webflow.SecurityPath), webflow.ErrAnswered)
	}
	return a, owner, err
}

// showPassword serves GET /account/security/password.
func (s *Service) showPassword(q *webflow.Request) error {
	a, owner, err := s.visitPassword(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	return s.renderPassword(a, owner, http.StatusOK, web.Dashboard{}, "", "")
}

// renderPassword writes the form. current and next are the problems of the two fields.
func (s *Service) renderPassword(a *webflow.Visit, owner person.Holder, status int, d web.Dashboard, current, next string) error {
	form := &web.PartForm{Action: passwordPath, CSRF: a.CSRF, Submit: "account.password.submit"}
	// Password managers store the username as it is typed on the sign-in page.
	username := owner.Person.Username
	if p := owner.Person.PartitionName(); p != audit.DefaultPartition {
		username = p + `\` + username
	}
	fields := []web.Field{{Name: "username", Label: "account.username", Value: username, Autocomplete: "username", ReadOnly: true}}
	d.Key, d.Cancel = "password", webflow.SecurityPath
	if owner.PHC != "" {
		fields = append(fields, web.Field{
			Name: "current", Type: "password", Label: "account.password.current", Autocomplete: "current-password", Required: true, Problem: current,
		})
	} else {
		d.Key = "password_first"
	}
	form.Fields = web.Fields(d.Problem != "", append(fields, webflow.NewPasswordField(&a.Settings.PasswordPolicy, next))...)
	d.Parts = []web.Part{{Form: form}}
	return s.render(a, status, d)
}

// handlePassword serves POST /account/security/password: a new password, or the first one. Every other sign-in of the
// person ends.
func (s *Service) handlePassword(q *webflow.Request) error {
	a, owner, err := s.visitPassword(q, s.deps.Front.VisitPost)
	if err != nil {
		return err
	}
	if owner.PHC != "" {
		wait, err := s.confirmPassword(a, owner, q.PostForm.Get("current"))
		switch {
		case errors.Is(err, person.ErrMismatch):
			return s.renderPassword(a, owner, http.StatusUnprocessableEntity, web.Dashboard{}, "problem.password_current", "")
		case err != nil:
			return err
		case wait > 0:
			return s.renderPassword(a, owner, http.StatusTooManyRequests, throttle(a, wait), "", "")
		}
	}
	p := a.SignIn.Person
	n, err := s.deps.Person.PreparePassword(q.Context(), q.PostForm.Get("password"), s.actor(a), p.Username, p.Email)
	if problem := webflow.PasswordProblem(err); problem != "" {
		return s.renderPassword(a, owner, http.StatusUnprocessableEntity, web.Dashboard{}, "", problem)
	}
	if err != nil {
		return err
	}
	err = s.changePassword(a, owner, n)
	switch {
	case errors.Is(err, person.ErrMismatch): // signed out, or the password was changed meanwhile
		return q.Redirect(passwordPath)
	case err != nil:
		return err
	}
	return q.Redirect(doneURL(passwordPath, "password"))
}

// changePassword replaces the password of owner, unless it was changed meanwhile. The session gets a new cookie, and
// the browser stays known.
func (s *Service) changePassword(a *webflow.Visit, owner person.Holder, n *person.HashedPassword) error {
	token, err := secret.NewToken(s.deps.Random, secret.Session)
	if err != nil {
		return err
	}
	device, rec := challenge.Hashed(s.deps.Session.DeviceToken(a.Request.Request)), session.Record{}
	err = s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, n.Now); err != nil {
			return err
		}
		present, err := readOwner(tx, a.SignIn)
		if err != nil {
			return err
		}
		if present.PHC != owner.PHC {
			return person.ErrMismatch
		}
		p, err := s.deps.Person.ReplacePassword(tx, owner.ID, n)
		if err != nil {
			return err
		}
		if device != "" {
			known := challenge.DeviceRecord{Epoch: p.Epoch, Seen: n.Now}
			if err := challenge.DeviceRecords.Put(tx, storage.Key(owner.ID, device), known, n.Now.Add(session.DeviceLife)); err != nil {
				return err
			}
		}
		rec, err = s.deps.Session.Renew(tx, a.SignIn.ID, token)
		return err
	})
	if err == nil {
		s.deps.Session.SetCookie(a.W, token, rec, n.Now)
	}
	return err
}

// confirmPassword checks the password of a signed-in person. The attempt counts against the browser if the person has
// signed in there by password, otherwise against the session. wait is how long no attempt is accepted;
// person.ErrMismatch: the password is wrong, or was changed.
func (s *Service) confirmPassword(a *webflow.Visit, owner person.Holder, password string) (wait time.Duration, err error) {
	ctx, from := a.Context(), s.originOf(a)
	device := challenge.Hashed(s.deps.Session.DeviceToken(a.Request.Request))
	at, err := s.deps.Proof.BeginAttempt(ctx, owner, owner.Person.Username,
		challenge.Source{Address: from.ClientIP, Device: device, Session: a.SignIn.ID})
	if err != nil || at.Wait > 0 {
		return at.Wait, err
	}
	_, err = s.deps.Person.Verify(ctx, owner, password)
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.deps.Front.Refuse(a.Request, denial.Refusal{Where: denial.Page, Reason: denial.WrongPassword, By: "password"}, err)
		return 0, cmp.Or(s.deps.Proof.Failed(ctx, "", owner, at, from), person.ErrMismatch)
	case err != nil:
		s.deps.Proof.NotEvaluated(ctx, at)
		return 0, err
	}
	now := s.deps.Now()
	return 0, s.deps.Store.Update(ctx, func(tx storage.Tx) error { return s.deps.Proof.Undo(tx, at, true, now) })
}
