package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/par"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// authorizeRequest is an authorization request while it is checked.
type authorizeRequest struct {
	form   oauth.Form
	client *client.Client
	rec    requestRecord
	now    time.Time
	// page is the message of the page that shows the error of a check. Empty: the client gets the error by redirect.
	page string
	// pushed is the pushed request that par.Spend finishes. Empty: the request was not pushed.
	pushed string
}

// authorizeChecks is every check of an authorization request, in this order. The first ones decide where an answer can
// go at all, so their errors are pages (RFC 6749 4.1.2.1: "MUST NOT automatically redirect"); those of the others go to
// the redirect URI.
var authorizeChecks = []func(*Server, context.Context, *authorizeRequest) error{
	(*Server).checkClient,       // RFC 6749 4.1.2.1: only the person learns of an unknown client
	(*Server).readObject,        // RFC 9101 6.3: of a signed request nothing else counts
	(*Server).checkRedirectURI,  // RFC 6749 3.1.2.3, RFC 9700 2.1: the same string as registered
	(*Server).checkState,        // RFC 6749 4.1.1: echoed exactly or not at all
	(*Server).checkPushed,       // RFC 9126 4, 5, 6
	(*Server).checkSigned,       // RFC 9101 10.5
	(*Server).checkRepeats,      // RFC 6749 3.1: no parameter more than once
	(*Server).checkObjects,      // OpenID Connect Core 3.1.2.6: request_not_supported and its kin
	(*Server).checkResponseType, // RFC 6749 3.1.1, 4.1.2.1
	(*Server).checkResponseMode, // OAuth 2.0 Multiple Response Type Encoding Practices 2.1
	(*Server).checkProvider,     // token server document, "Authorization endpoint": idp, external_idp
	(*Server).checkChallenge,    // RFC 7636 4.3, 4.4.1
	(*Server).checkKey,          // RFC 9449 10
	(*Server).checkScope,        // RFC 6749 3.3
	(*Server).checkResources,    // RFC 8707 2
	(*Server).checkDetails,      // RFC 9396 5
	(*Server).checkPrompt,       // OpenID Connect Core 3.1.2.1
	(*Server).checkMaxAge,       // OpenID Connect Core 3.1.2.1
	(*Server).checkNonce,        // OpenID Connect Core 3.1.2.1
	(*Server).checkClaims,       // OpenID Connect Core 5.5
	(*Server).checkHints,        // OpenID Connect Core 3.1.2.1: login_hint, id_token_hint
	(*Server).checkACR,          // OpenID Connect Core 3.1.2.1; RFC 9470 4
	(*Server).checkCustomParams, // token server document, "Authorization endpoint": external_idp_custom_param
	(*Server).checkParams,       // token server document, "Introspection response": parameters in user_details
	(*Server).readPresentation,  // token server document: app_view, language; OpenID Connect Core 3.1.2.1: ui_locales
}

// handleAuthorize serves GET and POST /oauth/authorize (RFC 6749 4.1.1; OpenID Connect Core 3.1.2; token server
// document, "Authorization endpoint").
func (s *Server) handleAuthorize(w http.ResponseWriter, r *http.Request) error {
	f, err := authorizeForm(r)
	if err != nil {
		return err
	}
	r = s.asking(r)
	if r.Method != http.MethodPost && (isResume(f) || isPosted(f)) {
		if r.Method == http.MethodHead {
			return headOnly(w) // nothing happens before someone looks at the page
		}
		if isPosted(f) {
			return s.resumePosted(w, r, f)
		}
		return s.resume(w, r, f)
	}
	a := &authorizeRequest{form: f, now: s.now(), page: "error.client"}
	if reference := f.Get("request_uri"); par.Is(reference) { // RFC 9126 4: what else the address says does not count
		if a.form, a.pushed, err = s.pushed.Find(r.Context(), f.Get("client_id"), reference); err != nil {
			s.failPage(w, r, err, "error.expired", "")
			return nil
		}
	}
	oauth.Learn(r.Context(), a.form.Get("client_id"), a.form.Get("redirect_uri"), a.form.Get("scope"))
	if err := s.checkAuthorize(r.Context(), a); err != nil {
		return s.refuseAuthorize(w, r, a, err)
	}
	switch r.Method {
	case http.MethodPost:
		return s.keepPosted(w, r, &a.rec)
	case http.MethodHead:
		return headOnly(w) // no code is issued for a look at the headers
	}
	return s.proceed(w, r, &pendingRequest{client: a.client, rec: a.rec})
}

