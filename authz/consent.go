package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/par"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// consentPath answers the form of the consent page. The flow in its query says which request the form belongs to.
const consentPath = "/oauth/consent"

// errSignedOut says that the sign-in ended while its request was under way.
var errSignedOut = &authn.Refusal{Code: "login_required", Reason: "the sign-in has ended"}

// mustConsent reports whether the person must be asked, and returns the account name for the page. With prompt=none
// that is consent_required.
func (s *Server) mustConsent(ctx context.Context, p *pendingRequest, result *authn.Result) (ask bool, account string, err error) {
	if !p.mayAsk(s) {
		return false, "", nil
	}
	covered := false
	err = s.view(ctx, func(tx storage.Tx) (err error) {
		person, err := s.deps.Subjects.Get(tx, result.Subject)
		if errors.Is(err, storage.ErrNotFound) {
			return errSignedOut
		}
		if err != nil {
			return err
		}
		if refused := s.clients.MayPerson(p.client, &person); refused != nil {
			return oauth.AccessDenied(refused)
		}
		account = person.Username
		covered, err = consent.Allows(tx, result.Subject, p.client.ID, p.wish())
		return err
	})
	if err != nil {
		return false, "", err
	}
	switch {
	case p.rec.has("consent"), s.clients.AsksAlways(p.rec.AuthorizationDetails): // OpenID Connect Core 3.1.2.1
		ask = true
	case p.client.Consent == "always":
		ask = true
	default:
		ask = !covered
	}
	if ask && p.rec.has("none") {
		return false, "", &oauth.Error{Status: http.StatusBadRequest, Code: "consent_required", Description: "the person has to be asked"}
	}
	return ask, account, nil
}

// mayAsk reports whether it depends on the person whether they are asked. That they can sign in is checked with the
// answer.
func (p *pendingRequest) mayAsk(s *Server) bool {
	return p.client.AsksConsent() || p.rec.has("consent") || s.clients.AsksAlways(p.rec.AuthorizationDetails)
}

// askConsent shows the consent page.
func (s *Server) askConsent(w http.ResponseWriter, r *http.Request, p *pendingRequest, result *authn.Result, account string) error {
	browser := s.jar.Get(r, cookie.KindBrowser)
	if p.id == "" {
		if err := s.storeRequest(w, r, p); err != nil {
			return s.refusePending(w, r, p, err)
		}
		if browser == "" {
			// The cookie has just been set: it comes back with the next request, which shows the page.
			web.RedirectStatus(w, resumePath+"?flow="+url.QueryEscape(p.id), http.StatusFound)
			return nil
		}
	}
	agreed := p.agreed()
	scopes := make([]web.ScopeLine, len(agreed))
	for i, name := range agreed {
		scopes[i] = web.ScopeLine{Name: name, Description: s.clients.Scope(name).Description}
	}
	s.deps.Pages.Render(w, r, web.View{
		Template: "consent", Locales: p.rec.Locales, Mobile: p.rec.View == "mobile", Client: loginClient(p.client, p.rec.RedirectURI),
		Data: web.Consent{
			Action: consentPath + "?flow=" + url.QueryEscape(p.id), CSRF: s.deps.Pages.CSRF(browser, consentForm(p.id, result.Subject)),
			RequestID: p.id, Account: account, Another: web.AnotherAccount(resumePath + "?flow=" + url.QueryEscape(p.id)),
			Owner: client.RedirectOwner(p.rec.RedirectURI), Scopes: scopes,
			Sites:        s.clients.Opens(p.client, p.rec.Scope, p.rec.Resources),
			Unregistered: s.unregistered(p), Details: s.clients.DescribeDetails(p.rec.AuthorizationDetails),
		},
	})
	return nil
}

// consentForm binds the form to its request and to the person who was asked.
func consentForm(id, subject string) string { return "consent " + id + " " + subject }

