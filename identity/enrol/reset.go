package enrol

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const LinkReset proof.LinkKind = "reset"

const (
	ResetPath     = "/reset"
	resetDonePath = ResetPath + "/done"
)

// resetRequest is a request of the page that a link for a new password has opened.
type resetRequest struct {
	front.Detour
	*proof.OpenLink

	username string
}

// resetOpened reads it. Otherwise it has written the answer and is not ok.
func (s *Service) resetOpened(w http.ResponseWriter, r *http.Request) (x resetRequest, ok bool) {
	if x.Detour, ok = s.front.Detour(w, r, forgotPath, s.resets); !ok {
		return x, false
	}
	if x.OpenLink, ok = s.front.OpenLink(w, r, LinkReset, s.forgotAt(x.U)); !ok {
		return x, false
	}
	var err error
	if x.ID, x.Flow, err = s.front.SignInOf(r, x.Rec.Data[front.LinkFlow]); err == nil {
		err = s.store.View(r.Context(), func(tx storage.Tx) error {
			p, err := person.Records.Get(tx, x.Rec.PersonID)
			if err == nil {
				x.username, err = s.person.InPartition(p.PartitionName(), p.Username)
			}
			return err
		})
	}
	if err != nil {
		s.front.Fail(w, r, err, ResetPath)
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

func (s *Service) resetPage(w http.ResponseWriter, r *http.Request, x resetRequest, status int, problem string) {
	// Password managers store the two together.
	name := page.Field{Name: "username", Label: "sign_in.username", Value: x.username, Autocomplete: "username", ReadOnly: true}
	s.front.FormPage(w, r, x.Detour, x.Form(), status, page.Form{
		Key: "reset", Action: ResetPath, Fields: page.Fields(false, name, front.NewPasswordField(&x.U.PasswordPolicy, problem)),
	})
}

// handleReset serves POST /reset: the password is another, the link is used up, and everything given before has ended.
func (s *Service) handleReset(w http.ResponseWriter, r *http.Request) {
	x, ok := s.resetOpened(w, r)
	if !ok || !s.front.CheckLinkForm(w, r, x.OpenLink) {
		return
	}
	password := r.PostForm.Get("password")
	if password == "" {
		s.resetPage(w, r, x, http.StatusUnprocessableEntity, "problem.password")
		return
	}
	err := s.reset(r.Context(), x, password, s.origin(r))
	switch problem := front.PasswordProblem(err); {
	case err == nil:
		s.jar.Clear(w, proof.LinkCookieOf(LinkReset))
		s.front.Redirect(w, r, front.WithSignIn(resetDonePath, x.ID))
	case problem != "":
		s.resetPage(w, r, x, http.StatusUnprocessableEntity, problem)
	case errors.Is(err, proof.ErrNoLink), errors.Is(err, person.ErrNoPerson):
		s.front.FailLink(w, r, LinkReset, s.forgotAt(x.U), proof.ErrNoLink)
	default:
		s.front.Fail(w, r, err, ResetPath)
	}
}

func (s *Service) reset(ctx context.Context, x resetRequest, password string, from event.Origin) error {
	by := event.Actor{ID: x.Rec.PersonID, Name: x.username, Origin: from}
	fresh, err := s.person.PreparePassword(ctx, password, by)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(from, passwordReset)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		link, err := s.proof.SpendLink(tx, LinkReset, x.Token, fresh.Now)
		if err != nil {
			return err
		}
		rec, err := s.person.ReplacePassword(tx, link.PersonID, fresh)
		if err != nil {
			return err
		}
		if err := s.tellReset(tx, link.PersonID, &rec, fresh); err != nil {
			return err
		}
		if err := s.unthrottle(tx, link.PersonID, from); err != nil {
			return err
		}
		if x.ID != "" { // the sign-in that goes on now
			x.Flow.Typed = x.username
			if err := front.FlowRecords.Put(tx, x.ID, x.Flow, x.Flow.ExpiresAt.Add(front.FlowMemory)); err != nil {
				return err
			}
		}
		e := by.Fill(ev[0], link.PersonID, "")
		e.Partition = rec.PartitionName()
		return s.events.Append(tx, e)
	})
}

// tellReset tells the person, unless they were told already that the password is another.
func (s *Service) tellReset(tx storage.Tx, id string, rec *person.Record, n *person.HashedPassword) error {
	u, err := s.person.Switches(tx)
	if err != nil || !u.PasswordReset || person.HearsOf(u, n.Kind) {
		return err
	}
	prof, err := person.ReadProfile(tx, id, rec)
	if err != nil {
		return err
	}
	return s.person.SendNotice(tx, person.Recipient{ID: id, Rec: rec, Profile: &prof.Profile}.Notice(notify.PasswordReset, n.Now))
}

// unthrottle forgets the wrong passwords of a person who has a new one: those of strangers must not keep them out now.
func (s *Service) unthrottle(tx storage.Tx, id string, from event.Origin) error {
	for _, c := range s.proof.Counters("person:"+id, proof.Origin{Address: from.ClientIP, Many: true}, false) {
		if err := proof.FailureRecords.Delete(tx, c.Key); err != nil {
			return err
		}
	}
	return nil
}

// showResetDone serves GET /reset/done?flow=…: the way to sign in with the new password.
func (s *Service) showResetDone(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotPath, s.resets); ok {
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{Key: "reset_done", Next: signInAt(a.ID)})
	}
}
