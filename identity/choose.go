package identity

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// showChoice writes the page "Continue as X" (prompt=select_account).
func (s *Service) showChoice(w http.ResponseWriter, r *http.Request, id string, f flowRecord, si *signedIn) {
	data := page.Choose{
		Action: "/sign-in/account?flow=" + id, CSRF: s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), choiceForm(id, si)),
		Account: si.person.Username, Detail: si.person.Name, Cancel: page.LocalPath(f.Demand.Cancel),
	}
	s.Pages.Render(w, r, s.view(f.Demand, "choose", http.StatusOK, data))
}

// choiceForm binds the form to the session that it shows: who signed in as another meanwhile confirms nothing.
func choiceForm(id string, si *signedIn) string {
	return "choose:" + id + ":" + si.id + ":" + si.session.PersonID
}

// handleChoose serves POST /sign-in/account?flow=….
func (s *Service) handleChoose(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	if si == nil { // signed out meanwhile
		s.redirect(w, r, hereURL(id))
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), choiceForm(id, si)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, flowURL(id))
		return
	}
	if r.PostForm.Get("choice") != "continue" {
		s.redirect(w, r, flowURL(id)+"&other=1")
		return
	}
	now, hash := s.Now(), secret.Hash(s.jar.Get(r, kindSession))
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		open, err := s.open(tx, hash, now)
		if err != nil {
			return err
		}
		open.session.ConfirmedAt, open.session.ConfirmedFor = now, secret.Hash(f.Demand.Return)
		return sessions.Put(tx, open.id, open.session, s.collect(open.session))
	})
	if err != nil && storage.IsFailure(err) {
		s.fail(w, r, err, flowURL(id))
		return
	}
	s.redirect(w, r, hereURL(id)) // goes on when nothing else is demanded
}