// handleConsent serves POST /oauth/consent, the form of the consent page (RFC 6749 4.1.1: "the authorization server
// authenticates the resource owner and obtains an authorization decision").
func (s *Server) handleConsent(w http.ResponseWriter, r *http.Request) error {
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	r = s.asking(r)
	id := query.Get("flow")
	current, err := s.deps.Auth.Current(r)
	if err != nil {
		return oauth.StorageError(err)
	}
	subject := ""
	if current != nil {
		subject = current.Subject
	}
	if err := s.checkConsentPost(r, id, subject); err != nil {
		s.record(r, &oauth.Error{
			Status: http.StatusForbidden, Code: "access_denied", Description: "the consent form is refused", Cause: errors.Join(oauth.ErrForm, err),
		})
		s.deps.Pages.Refuse(w, r, err, "")
		return nil
	}
	p, err := s.loadRequest(r, id)
	if err != nil {
		s.refuseRequest(w, r, p, err)
		return nil
	}
	if r.PostForm.Get("decision") != "allow" {
		return s.refusePending(w, r, p, oauth.AccessDenied(oauth.ErrDenied))
	}
	d := s.demand(p)
	d.Passive = true
	result, err := s.deps.Auth.Authenticate(w, r, d)
	if refusal := new(authn.Refusal); errors.As(err, &refusal) || (err == nil && result.Subject != subject) {
		// The person signs in again and is then asked again.
		web.Redirect(w, resumePath+"?flow="+url.QueryEscape(p.id))
		return nil
	}
	if err != nil {
		return s.refusePending(w, r, p, oauth.StorageError(err))
	}
	answer, err := s.issueAnswer(r, p, result, true)
	if err != nil {
		return s.refusePending(w, r, p, err)
	}
	s.redirectClient(w, r, p.client, &p.rec, answer, http.StatusSeeOther) // RFC 9700 4.12: never 307
	return nil
}

// checkConsentPost accepts the form that askConsent made, for this browser, request and person, without additional
// fields.
func (s *Server) checkConsentPost(r *http.Request, id, subject string) error {
	if err := s.deps.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), consentForm(id, subject)); err != nil {
		return err
	}
	for name := range r.PostForm {
		if name != "csrf" && name != "request" && name != "decision" {
			return &web.Forbidden{Status: http.StatusForbidden, Reason: "the form has a field that is not its own"}
		}
	}
	decision := r.PostForm.Get("decision")
	if r.PostForm.Get("request") != id || (decision != "allow" && decision != "deny") {
		return &web.Forbidden{Status: http.StatusForbidden, Reason: "the form is of another request"}
	}
	return nil
}

// agreement is a request that the person has agreed to and that is about to be answered.
type agreement struct {
	*pendingRequest

	result  *authn.Result
	consent bool        // the person has just consented
	given   audit.Event // of that
	from    audit.Origin
	now     time.Time
	wish    consent.Wish        // to remember
	claims  token.ClaimsRequest // of a code
}

// issueAnswer makes what a request asked for: a code, or with the implicit grant a token.
func (s *Server) issueAnswer(r *http.Request, p *pendingRequest, result *authn.Result, consent bool) (url.Values, error) {
	a := &agreement{pendingRequest: p, result: result, consent: consent, from: s.deps.Origin(r), now: s.now(), wish: p.wish()}
	var err error
	if a.given, err = s.deps.Events.New(eventConsentGiven, a.from); err != nil {
		return nil, err
	}
	a.given.PersonID, a.given.Actor, a.given.ClientID, a.given.SessionID = result.Subject, result.Subject, p.client.ID, result.SessionID
	switch p.rec.ResponseType {
	case responseToken:
		return s.issueImplicit(r.Context(), a)
	case responseIDToken:
		return s.issueIDToken(r.Context(), a)
	}
	return s.issueCode(r.Context(), a)
}

// settle checks once more that person, session and client are valid, and stores a new consent. It runs in the
// transaction that issues the answer.
func (s *Server) settle(tx storage.Tx, a *agreement) (token.Standing, error) {
	if err := s.clients.Remember(tx, a.client, a.now); err != nil {
		return token.Standing{}, err
	}
	st, err := s.checkSignedIn(tx, a.client.ID, a.result, a.now)
	if err == nil && a.rec.Pushed != "" {
		err = par.Spend(tx, a.client.ID, a.rec.Pushed)
	}
	if err != nil || !a.consent {
		return st, err
	}
	if err := consent.Remember(tx, a.result.Subject, a.client.ID, a.wish, a.now); err != nil {
		return st, err
	}
	e := a.given
	e.AgentUser = st.Subject.Username
	return st, s.deps.Events.Append(tx, e)
}

