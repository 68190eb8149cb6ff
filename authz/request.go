package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	requestLifetime = time.Hour     // how long a request waits for the person
	requestKept     = 6 * time.Hour // how long after that "Start again" still works
	resumePath      = "/oauth/authorize"
)

// errExpired and errBrowser are shown on pages: too little is known of the request to answer the client.
var (
	errExpired = errors.New("the request has expired or never existed")
	errBrowser = errors.New("the request was started by another browser")
	errTooMany = errors.New("too much was begun from this network")
)

// isResume reports whether the browser comes back from one of our pages. In an authorization request of a client, a
// parameter named flow is just unknown.
func isResume(f oauth.Form) bool {
	for name := range f.Values {
		if name != "flow" && name != "cancel" && name != "again" {
			return false
		}
	}
	return f.Has("flow")
}

// storeRequest keeps a request until the browser comes back, bound to this browser.
func (s *Server) storeRequest(w http.ResponseWriter, r *http.Request, p *pendingRequest) error {
	if !s.deps.Admit(r, requests.Size(p.rec)) {
		return oauth.TemporarilyUnavailable(errTooMany)
	}
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return err
	}
	id, err := s.newID()
	if err != nil {
		return err
	}
	p.rec.Browser = secret.Hash(browser)
	err = s.update(r.Context(), func(tx storage.Tx) error {
		return requests.Create(tx, id, p.rec, p.rec.ExpiresAt.Add(requestKept))
	})
	if err == nil {
		p.id = id
	}
	return err
}

// loadRequest returns a stored request of this browser. An expired one is returned together with errExpired.
func (s *Server) loadRequest(r *http.Request, id string) (*pendingRequest, error) {
	p := &pendingRequest{id: id}
	err := s.view(r.Context(), func(tx storage.Tx) (err error) {
		p.rec, err = requests.Get(tx, id)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrTooLarge):
		return nil, errExpired
	case err != nil:
		return nil, err
	case !s.jar.SameBrowser(r, p.rec.Browser):
		return nil, errBrowser
	case !p.rec.ExpiresAt.After(s.now()):
		return p, errExpired
	}
	oauth.Learn(r.Context(), p.rec.ClientID, p.rec.RedirectURI, strings.Join(p.rec.Scope, " "))
	p.client, err = s.usableClient(r.Context(), &p.rec)
	return p, err
}

// usableClient reads the client of a stored request again, since its configuration can have changed.
func (s *Server) usableClient(ctx context.Context, rec *requestRecord) (*client.Client, error) {
	c, err := s.clients.Get(ctx, rec.ClientID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, errClient(oauth.ErrNoClient)
	}
	if c.Disabled {
		return nil, errClient(oauth.ErrClientDisabled)
	}
	if printOf(c) != rec.Document {
		return nil, errClient(errDocumentChanged)
	}
	if !c.AllowsRedirect(rec.RedirectURI) {
		return nil, errClient(fmt.Errorf("no longer registered: %w", oauth.ErrRedirectURI))
	}
	return c, nil
}

// resume serves GET /oauth/authorize?flow=…, where the pages of a request lead back to: to go on, to give up (cancel)
// or to start again after it has expired (again).
func (s *Server) resume(w http.ResponseWriter, r *http.Request, f oauth.Form) error {
	if err := s.clients.RefreshProviders(r.Context()); err != nil {
		return err
	}
	p, err := s.loadRequest(r, f.Get("flow"))
	if errors.Is(err, errExpired) && p != nil && p.rec.isPlain() && f.Has("again") {
		web.RedirectStatus(w, resumePath+"?"+p.rec.parameters().Encode(), http.StatusFound)
		return nil
	}
	if err != nil {
		s.refuseRequest(w, r, p, err)
		return nil
	}
	switch {
	case f.Has("again") && p.rec.isPlain():
		web.RedirectStatus(w, resumePath+"?"+p.rec.parameters().Encode(), http.StatusFound)
		return nil
	case f.Has("cancel"):
		return s.refusePending(w, r, p, oauth.AccessDenied(oauth.ErrGivenUp))
	}
	return s.proceed(w, r, p)
}

// refuseRequest writes the page for what loadRequest returned.
func (s *Server) refuseRequest(w http.ResponseWriter, r *http.Request, p *pendingRequest, err error) {
	switch {
	case errors.Is(err, errExpired):
		again := ""
		if p != nil && p.rec.isPlain() {
			again = resumePath + "?flow=" + url.QueryEscape(p.id) + "&again=true"
		}
		s.failPage(w, r, oauth.InvalidRequest(err, "the request has expired"), "error.expired", again)
	case errors.Is(err, errBrowser):
		s.failPage(w, r, &oauth.Error{
			Status: http.StatusForbidden, Code: "access_denied", Description: "the request is of another browser",
			Cause: err,
		}, "error.forbidden", "")
	default:
		s.failPage(w, r, err, "error.client", "")
	}
}

// isPlain reports whether the request can be sent again in an address: one that was pushed or signed cannot.
func (q *requestRecord) isPlain() bool { return q.Pushed == "" && !q.Signed }

// parameters writes the request as the client sent it, for "Start again". The content of a signed hint is left out.
func (q *requestRecord) parameters() url.Values {
	v := url.Values{"response_type": {q.ResponseType}, "client_id": {q.ClientID}}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.RedirectSent {
		v.Set("redirect_uri", q.RedirectURI)
	}
	set("response_mode", q.ResponseMode)
	set("state", q.State)
	set("scope", strings.Join(q.Scope, " "))
	set("nonce", q.Nonce)
	if q.Challenge != "" {
		v.Set("code_challenge", q.Challenge)
		v.Set("code_challenge_method", "S256")
	}
	set(keyParam, q.Key)
	set("prompt", strings.Join(q.Prompt, " "))
	if q.MaxAge != nil {
		v.Set("max_age", strconv.FormatInt(*q.MaxAge, 10))
	}
	set("login_hint", q.LoginHint)
	set("acr_values", strings.Join(q.ACRValues, " "))
	set("ui_locales", strings.Join(q.Locales, " "))
	set("app_view", q.View)
	set("idp", q.IDP)
	set("claims", q.Claims)
	set("authorization_details", q.AuthorizationDetails)
	if len(q.Resources) > 0 {
		v["resource"] = q.Resources
	}
	for key, values := range q.CustomParams {
		v[customParam+key] = values
	}
	for name, values := range q.Params {
		v[name] = values
	}
	return v
}
