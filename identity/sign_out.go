package identity

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SignOut ends the browser's session, if it has one, and clears its cookie. It writes no answer. via is a path of ours that signs the browser
// out at the identity provider too and then leads to ret; "" when there is none to go to.
func (s *Service) SignOut(w http.ResponseWriter, r *http.Request, ret string) (via string, err error) {
	token := s.jar.Get(r, session.CookieSession)
	if !secret.IsToken(secret.Session, token) {
		s.jar.Clear(w, session.CookieSession)
		return "", nil
	}
	before, err := s.Session.Read(r)
	if err != nil {
		return "", err
	}
	if before != nil {
		if via, err = s.Federation.EndAtProvider(w, r, before, ret); err != nil { // the session ends whatever becomes of the provider's
			s.log.Warn("no sign-out at the provider", zap.String("provider", before.Session.Provider), zap.Error(err))
			via = ""
		}
	}
	ev, err := s.Person.NewEvents(s.origin(r), front.SignedOut)
	if err != nil {
		return "", err
	}
	hash, now := secret.Hash(token), s.now()
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		si, err := s.Session.Open(tx, hash, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Session.End(tx, si.ID, si.Session); err != nil {
			return err
		}
		return s.events.Append(tx, si.OwnEvent(ev[0], ""))
	})
	if err != nil {
		return "", err
	}
	s.jar.Clear(w, session.CookieSession)
	return via, nil
}

// showSignOut serves GET /sign-out: it asks, and changes nothing.
func (s *Service) showSignOut(w http.ResponseWriter, r *http.Request) {
	si, err := s.Session.Read(r)
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-out")
		return
	}
	if si == nil {
		s.pages.Render(w, r, page.View{Template: "signed_out", Data: page.SignedOut{}})
		return
	}
	csrf, err := s.Front.SignOutToken(w, r, si)
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-out")
		return
	}
	after, action, err := s.leaving(r)
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-out")
		return
	}
	s.pages.Render(w, r, page.View{Template: "sign_out", Client: login.Client{Targets: front.TargetsOf(after)}, Data: page.SignOut{
		Action: action, CSRF: csrf, Account: si.Person.Username, Cancel: "/account",
	}})
}

// leaving returns where a person goes who signs out, "" for our own page, and where the form that asks leads. The parameter redirect may name a
// path of ours or a whitelisted URL.
func (s *Service) leaving(r *http.Request) (after, action string, err error) {
	u, err := s.Person.Settings(r.Context())
	if err != nil {
		return "", "", err
	}
	if after = front.Allowed(u, r.URL.Query().Get("redirect")); after != "" {
		return after, "/sign-out?" + url.Values{"redirect": {after}}.Encode(), nil
	}
	after, err = s.Front.AfterLogout(r.Context())
	return after, "/sign-out", err
}

// handleSignOut serves POST /sign-out.
func (s *Service) handleSignOut(w http.ResponseWriter, r *http.Request) {
	si, err := s.Session.Read(r)
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-out")
		return
	}
	if si == nil { // signed out already, perhaps in another tab
		s.Front.Redirect(w, r, "/sign-out")
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), "sign_out:"+si.ID); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, "/sign-out")
		return
	}
	frames, err := s.Person.Watcher().LogoutFrames(r.Context(), si.Session.PersonID, si.ID)
	via, after := "", ""
	if err == nil {
		after, _, err = s.leaving(r)
	}
	if err == nil {
		via, err = s.SignOut(w, r, cmp.Or(after, "/sign-out"))
	}
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-out")
		return
	}
	if len(frames) > 0 {
		s.pages.Render(w, r, page.View{Template: "signed_out", Data: page.SignedOut{
			Frames: frames, Continue: cmp.Or(via, after), GoOn: via != "" || after != "",
		}})
		return
	}
	s.Front.LeaveTo(w, r, cmp.Or(via, after, "/sign-out"))
}
