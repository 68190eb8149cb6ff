package identity

import (
	"cmp"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
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
	after, action, err := s.leaving(r)
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	s.Pages.Render(w, r, page.View{Template: "sign_out", Client: login.Client{Targets: targetsOf(after)}, Data: page.SignOut{
		Action: action, CSRF: csrf, Account: si.person.Username, Cancel: "/account",
	}})
}

// signOutToken returns the token of a form that signs out, bound to this browser and session.
func (s *Service) signOutToken(w http.ResponseWriter, r *http.Request, si *signedIn) (string, error) {
	browser, err := s.jar.Browser(w, r, s.newID)
	return s.Pages.CSRF(browser, "sign_out:"+si.id), err
}

// leaving returns where a person goes who signs out, "" for our own page, and where the form that asks leads. The parameter redirect may name a
// path of ours or a whitelisted URL.
func (s *Service) leaving(r *http.Request) (after, action string, err error) {
	u, err := s.configured(r.Context())
	if err != nil {
		return "", "", err
	}
	if after = allowed(u, r.URL.Query().Get("redirect")); after != "" {
		return after, "/sign-out?" + url.Values{"redirect": {after}}.Encode(), nil
	}
	after, err = s.AfterLogout(r.Context())
	return after, "/sign-out", err
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
	frames, err := s.watcher().LogoutFrames(r.Context(), si.session.PersonID, si.id)
	via, after := "", ""
	if err == nil {
		after, _, err = s.leaving(r)
	}
	if err == nil {
		via, err = s.SignOut(w, r, cmp.Or(after, "/sign-out"))
	}
	if err != nil {
		s.fail(w, r, err, "/sign-out")
		return
	}
	if len(frames) > 0 {
		s.Pages.Render(w, r, page.View{Template: "signed_out", Data: page.SignedOut{
			Frames: frames, Continue: cmp.Or(via, after), GoOn: via != "" || after != "",
		}})
		return
	}
	s.sendOn(w, r, cmp.Or(via, after, "/sign-out"))
}
