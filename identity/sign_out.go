package identity

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	signOutPath = "/sign-out"

	askedField = "asked" // of the form of the page that asks, whose policy lets its answer lead to another host
)

// SignOut ends the browser's session, if it has one, and clears its cookie. It writes no answer. via is one of our
// paths that signs the browser out at the identity provider too and then leads to ret; "" when there is no such
// provider.
func (s *Service) SignOut(w http.ResponseWriter, r *http.Request, ret string) (via string, err error) {
	q, err := s.Front.Load(w, r)
	if err != nil {
		return "", err
	}
	return s.signOut(q, ret)
}

// signOut is SignOut for a request of one of our pages.
func (s *Service) signOut(q *webflow.Request, ret string) (via string, err error) {
	token := s.jar.Get(q.Request, session.CookieSession)
	if !secret.IsToken(secret.Session, token) {
		s.Session.ClearCookies(q.W, q.Request)
		return "", nil
	}
	if q.SignIn != nil {
		if via, err = s.Federation.EndAtProvider(q, ret); err != nil { // the session ends all the same
			s.log.Warn("no sign-out at the provider", zap.String("provider", q.SignIn.Session.Provider), zap.Error(err))
			via = ""
		}
		at, err := s.ServiceProviders.Leave(q, cmp.Or(via, ret)) // they are told before the provider is
		if err != nil {
			s.log.Warn("no sign-out at the service providers", zap.Error(err))
		} else if at != "" {
			via = at
		}
	}
	ev, err := s.Person.NewEvents(s.origin(q.Request), webflow.SignedOut)
	if err != nil {
		return "", err
	}
	hash, now := secret.Hash(token), s.now()
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
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
	s.Session.ClearCookies(q.W, q.Request)
	return via, nil
}

// showSignOut serves GET /sign-out. It asks, and changes nothing, unless one of our own pages leads here.
// (docs/decisions/sign-out.md#sign-out-at-the-issuer)
func (s *Service) showSignOut(q *webflow.Request) error {
	q.Again = signOutPath
	if q.SignIn != nil && web.FromHere(q.Request) {
		return s.signOutBrowser(q)
	}
	if q.SignIn == nil {
		s.pages.Render(q.W, q.Request, web.View{Template: "signed_out", Data: web.SignedOut{}})
		return nil
	}
	csrf, err := s.Front.FormToken(q, webflow.SessionForm(webflow.SignOutForm, q.SignIn))
	if err != nil {
		return err
	}
	after, action := afterSignOut(q)
	s.pages.Render(q.W, q.Request, web.View{Template: "sign_out", Client: authn.Client{Targets: webflow.TargetsOf(after)}, Data: web.SignOut{
		Action: action, CSRF: csrf, Account: q.SignIn.Person.Username, Cancel: "/account", Hidden: map[string]string{askedField: "yes"},
	}})
	return nil
}

// afterSignOut returns where a browser is sent after a sign-out, "" for our own page, and the action of the form that
// asks. The parameter redirect may name one of our paths or a whitelisted URL.
func afterSignOut(q *webflow.Request) (after, action string) {
	if after = webflow.Allowed(q.Settings, q.URL.Query().Get("redirect")); after != "" {
		return after, signOutPath + "?" + url.Values{"redirect": {after}}.Encode()
	}
	return webflow.LogoutTarget(q.Settings), signOutPath
}

// handleSignOut serves POST /sign-out.
func (s *Service) handleSignOut(q *webflow.Request) error {
	q.Again = signOutPath
	if q.SignIn == nil { // signed out already, perhaps in another tab
		return q.Redirect(signOutPath)
	}
	if !web.FromHere(q.Request) {
		if err := s.Front.CheckForm(q, webflow.SessionForm(webflow.SignOutForm, q.SignIn), signOutPath); err != nil {
			return err
		}
	}
	return s.signOutBrowser(q)
}

// signOutBrowser signs the browser out and sends it on.
func (s *Service) signOutBrowser(q *webflow.Request) error {
	frames, err := s.Person.Watcher().LogoutFrames(q.Context(), q.SignIn.Session.PersonID, q.SignIn.ID)
	if err != nil {
		return err
	}
	after, _ := afterSignOut(q)
	via, err := s.signOut(q, cmp.Or(after, signOutPath))
	if err != nil {
		return err
	}
	// Browsers would not follow a form of another page to another host.
	stays := via == "" && q.Method == http.MethodPost && q.PostFormValue(askedField) == "" && len(webflow.TargetsOf(after)) > 0
	if len(frames) > 0 || stays {
		s.pages.Render(q.W, q.Request, web.View{Template: "signed_out", Data: web.SignedOut{
			Frames: frames, Continue: cmp.Or(via, after), GoOn: via != "" || after != "",
		}})
		return nil
	}
	return q.LeaveTo(cmp.Or(via, after, signOutPath))
}
