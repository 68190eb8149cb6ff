package identity

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const linkReset linkKind = "reset"

const (
	resetPath     = "/reset"
	resetDonePath = resetPath + "/done"
)

// resetting is a request of the page that a link for a new password has opened.
type resetting struct {
	aside
	*opened

	username string
}

// resetOpened reads it. Otherwise it has written the answer and is not ok.
func (s *Service) resetOpened(w http.ResponseWriter, r *http.Request) (x resetting, ok bool) {
	if x.aside, ok = s.beside(w, r, forgotPath, s.resets); !ok {
		return x, false
	}
	if x.opened, ok = s.openLink(w, r, linkReset, s.forgotAt(x.u)); !ok {
		return x, false
	}
	var err error
	if x.id, x.flow, err = s.signInOf(r, x.rec.Data[linkFlow]); err == nil {
		err = s.Store.View(r.Context(), func(tx storage.Tx) error {
			p, err := persons.Get(tx, x.rec.PersonID)
			if err == nil {
				x.username, err = s.InPartition(p.partition(), p.Username)
			}
			return err
		})
	}
	if err != nil {
		s.fail(w, r, err, resetPath)
		return x, false
	}
	return x, true
}

// showReset serves GET /reset: the page for a new password.
func (s *Service) showReset(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.resetOpened(w, r); ok {
		s.resetPage(w, r, x, http.StatusOK, "")
	}
}

func (s *Service) resetPage(w http.ResponseWriter, r *http.Request, x resetting, status int, problem string) {
	// Password managers store the two together.
	name := page.Field{Name: "username", Label: "sign_in.username", Value: x.username, Autocomplete: "username", ReadOnly: true}
	s.formPage(w, r, x.aside, x.form(), status, page.Form{
		Key: "reset", Action: resetPath, Fields: page.Fields(false, name, newPasswordField(&x.u.PasswordPolicy, problem)),
	})
}

// handleReset serves POST /reset: the password is another, the link is used up, and everything given before has ended.
func (s *Service) handleReset(w http.ResponseWriter, r *http.Request) {
	x, ok := s.resetOpened(w, r)
	if !ok || !s.checkLinkForm(w, r, x.opened) {
		return
	}
	password := r.PostForm.Get("password")
	if password == "" {
		s.resetPage(w, r, x, http.StatusUnprocessableEntity, "problem.password")
		return
	}
	err := s.reset(r.Context(), x, password, s.Origin(r))
	switch problem := passwordProblem(err); {
	case err == nil:
		s.jar.Clear(w, linkCookieOf(linkReset))
		s.redirect(w, r, withSignIn(resetDonePath, x.id))
	case problem != "":
		s.resetPage(w, r, x, http.StatusUnprocessableEntity, problem)
	case errors.Is(err, errNoLink), errors.Is(err, ErrNoPerson):
		s.failLink(w, r, linkReset, s.forgotAt(x.u), errNoLink)
	default:
		s.fail(w, r, err, resetPath)
	}
}

func (s *Service) reset(ctx context.Context, x resetting, password string, from event.Origin) error {
	by := Actor{ID: x.rec.PersonID, Name: x.username, Origin: from}
	fresh, err := s.preparePassword(ctx, password, by)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(from, passwordReset)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		link, err := s.spendLink(tx, linkReset, x.token, fresh.now)
		if err != nil {
			return err
		}
		rec, err := s.replacePassword(tx, link.PersonID, fresh)
		if err != nil {
			return err
		}
		if err := s.tellReset(tx, link.PersonID, &rec, fresh); err != nil {
			return err
		}
		if err := s.unthrottle(tx, link.PersonID, from); err != nil {
			return err
		}
		if x.id != "" { // the sign-in that goes on now
			x.flow.Typed = x.username
			if err := flows.Put(tx, x.id, x.flow, x.flow.ExpiresAt.Add(flowMemory)); err != nil {
				return err
			}
		}
		e := by.did(ev[0], link.PersonID, "")
		e.Partition = rec.partition()
		return s.Events.Append(tx, e)
	})
}

// tellReset tells the person, unless they were told already that the password is another.
func (s *Service) tellReset(tx storage.Tx, id string, rec *personRecord, n *newPassword) error {
	u, err := s.switches(tx)
	if err != nil || !u.PasswordReset || hears(u, n.kind) {
		return err
	}
	prof, err := readProfile(tx, id, rec)
	if err != nil {
		return err
	}
	return s.send(tx, told{id: id, rec: rec, profile: &prof.Profile}.notice(notify.PasswordReset, n.now))
}

// unthrottle forgets the wrong passwords of a person who has a new one: those of strangers must not keep them out now.
func (s *Service) unthrottle(tx storage.Tx, id string, from event.Origin) error {
	for _, c := range s.counters("person:"+id, whence{address: from.ClientIP, many: true}, false) {
		if err := failures.Delete(tx, c.key); err != nil {
			return err
		}
	}
	return nil
}

// showResetDone serves GET /reset/done?flow=…: the way to sign in with the new password.
func (s *Service) showResetDone(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, forgotPath, s.resets); ok {
		s.formPage(w, r, a, "", http.StatusOK, page.Form{Key: "reset_done", Next: signInAt(a.id)})
	}
}