// checkAuthorize runs the checks and returns the first error.
func (s *Server) checkAuthorize(ctx context.Context, a *authorizeRequest) error {
	for _, check := range authorizeChecks {
		if err := check(s, ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// beingPushed marks a request that is checked while it is pushed.
const beingPushed = "being pushed"

// checkPush checks a request that a client pushes, and returns its parameters.
func (s *Server) checkPush(ctx context.Context, f oauth.Form) (oauth.Form, error) {
	a := &authorizeRequest{form: f, now: s.now(), pushed: beingPushed}
	err := s.checkAuthorize(ctx, a)
	return a.form, err
}

// headOnly answers a HEAD request that would lead on. (RFC 9110 9.3.2)
func headOnly(w http.ResponseWriter) error {
	jsonresponse.Headers(w.Header(), -1)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusOK)
	return nil
}

// authorizeForm reads the parameters from one place: the query of a GET, the body of a POST.
func authorizeForm(r *http.Request) (oauth.Form, error) {
	if len(r.URL.RawQuery) > oauth.MaxQuery {
		return oauth.Form{}, oauth.InvalidRequest(nil, "the query is too long")
	}
	query, err := oauth.ParseBrowserQuery(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodPost {
		return query, err
	}
	if len(query.Values) > 0 {
		return oauth.Form{}, oauth.InvalidRequest(nil, "parameters of a POST belong in the body")
	}
	r.Body = http.MaxBytesReader(nil, r.Body, oauth.MaxQuery)
	return oauth.ReadForm(r)
}

// refuseAuthorize writes the error of a check as a page or to the client.
func (s *Server) refuseAuthorize(w http.ResponseWriter, r *http.Request, a *authorizeRequest, err error) error {
	if a.page != "" {
		s.failWith(w, r, err, web.Failure{Key: a.page, Details: s.requestDetails(a)})
		return nil
	}
	if e := oauth.AsError(err); e.Status >= http.StatusInternalServerError && !slices.Contains(a.rec.Prompt, "none") {
		s.failPage(w, r, err, "", "") // a person sees the page and can try again
		return nil
	}
	s.redirectError(w, r, a.client, &a.rec, err, http.StatusFound)
	return nil
}

// requestDetails returns the client id or the redirect URIs of a request, next to those that are registered.
func (s *Server) requestDetails(a *authorizeRequest) []web.FailureDetail {
	switch {
	case a.client == nil:
		return s.sentDetails(a.form.All("client_id"), nil)
	case strings.HasPrefix(a.page, "error.redirect_uri"):
		return s.sentDetails(a.form.All("redirect_uri"), a.client.RedirectURIs)
	}
	return nil
}

// sentDetails returns values of a request and of its client, on a server for development. Elsewhere a stranger would
// read the registered ones.
func (s *Server) sentDetails(sent, registered []string) (out []web.FailureDetail) {
	u, err := url.Parse(s.cfg.Issuer)
	if err != nil || !loopback.Is(u.Hostname()) {
		return nil
	}
	if len(sent) > 0 {
		out = append(out, web.FailureDetail{Label: "error.redirect_uri.sent", Values: sent})
	}
	if len(registered) > 0 {
		out = append(out, web.FailureDetail{Label: "error.redirect_uri.registered", Values: registered})
	}
	return out
}

// pendingRequest is an authorization request that has passed its checks.
type pendingRequest struct {
	id     string // of the stored record; empty: not stored, since it has not had to wait
	client *client.Client
	rec    requestRecord
}

// proceed continues a request: sign-in, consent, answer.
func (s *Server) proceed(w http.ResponseWriter, r *http.Request, p *pendingRequest) error {
	early, err := s.prepareEarly(r, p)
	if err != nil {
		return s.refusePending(w, r, p, err)
	}
	result, err := s.requireSignIn(w, r, p, early)
	if errors.Is(err, authn.ErrResponded) {
		return nil
	}
	if err != nil {
		return s.refusePending(w, r, p, err)
	}
	if early != nil && early.stored {
		s.redirectClient(w, r, p.client, &p.rec, url.Values{"code": {early.code}}, http.StatusFound)
		return nil
	}
	ask, account, err := s.mustConsent(r.Context(), p, result)
	if err != nil {
		return s.refusePending(w, r, p, err)
	}
	if ask {
		return s.askConsent(w, r, p, result, account)
	}
	answer, err := s.issueAnswer(r, p, result, false)
	if err != nil {
		return s.refusePending(w, r, p, err)
	}
	s.redirectClient(w, r, p.client, &p.rec, answer, http.StatusFound)
	return nil
}

// requireSignIn returns the sign-in that satisfies the request, and asks for one where necessary. early can be nil.
func (s *Server) requireSignIn(w http.ResponseWriter, r *http.Request, p *pendingRequest, early *earlyCode) (*authn.Result, error) {
	refusal := new(authn.Refusal)
	if p.id == "" {
		// First without a page: a browser that is already signed in needs no stored request.
		d := s.demand(p)
		d.Passive = true
		if early != nil {
			d.Along = early.store
		}
		result, err := s.deps.Auth.Authenticate(w, r, d)
		if err == nil && s.hinted(&p.rec, result) {
			return result, nil
		}
		if err != nil && !errors.As(err, &refusal) {
			return nil, oauth.StorageError(err)
		}
		if p.rec.has("none") && (err == nil || !refusal.Elsewhere) {
			if err == nil {
				err = &authn.Refusal{Code: "login_required", Reason: "another person is signed in"}
			}
			return nil, err
		}
		if err == nil && !p.rec.has("select_account") {
			p.rec.Prompt = append(p.rec.Prompt, "select_account")
		}
		if err := s.storeRequest(w, r, p); err != nil {
			return nil, err
		}
	}
	result, err := s.deps.Auth.Authenticate(w, r, s.demand(p))
	if err == nil && !s.hinted(&p.rec, result) {
		// OpenID Connect Core 3.1.2.1: only the person of id_token_hint gets a positive answer.
		return nil, &authn.Refusal{Code: "login_required", Reason: "another person signed in"}
	}
	return result, oauth.StorageError(err)
}

// has reports whether prompt contains a value.
func (q *requestRecord) has(prompt string) bool { return slices.Contains(q.Prompt, prompt) }

// demand returns what the request demands of a sign-in. Ages count back from the start of the request; otherwise
// max_age=1 could never be met.
func (s *Server) demand(p *pendingRequest) authn.Demand {
	d := authn.Demand{
		Level: p.rec.Level, SecondFactor: p.client.SecondFactor, Assurance: p.rec.Assurance, MaxAge: -1, Passive: p.rec.has("none"),
		Provider: p.rec.IDP, Providers: s.clients.Usable(p.client), Hint: p.rec.LoginHint, Locales: p.rec.Locales,
		View: p.rec.View, CustomParams: p.rec.CustomParams, Params: p.rec.Params, Client: loginClient(p.client, p.rec.RedirectURI),
		SelectAccount: p.rec.has("select_account"), Create: p.rec.has("create"),
	}
	if p.id != "" {
		d.Return = resumePath + "?flow=" + url.QueryEscape(p.id)
		d.Cancel = d.Return + "&cancel=true"
	}
	if limit := p.client.Lifetimes.Session; limit > 0 {
		d.MaxAge = limit
	}
	if p.rec.MaxAge != nil {
		if asked := time.Duration(*p.rec.MaxAge) * time.Second; d.MaxAge < 0 || asked < d.MaxAge {
			d.MaxAge = asked
		}
	}
	forced := d.MaxAge == 0 || p.rec.has("login") || d.Create
	if forced {
		d.SelectAccount = false // a forced sign-in asks for the account; a mere confirmation would skip the password
	}
	if forced || d.SelectAccount {
		// OpenID Connect Core 3.1.2.1: max_age=0 is the same as prompt=login.
		d.NotBefore = p.rec.CreatedAt
	}
	if d.MaxAge == 0 {
		d.MaxAge = -1
	}
	if d.MaxAge > 0 {
		d.MaxAge += max(0, s.now().Sub(p.rec.CreatedAt))
	}
	return d
}

// loginClient returns the view of a client on the sign-in and consent pages.
func loginClient(c *client.Client, redirectURI string) authn.Client {
	name := c.Name
	if name == "" {
		name = c.ID
	}
	switch { // anybody can write another's name into a document
	case c.Document == nil:
	case c.Document.Registered:
		if name, _, _ = strings.Cut(client.RedirectTarget(redirectURI), ":"); name == "http" || name == "https" {
			name = client.RedirectOwner(redirectURI)
		}
	default:
		name = c.Document.Host
	}
	return authn.Client{ID: c.ID, Name: name, Targets: []string{client.RedirectTarget(redirectURI)}}
}

// refusePending writes the error of a checked request.
func (s *Server) refusePending(w http.ResponseWriter, r *http.Request, p *pendingRequest, err error) error {
	if refusal := new(authn.Refusal); errors.As(err, &refusal) {
		err = refusalError(refusal)
	}
	again := ""
	if p.id != "" {
		again = resumePath + "?flow=" + url.QueryEscape(p.id)
	}
	if errors.As(err, new(*denial.GroupError)) && !p.rec.has("none") { // the application could not say what is missing
		s.failPage(w, r, err, "error.denied", "")
		return nil
	}
	if e := oauth.AsError(err); e.Status >= http.StatusInternalServerError && !p.rec.has("none") {
		s.failPage(w, r, err, "", again)
		return nil
	}
	status := http.StatusFound
	if r.Method == http.MethodPost {
		status = http.StatusSeeOther
	}
	s.redirectError(w, r, p.client, &p.rec, err, status)
	return nil
}

// refusalError translates a refusal of the sign-in. (token server document, "Authorization error extension fields")
func refusalError(refusal *authn.Refusal) error {
	e := &oauth.Error{Status: http.StatusBadRequest, Code: refusal.Code, Description: refusal.Reason, Cause: refusal}
	if refusal.SAMLStatus != "" {
		e.Fields = map[string]string{"service_saml_error": refusal.SAMLStatus}
		if refusal.Cause != "" {
			e.Fields["service_error_cause"] = refusal.Cause
		}
	}
	return e
}

// redirectError sends the browser to the client with an error (RFC 6749 4.1.2.1), or leaves that to the person.
func (s *Server) redirectError(w http.ResponseWriter, r *http.Request, c *client.Client, rec *requestRecord, err error, status int) {
	e := oauth.AsError(err)
	params := url.Values{"error": {e.Code}, "error_description": {oauth.Printable(e.Description)}}
	for name, value := range e.Fields {
		params.Set(name, oauth.Printable(value))
	}
	if !hasDecided(err) && !s.trustsRedirect(r, c, rec.RedirectURI) {
		s.failOnward(w, r, c, rec, params, err)
		return
	}
	s.record(r, e)
	s.redirectClient(w, r, c, rec, params, status)
}

// newID returns an identifier that cannot be guessed.
func (s *Server) newID() (string, error) { return secret.ID(s.deps.Random, 32) }