// issueCode stores a code. (RFC 6749 4.1.2)
func (s *Server) issueCode(ctx context.Context, a *agreement) (url.Values, error) {
	code, err := secret.NewToken(s.deps.Random, secret.Code)
	if err != nil {
		return nil, err
	}
	a.claims = a.pendingRequest.claims()
	err = s.update(ctx, func(tx storage.Tx) error { return s.storeCode(tx, a, code) })
	return url.Values{"code": {code}}, err
}

func (s *Server) storeCode(tx storage.Tx, a *agreement, code string) error {
	st, err := s.settle(tx, a)
	if err != nil {
		return err
	}
	p := a.pendingRequest
	return grant.StoreCode(tx, code, &grant.Code{
		SignIn: token.NewSignIn(a.result), Epochs: st.Epochs, ClientID: p.client.ID, RedirectURI: p.rec.RedirectURI,
		RedirectSent: p.rec.RedirectSent,
		Scope:        p.rec.Scope, Nonce: p.rec.Nonce, Challenge: p.rec.Challenge, Resources: p.rec.Resources, CreatedAt: a.now,
		ExpiresAt: a.now.Add(p.client.Lifetimes.Code), Claims: a.claims, Confirmation: token.Confirmation{JKT: p.rec.Key},
		AuthorizationDetails: p.rec.AuthorizationDetails,
	})
}

// earlyCode is a code that is stored in the transaction of the sign-in, where the person is asked nothing.
type earlyCode struct {
	agreement

	server *Server
	code   string
	stored bool
}

// prepareEarly returns the code for a request that a sign-in without a page can answer, or nil.
func (s *Server) prepareEarly(r *http.Request, p *pendingRequest) (early *earlyCode, err error) {
	if p.id != "" || p.rec.ResponseType == responseToken || p.rec.ResponseType == responseIDToken || p.mayAsk(s) {
		return nil, nil //nolint:nilnil // it is answered after the sign-in
	}
	early = &earlyCode{
		agreement: agreement{pendingRequest: p, from: s.deps.Origin(r), now: s.now(), wish: p.wish(), claims: p.claims()},
		server:    s,
	}
	early.code, err = secret.NewToken(s.deps.Random, secret.Code)
	return early, err
}

// store stores the code for the sign-in of tx, if that is the one that the request demands.
func (c *earlyCode) store(tx storage.Tx, result *authn.Result) (err error) {
	if c.stored = false; !c.server.hinted(&c.rec, result) {
		return nil
	}
	a := c.agreement
	a.result = result
	err = c.server.storeCode(tx, &a, c.code)
	if c.stored = err == nil; errors.As(err, new(*denial.GroupError)) {
		return nil // the sign-in is valid all the same; a page says what is missing
	}
	return err
}

// checkSignedIn checks what a code depends on: the person is active, the session is live and of the person's epoch, the
// client is usable. Otherwise it returns a *authn.Refusal, or access_denied with a *denial.GroupError if the groups of
// the client leave the person out. An empty clientID is not checked.
func (s *Server) checkSignedIn(tx storage.Tx, clientID string, result *authn.Result, now time.Time) (token.Standing, error) {
	st, good, err := s.tokens.CheckStanding(tx, clientID, result.Subject)
	if err == nil && st.Refused != nil {
		err = oauth.AccessDenied(st.Refused)
	}
	if err != nil {
		return st, err
	}
	session, err := s.deps.Subjects.Session(tx, result.SessionID, now)
	if errors.Is(err, storage.ErrNotFound) {
		return st, errSignedOut
	}
	if err != nil {
		return st, err
	}
	if !good || session.Subject != result.Subject || session.Epoch != st.Subject.Epoch {
		return st, errSignedOut
	}
	return st, nil
}
