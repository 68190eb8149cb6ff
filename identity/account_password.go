package identity

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const passwordPath = securityPath + "/password"

// passwordSection is about the password, while passwords sign anybody in.
func passwordSection(tx storage.Tx, si *signedIn, st *standing) (*page.SecuritySection, error) {
	if !st.units.PasswordLogin() {
		return nil, nil //nolint:nilnil // there is nothing to show
	}
	has, err := passwords.Has(tx, si.session.PersonID)
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
func (s *Service) passwordOwner(w http.ResponseWriter, r *http.Request) (a *onAccount, acc account, ok bool) {
	if a, ok = s.guard(w, r, passwordPath); !ok {
		return nil, acc, false
	}
	acc, err := s.accountOf(r.Context(), a.si.session.PersonID)
	switch {
	case err != nil:
		s.fail(w, r, err, passwordPath)
		return nil, acc, false
	case !a.u.PasswordLogin():
		s.redirect(w, r, securityPath)
		return nil, acc, false
	case acc.phc == "":
		si, st, ok := s.requireSetUp(w, r, passwordPath)
		if !ok {
			return nil, acc, false
		}
		a.si, a.level = si, max(a.level, st.setUpLevel())
		return a, acc, true
	}
	a, ok = s.guard(w, r, passwordPath, changePasswordLevel)
	return a, acc, ok
}

// accountOf is lookUp of the person of an id.
func (s *Service) accountOf(ctx context.Context, id string) (a account, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		a = account{id: id}
		if a.person, err = persons.Get(tx, id); err != nil {
			return err
		}
		pw, err := passwords.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		a.phc = pw.PHC
		return err
	})
	return a, err
}

// showPassword serves GET /account/security/password.
func (s *Service) showPassword(w http.ResponseWriter, r *http.Request) {
	if a, acc, ok := s.passwordOwner(w, r); ok {
		s.passwordPage(w, r, a, acc, http.StatusOK, page.Dashboard{}, "", "")
	}
}

// passwordPage writes the form. wrong and refused are the problems of the two fields.
func (s *Service) passwordPage(w http.ResponseWriter, r *http.Request, a *onAccount, acc account, status int, d page.Dashboard, wrong, refused string) {
	form := &page.PartForm{Action: passwordPath, CSRF: a.csrf, Submit: "account.password.submit"}
	// Programs that keep passwords want to know whose it is, as it is typed to sign in.
	username := acc.person.Username
	if p := acc.person.partition(); p != event.DefaultPartition {
		username = p + `\` + username
	}
	fields := []page.Field{{Name: "username", Label: "account.username", Value: username, Autocomplete: "username", ReadOnly: true}}
	d.Key, d.Cancel = "password", securityPath
	if acc.phc != "" {
		fields = append(fields, page.Field{Name: "current", Type: "password", Label: "account.password.current", Autocomplete: "current-password", Required: true, Problem: wrong})
	} else {
		d.Key = "password_first"
	}
	form.Fields = page.Fields(d.Problem != "", append(fields, newPasswordField(&a.u.PasswordPolicy, refused))...)
	d.Parts = []page.Part{{Form: form}}
	s.accountPage(w, r, a, status, d)
}

// handlePassword serves POST /account/security/password: another password, or the first one. Every other sign-in of the person ends.
func (s *Service) handlePassword(w http.ResponseWriter, r *http.Request) {
	a, acc, ok := s.passwordOwner(w, r)
	if !ok || !s.checkSecurityForm(w, r, a.si, passwordPath, passwordPath) {
		return
	}
	if acc.phc != "" {
		wait, err := s.confirmPassword(r, acc, a.si.id, r.PostForm.Get("current"))
		switch {
		case errors.Is(err, errMismatch):
			s.passwordPage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.password_current", "")
			return
		case err != nil:
			s.fail(w, r, err, passwordPath)
			return
		case wait > 0:
			s.passwordPage(w, r, a, acc, http.StatusTooManyRequests, throttled(w, wait), "", "")
			return
		}
	}
	n, err := s.preparePassword(r.Context(), r.PostForm.Get("password"), s.actor(r, a.si))
	if problem := passwordProblem(err); problem != "" {
		s.passwordPage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "", problem)
		return
	}
	token, rec := "", sessionRecord{}
	if err == nil {
		token, err = secret.NewToken(s.Random, secret.Session)
	}
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.changeOwnPassword(tx, a, acc, n, hashed(s.device(r))); err != nil {
				return err
			}
			rec, err = s.renew(tx, a.si.id, token)
			return err
		})
	}
	switch {
	case errors.Is(err, errMismatch): // signed out, or another password meanwhile
		s.redirect(w, r, passwordPath)
	case err != nil:
		s.fail(w, r, err, passwordPath)
	default:
		s.setSession(w, token, rec, n.now)
		s.redirect(w, r, doneURL(passwordPath, "password"))
	}
}

// changeOwnPassword is replacePassword by the person, when what was looked at still holds. The browser stays one that is known.
func (s *Service) changeOwnPassword(tx storage.Tx, a *onAccount, acc account, n *newPassword, device string) error {
	if err := s.still(tx, a); err != nil {
		return err
	}
	pw, err := passwords.Get(tx, acc.id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if pw.PHC != acc.phc {
		return errMismatch
	}
	rec, err := s.replacePassword(tx, acc.id, n)
	if err != nil || device == "" {
		return err
	}
	return devices.Put(tx, storage.Key(acc.id, device), deviceRecord{Epoch: rec.Epoch, Seen: n.now}, n.now.Add(deviceLife))
}

// confirmPassword checks the password of somebody who is signed in, under the counter of the browser on the sign-in page, or of the session where the
// person has not signed in there by password. wait is how long no try is taken; errMismatch: it is not the password, or another by now.
func (s *Service) confirmPassword(r *http.Request, acc account, session, password string) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.Origin(r)
	at, err := s.countTry(ctx, acc, acc.person.Username, whence{address: from.ClientIP, device: hashed(s.device(r)), session: session})
	if err != nil || at.wait > 0 {
		return at.wait, err
	}
	_, err = s.verify(ctx, acc, password)
	switch {
	case errors.Is(err, errMismatch):
		s.Log.Info("password not confirmed", zap.String("person_id", acc.id), zap.String("client_ip", from.ClientIP))
		return 0, cmpErr(s.failed(ctx, "", acc, at, from), errMismatch)
	case err != nil:
		s.notEvaluated(ctx, at)
		return 0, err
	}
	now := s.Now()
	return 0, s.Store.Update(ctx, func(tx storage.Tx) error { return s.giveBack(tx, at, true, now) })
}

// throttled says on a page that no try is taken for a while.
func throttled(w http.ResponseWriter, wait time.Duration) page.Dashboard {
	d := page.Dashboard{Problem: "problem.wait", Wait: int((wait + time.Second - 1) / time.Second)}
	w.Header().Set("Retry-After", strconv.Itoa(d.Wait)) // RFC 6585 4
	return d
}
