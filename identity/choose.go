package identity

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// showChoice writes the page "Continue as X" (prompt=select_account).
func (s *Service) showChoice(x *signIn) error {
	csrf, err := s.Front.FormToken(x.Request, choiceForm(x.id, x.SignIn))
	if err != nil {
		return err
	}
	data := web.Choose{
		Action: choicePath + "?flow=" + x.id, CSRF: csrf, Account: x.SignIn.Person.Username, Detail: x.SignIn.Person.Name,
		Cancel: web.LocalPath(x.flow.Demand.Cancel),
	}
	s.pages.Render(x.W, x.Request.Request, s.Front.View(x.flow.Demand, "choose", http.StatusOK, data))
	return nil
}

const choicePath = "/sign-in/account"

// choiceForm binds the form to the session that it shows: it confirms nothing once another account has signed in.
func choiceForm(id string, si *session.Current) string {
	return "choose:" + id + ":" + si.ID + ":" + si.Session.PersonID
}

// handleChoose serves POST /sign-in/account?flow=….
func (s *Service) handleChoose(q *webflow.Request) error {
	id, f, err := s.Front.FlowIn(q)
	if err != nil {
		return err
	}
	q.Again = webflow.FlowURL(id)
	if q.SignIn == nil { // signed out meanwhile
		return q.Redirect(hereURL(id))
	}
	if err := s.Front.CheckForm(q, choiceForm(id, q.SignIn), q.Again); err != nil {
		return err
	}
	if q.PostForm.Get("choice") != "continue" {
		return q.Redirect(webflow.AnotherInFlow(id))
	}
	now, hash := s.now(), secret.Hash(s.jar.Get(q.Request, session.CookieSession))
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
		open, err := s.Session.Open(tx, hash, now)
		if err != nil {
			return err
		}
		open.Session.ConfirmedAt, open.Session.ConfirmedFor = now, secret.Hash(f.Demand.Return)
		return session.Records.Put(tx, open.ID, open.Session, s.Session.Collect(open.Session))
	})
	if err != nil && storage.IsFailure(err) {
		return err
	}
	return q.Redirect(hereURL(id)) // which redirects when the demand is satisfied
}
