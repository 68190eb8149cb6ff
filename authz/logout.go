package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	logoutPath = "/oauth/logout"
	logoutForm = "logout" // purpose of the confirmation form
)

// signOut is a sign-out while it is checked.
type signOut struct {
	form    oauth.Form
	current *authn.Result // the current sign-in; nil: signed out
	account string
	hint    token.HintClaims // zero: no hint, or a foreign one
	hinted  bool             // the hint, or a site, names who is signed in
	// target is the destination of the browser afterwards. Empty: our own page.
	target string
	// offered is a target that only its registration vouches for: a link, never a redirect.
	offered    string
	registered []string // what the client of an unregistered target has registered
	// after is the operator's page for people who come without a client. Empty: our own page.
	after string
}

// handleLogout serves GET and POST /oauth/logout (OpenID Connect RP-Initiated Logout 2). Without a hint that names the
// signed-in person any site could have sent the browser, so the person is asked.
func (s *Server) handleLogout(w http.ResponseWriter, r *http.Request) error {
	f, err := authorizeForm(r)
	if err != nil {
		return err
	}
	for name, values := range f.Values {
		if len(values) > 1 {
			return oauth.Repeated(name)
		}
	}
	confirmed := r.Method == http.MethodPost && f.Has("csrf")
	l := &signOut{form: f}
	if isPosted(f) {
		if l, err = s.readPostedLogout(r.Context(), f.Get(postedParam)); err != nil {
			return err
		}
	} else if raw := f.Get("id_token_hint"); raw != "" {
		if hint, err := s.tokens.ReadIDToken(raw); err == nil { // a foreign one is ignored
			l.hint = hint
		}
	}
	if r.Method == http.MethodPost && !confirmed {
		if l.hint.Audience != "" {
			return s.keepPostedLogout(w, r, l)
		}
		delete(f.Values, "id_token_hint")
		web.Redirect(w, logoutPath+"?"+f.Encode()) // nothing in it is secret
		return nil
	}
	if l.current, err = s.deps.Auth.Current(r); err != nil {
		return oauth.StorageError(err)
	}
	if err := s.checkLogout(r.Context(), l); errors.Is(err, errLogoutTarget) {
		s.failWith(w, r, err, web.Failure{
			Key: "error.logout_target", Again: "/sign-out", AgainLabel: "account.sign_out",
			Details: s.sentDetails(nil, l.registered), // the page does not repeat the address
		})
		return nil
	} else if err != nil {
		return err
	}
	if s.deps.AfterLogout != nil && l.target == "" && l.offered == "" {
		if l.after, err = s.deps.AfterLogout(r.Context()); err != nil {
			return oauth.StorageError(err)
		}
	}
	if confirmed {
		if err := s.checkLogoutPost(r, l); err != nil {
			return err
		}
		return s.leave(w, r, l, http.StatusSeeOther)
	}
	if l.current == nil || l.hinted || web.FromHere(r) {
		return s.leave(w, r, l, http.StatusFound)
	}
	return s.askLogout(w, r, l)
}

// checkLogoutPost checks the confirmation form, whose body has been read already. The page does not contain the hint;
// the form's token says that a hint vouched for the client.
func (s *Server) checkLogoutPost(r *http.Request, l *signOut) error {
	r.PostForm = url.Values(l.form.Values)
	browser := s.jar.Get(r, cookie.KindBrowser)
	if s.deps.Pages.CheckPost(r, browser, vouchedForm(l.form.Get("client_id"))) == nil {
		if l.offered != "" {
			l.target = l.offered
		}
		return nil
	}
	if err := s.deps.Pages.CheckPost(r, browser, logoutForm); err != nil && !web.FromHere(r) {
		return &oauth.Error{Status: http.StatusForbidden, Code: "access_denied", Description: "the form is refused", Cause: err}
	}
	return nil
}

// vouchedForm is the purpose of a confirmation form that follows a valid hint for this client.
func vouchedForm(clientID string) string { return logoutForm + " for " + clientID }

// checkLogout decides where the browser can go. An unregistered target is an error.
func (s *Server) checkLogout(ctx context.Context, l *signOut) error {
	target, clientID := l.form.Get("post_logout_redirect_uri"), l.form.Get("client_id")
	if l.hint.Audience != "" {
		// RP-Initiated Logout 2: "MUST verify that the Client Identifier matches"
		if clientID != "" && clientID != l.hint.Audience {
			return oauth.InvalidRequest(nil, "client_id is not the audience of id_token_hint")
		}
		clientID = l.hint.Audience
		sector, err := s.hintSector(ctx, clientID)
		if err != nil {
			return err
		}
		l.hinted = l.current != nil && s.tokens.SubjectIn(sector, l.current.Subject) == l.hint.Subject
	}
	if l.current != nil && s.deps.Pages.IsCSRF(l.form.Get(siteLogoutParam), l.current.SessionID, siteLogoutParam) {
		l.hinted = true // one of our sites names the session that ends
	}
	err := s.view(ctx, func(tx storage.Tx) error { return s.logoutTarget(tx, l, clientID, target) })
	if errors.Is(err, storage.ErrNotFound) {
		return errClient(oauth.ErrNoClient)
	}
	return err
}

