package identity

import (
	"cmp"
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// showSignOut serves GET /sign-out: it asks, and changes nothing.
func (s *Service) showSignOut(w http.ResponseWriter, r *http.Request) {
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	if si == nil {
		s.Pages.Render(w, r, page.View{Template: "signed_out", Data: page.SignedOut{}})
		return
	}
	csrf, err := s.signOutToken(w, r, si)
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	s.Pages.Render(w, r, page.View{Template: "sign_out", Data: page.SignOut{
		Action: "/sign-out", CSRF: csrf, Account: si.person.Username, Cancel: "/account",
	}})
}

// signOutToken returns the token of a form that signs out, bound to this browser and session.
func (s *Service) signOutToken(w http.ResponseWriter, r *http.Request, si *signedIn) (string, error) {
	browser, err := s.jar.Browser(w, r, s.newID)
	return s.Pages.CSRF(browser, "sign_out:"+si.id), err
}

// handleSignOut serves POST /sign-out.
func (s *Service) handleSignOut(w http.ResponseWriter, r *http.Request) {
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	if si == nil { // signed out already, perhaps in another tab
		s.redirect(w, r, "/sign-out")
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), "sign_out:"+si.id); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, "/sign-out")
		return
	}
	frames, err := s.watcher.LogoutFrames(r.Context(), si.session.PersonID, si.id)
	via := ""
	if err == nil {
		via, err = s.SignOut(w, r, "/sign-out")
	}
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	if len(frames) > 0 {
		s.Pages.Render(w, r, page.View{Template: "signed_out", Data: page.SignedOut{Frames: frames, Continue: via, GoOn: via != ""}})
		return
	}
	s.redirect(w, r, cmp.Or(via, "/sign-out"))
}
