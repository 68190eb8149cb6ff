package identity

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// showChoice writes the page "Continue as X" (prompt=select_account).
func (s *Service) showChoice(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, si *session.Current) {
	data := page.Choose{
		Action: "/sign-in/account?flow=" + id, CSRF: s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), choiceForm(id, si)),
		Account: si.Person.Username, Detail: si.Person.Name, Cancel: page.LocalPath(f.Demand.Cancel),
	}
	s.pages.Render(w, r, s.Front.View(f.Demand, "choose", http.StatusOK, data))
}

// choiceForm binds the form to the session that it shows: who signed in as another meanwhile confirms nothing.
func choiceForm(id string, si *session.Current) string {
	return "choose:" + id + ":" + si.ID + ":" + si.Session.PersonID
}

// handleChoose serves POST /sign-in/account?flow=….
func (s *Service) handleChoose(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.Front.Flow(w, r)
	if !ok {
		return
	}
	si, err := s.Session.Read(r)
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	if si == nil { // signed out meanwhile
		s.Front.Redirect(w, r, hereURL(id))
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), choiceForm(id, si)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, front.FlowURL(id))
		return
	}
	if r.PostForm.Get("choice") != "continue" {
		s.Front.Redirect(w, r, front.FlowURL(id)+"&other=1")
		return
	}
	now, hash := s.now(), secret.Hash(s.jar.Get(r, session.CookieSession))
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		open, err := s.Session.Open(tx, hash, now)
		if err != nil {
			return err
		}
		open.Session.ConfirmedAt, open.Session.ConfirmedFor = now, secret.Hash(f.Demand.Return)
		return session.Records.Put(tx, open.ID, open.Session, s.Session.Collect(open.Session))
	})
	if err != nil && storage.IsFailure(err) {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	s.Front.Redirect(w, r, hereURL(id)) // goes on when nothing else is demanded
}