func (s *Server) logoutTarget(tx storage.Tx, l *signOut, clientID, target string) error {
	if l.current != nil {
		subject, err := s.deps.Subjects.Get(tx, l.current.Subject)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		l.account = subject.Username
	}
	if target == "" {
		return nil
	}
	if s.isSiteTarget(target) {
		l.target = target
		return nil
	}
	if clientID == "" {
		return nil // the target has no client: our own page
	}
	c, found, err := s.clients.Find(tx, clientID)
	if err != nil {
		return err
	}
	if !found {
		return storage.ErrNotFound
	}
	if c.Disabled || !slices.ContainsFunc(c.PostLogoutRedirectURIs, func(registered string) bool { return sameTarget(registered, target) }) {
		l.registered = c.PostLogoutRedirectURIs
		return oauth.InvalidRequest(errLogoutTarget, "post_logout_redirect_uri is not registered")
	}
	if l.hint.Audience == "" {
		l.offered = target
		return nil
	}
	l.target = target
	return nil
}

// errLogoutTarget says that the browser is not sent where an application wants it after the sign-out.
var errLogoutTarget = errors.New("the address is not one of the post_logout_redirect_uris of the client")

// sameTarget reports whether a target is the registered one: the same string (RP-Initiated Logout 3), or the same
// origin with and without the slash of its start page, which URL classes add.
func sameTarget(registered, target string) bool {
	return registered == target || (strings.TrimSuffix(registered, "/") == strings.TrimSuffix(target, "/") && isOrigin(registered))
}

// isOrigin reports whether a URI is an origin, with or without a slash.
func isOrigin(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host != "" && (u.Path == "" || u.Path == "/") && strings.TrimSuffix(uri, "/") == u.Scheme+"://"+u.Host
}

// isSiteTarget reports whether the target is the start page of a site that declares login, or its page after a
// sign-out.
func (s *Server) isSiteTarget(target string) bool {
	origin, ok := strings.CutSuffix(target, SiteSignedOut)
	if !ok {
		origin = strings.TrimSuffix(target, "/")
	}
	return s.sites[origin]
}

// leave ends the session and redirects the browser.
func (s *Server) leave(w http.ResponseWriter, r *http.Request, l *signOut, status int) error {
	var frames []string
	if l.current != nil {
		var err error
		if frames, err = s.LogoutFrames(r.Context(), l.current.Subject, l.current.SessionID); err != nil {
			return err
		}
	}
	params, target := url.Values{}, l.target
	if state := l.form.Get("state"); state != "" {
		params.Set("state", state) // RP-Initiated Logout 3: only when it was sent
	}
	if target != "" {
		target = client.WithQuery(target, params)
	} else if l.offered == "" {
		target = l.after
	}
	via, err := s.deps.Auth.SignOut(w, r, cmp.Or(target, s.cfg.Issuer+"/sign-out"))
	if err != nil {
		return oauth.StorageError(err)
	}
	s.visits.Wake()
	if via != "" { // to the identity provider first
		target = via
	}
	if target != "" && len(frames) == 0 {
		web.RedirectStatus(w, target, status)
		return nil
	}
	data := web.SignedOut{Frames: frames}
	if target != "" {
		data.Continue, data.GoOn = target, true // after a delay for the frames
	} else if l.offered != "" {
		data.Continue = client.WithQuery(l.offered, params)
	}
	s.deps.Pages.Render(w, r, web.View{Template: "signed_out", Data: data})
	return nil
}

// askLogout shows the confirmation page.
func (s *Server) askLogout(w http.ResponseWriter, r *http.Request, l *signOut) error {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return err
	}
	purpose, hidden := logoutForm, map[string]string{}
	for _, name := range []string{"client_id", "post_logout_redirect_uri", "state"} {
		if value := l.form.Get(name); value != "" {
			hidden[name] = value
		}
	}
	if l.hint.Audience != "" {
		purpose, hidden["client_id"] = vouchedForm(l.hint.Audience), l.hint.Audience
	}
	view := web.View{Template: "sign_out", Data: web.SignOut{
		Action: logoutPath, CSRF: s.deps.Pages.CSRF(browser, purpose), Account: l.account, Hidden: hidden, Cancel: "/account",
	}}
	if l.after != "" {
		view.Client.Targets = []string{client.RedirectTarget(l.after)}
	}
	if l.target != "" {
		view.Client.Targets = []string{client.RedirectTarget(l.target)}
	}
	s.deps.Pages.Render(w, r, view)
	return nil
}

// LogoutURL returns the URL to which a site sends a browser to sign out everywhere, after a question. The browser comes
// back to a page of the site that says so.
func (s *Server) LogoutURL(origin string) string {
	return client.WithQuery(s.cfg.Issuer+logoutPath, url.Values{"post_logout_redirect_uri": {origin + SiteSignedOut}})
}
