package account

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passwordPath = front.SecurityPath + "/password"

// PasswordSection is about the password, while passwords sign anybody in.
func PasswordSection(tx storage.Tx, si *session.Current, st *stepup.Standing) (*page.SecuritySection, error) {
	if !st.Units.PasswordLogin() {
		return nil, nil //nolint:nilnil // there is nothing to show
	}
	has, err := person.Passwords.Has(tx, si.Session.PersonID)
	out := &page.SecuritySection{Key: "password", State: "off", Actions: []page.SecurityAction{{Label: "security.password.set", URL: passwordPath}}}
	if has {
		out.State, out.Actions[0].Label = "on", "security.password.change"
	}
	return out, err
}

func changePasswordLevel(u *config.Units) int {
	return u.StepUp.Actions.ChangePasswordAuthenticationLevel
}

// passwordOwner returns who may change the password, and whether there is one. To set the first one needs what a set-up needs, since it is a way in.
// Otherwise it has written the answer and is not ok.
func (s *Service) passwordOwner(w http.ResponseWriter, r *http.Request) (a *front.Visit, acc person.Holder, ok bool) {
	if a, ok = s.front.Guard(w, r, passwordPath); !ok {
		return nil, acc, false
	}
	acc, err := s.person.HolderByID(r.Context(), a.Si.Session.PersonID)
	switch {
	case err != nil:
		s.front.Fail(w, r, err, passwordPath)
		return nil, acc, false
	case !a.U.PasswordLogin():
		s.front.Redirect(w, r, front.SecurityPath)
		return nil, acc, false
	case acc.PHC == "":
		si, st, ok := s.stepup.RequireSetUp(w, r, passwordPath)
		if !ok {
			return nil, acc, false
		}
		a.Si, a.Level = si, max(a.Level, st.SetUpLevel())
		return a, acc, true
	}
	a, ok = s.front.Guard(w, r, passwordPath, changePasswordLevel)
	return a, acc, ok
}

// showPassword serves GET /account/security/password.
func (s *Service) showPassword(w http.ResponseWriter, r *http.Request) {
	if a, acc, ok := s.passwordOwner(w, r); ok {
		s.passwordPage(w, r, a, acc, http.StatusOK, page.Dashboard{}, "", "")
	}
}

// passwordPage writes the form. wrong and refused are the problems of the two fields.
func (s *Service) passwordPage(w http.ResponseWriter, r *http.Request, a *front.Visit, acc person.Holder, status int, d page.Dashboard, wrong, refused string) {
	form := &page.PartForm{Action: passwordPath, CSRF: a.Csrf, Submit: "account.password.submit"}
	// Programs that keep passwords want to know whose it is, as it is typed to sign in.
	username := acc.Person.Username
	if p := acc.Person.PartitionName(); p != event.DefaultPartition {
		username = p + `\` + username
	}
	fields := []page.Field{{Name: "username", Label: "account.username", Value: username, Autocomplete: "username", ReadOnly: true}}
	d.Key, d.Cancel = "password", front.SecurityPath
	if acc.PHC != "" {
		fields = append(fields, page.Field{Name: "current", Type: "password", Label: "account.password.current", Autocomplete: "current-password", Required: true, Problem: wrong})
	} else {
		d.Key = "password_first"
	}
	form.Fields = page.Fields(d.Problem != "", append(fields, front.NewPasswordField(&a.U.PasswordPolicy, refused))...)
	d.Parts = []page.Part{{Form: form}}
	s.front.RenderAccount(w, r, a, status, d)
}

// handlePassword serves POST /account/security/password: another password, or the first one. Every other sign-in of the person ends.
func (s *Service) handlePassword(w http.ResponseWriter, r *http.Request) {
	a, acc, ok := s.passwordOwner(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, a.Si, passwordPath, passwordPath) {
		return
	}
	if acc.PHC != "" {
		wait, err := s.confirmPassword(r, acc, a.Si.ID, r.PostForm.Get("current"))
		switch {
		case errors.Is(err, person.ErrMismatch):
			s.passwordPage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.password_current", "")
			return
		case err != nil:
			s.front.Fail(w, r, err, passwordPath)
			return
		case wait > 0:
			s.passwordPage(w, r, a, acc, http.StatusTooManyRequests, throttled(w, wait), "", "")
			return
		}
	}
	n, err := s.person.PreparePassword(r.Context(), r.PostForm.Get("password"), s.front.Actor(r, a.Si))
	if problem := front.PasswordProblem(err); problem != "" {
		s.passwordPage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "", problem)
		return
	}
	token, rec := "", session.Record{}
	if err == nil {
		token, err = secret.NewToken(s.random, secret.Session)
	}
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.changeOwnPassword(tx, a, acc, n, proof.Hashed(s.session.DeviceToken(r))); err != nil {
				return err
			}
			rec, err = s.session.Renew(tx, a.Si.ID, token)
			return err
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch): // signed out, or another password meanwhile
		s.front.Redirect(w, r, passwordPath)
	case err != nil:
		s.front.Fail(w, r, err, passwordPath)
	default:
		s.session.SetSession(w, token, rec, n.Now)
		s.front.Redirect(w, r, front.DoneURL(passwordPath, "password"))
	}
}

// changeOwnPassword is person.ReplacePassword by the person, when what was looked at still holds. The browser stays one that is known.
func (s *Service) changeOwnPassword(tx storage.Tx, a *front.Visit, acc person.Holder, n *person.HashedPassword, device string) error {
	if err := s.still(tx, a); err != nil {
		return err
	}
	pw, err := person.Passwords.Get(tx, acc.ID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if pw.PHC != acc.PHC {
		return person.ErrMismatch
	}
	rec, err := s.person.ReplacePassword(tx, acc.ID, n)
	if err != nil || device == "" {
		return err
	}
	return proof.DeviceRecords.Put(tx, storage.Key(acc.ID, device), proof.DeviceRecord{Epoch: rec.Epoch, Seen: n.Now}, n.Now.Add(session.DeviceLife))
}

// confirmPassword checks the password of somebody who is signed in, under the counter of the browser on the sign-in page, or of the session where the
// person has not signed in there by password. wait is how long no try is taken; person.ErrMismatch: it is not the password, or another by now.
func (s *Service) confirmPassword(r *http.Request, acc person.Holder, session, password string) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.origin(r)
	at, err := s.proof.BeginAttempt(ctx, acc, acc.Person.Username, proof.Origin{Address: from.ClientIP, Device: proof.Hashed(s.session.DeviceToken(r)), Session: session})
	if err != nil || at.Wait > 0 {
		return at.Wait, err
	}
	_, err = s.person.Verify(ctx, acc, password)
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.log.Info("password not confirmed", zap.String("person_id", acc.ID), zap.String("client_ip", from.ClientIP))
		return 0, cmp.Or(s.proof.Failed(ctx, "", acc, at, from), person.ErrMismatch)
	case err != nil:
		s.proof.NotEvaluated(ctx, at)
		return 0, err
	}
	now := s.now()
	return 0, s.store.Update(ctx, func(tx storage.Tx) error { return s.proof.Undo(tx, at, true, now) })
}

// throttled says on a page that no try is taken for a while.
func throttled(w http.ResponseWriter, wait time.Duration) page.Dashboard {
	d := page.Dashboard{Problem: "problem.wait", Wait: int((wait + time.Second - 1) / time.Second)}
	w.Header().Set("Retry-After", strconv.Itoa(d.Wait)) // RFC 6585 4
	return d
}
