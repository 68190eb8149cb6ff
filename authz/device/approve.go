package device

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// realm begins each challenge of the endpoint.
const realm = `Bearer realm="gatehouse"`

// HandleApprove serves POST /oauth/device_authorization/approve?user_code=…: an application of the person approves a
// device with an access token of the scope ApproveScope. (docs/decisions/token-endpoint.md#device-grant) It replaces
// the pages, so it stands for the same things: the level of the scopes, a provider of the client, and the same bound on
// entries.
func (s *Service) HandleApprove(w http.ResponseWriter, r *http.Request) error {
	result, person, err := s.approver(r)
	if err != nil {
		return err
	}
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	typed := query.Get(UserCodeParam)
	if typed == "" {
		return oauth.InvalidRequest(nil, "user_code is missing")
	}
	if err := s.deps.Clients.RefreshProviders(r.Context()); err != nil {
		return err
	}
	key, rec, err := s.lookUp(r, typed, result.SessionID)
	if err != nil {
		return err
	}
	c, err := s.deps.Clients.Get(r.Context(), rec.ClientID)
	if errors.Is(err, storage.ErrNotFound) {
		return noDevice()
	}
	if err != nil {
		return err
	}
	if err := s.may(c, &rec, result.Provider); err != nil {
		return err
	}
	if rec.AuthorizationDetails != "" { // the application knows nothing but the code
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "consent_required",
			Description: "the person has to be shown the authorization_details: approve on the page",
		}
	}
	need, err := s.need(r.Context(), c, &rec, result.Subject)
	switch {
	case errors.As(err, new(*authn.Refusal)):
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "access_denied",
			Description: "the person cannot sign in for this client", Cause: err,
		}
	case err != nil:
		return err
	case result.Level < need:
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "insufficient_user_authentication", Description: "the device needs a higher authentication level",
			Challenge: realm + `, error="insufficient_user_authentication", acr_values="` + token.ACR(need) + `"`, // RFC 9470 3
		}
	}
	if len(s.deps.Clients.Assured(rec.Scope, person, s.now())) < len(rec.Scope) {
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "unmet_authentication_requirements",
			Description: "a scope needs a person whose identity is better assured",
		}
	}
	err = s.settle(r.Context(), &approval{key: key, client: c, result: result, allow: true}, s.deps.Origin(r))
	switch {
	case errors.As(err, new(*authn.Refusal)):
		return inactive()
	case errors.Is(err, errUnknown):
		return noDevice()
	case err != nil:
		return err
	}
	jsonresponse.Headers(w.Header(), -1)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// need is the level that a sign-in must have had to approve a request without a page.
func (s *Service) need(ctx context.Context, c *client.Client, rec *requestRecord, subject string) (level int, err error) {
	now := s.now()
	err = s.view(ctx, func(tx storage.Tx) error {
		level, err = s.deps.Needs(tx, c.ID, c.SecondFactor, subject, now)
		return err
	})
	return max(level, s.level(rec)), err
}

func noDevice() error {
	return &oauth.Error{Status: http.StatusNotFound, Code: "not_found", Description: "no device waits with this code", Cause: errWrongCode}
}

func inactive() error {
	return &oauth.Error{
		Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the access token is not valid",
		Challenge: realm + `, error="invalid_token", error_description="the access token is not valid"`,
	}
}

// approver returns the sign-in behind the access token of a request, and its person.
func (s *Service) approver(r *http.Request) (*authn.Result, *authn.Subject, error) {
	text, ok := oauth.Bearer(r)
	if !ok {
		return nil, nil, &oauth.Error{
			Status: http.StatusUnauthorized, Code: "invalid_token",
			Description: "an access token is required", Challenge: realm,
		}
	}
	in, err := s.deps.Tokens.Introspect(r.Context(), text)
	if err != nil {
		return nil, nil, oauth.StorageError(err)
	}
	if in = in.For(token.Confirmation{}); !in.Active || !in.MeantFor(s.issuer) { // nothing is proved here
		return nil, nil, inactive()
	}
	if in.Person == nil || in.SessionID == "" || !slices.Contains(in.Scope, ApproveScope) {
		return nil, nil, &oauth.Error{
			Status: http.StatusForbidden, Code: "insufficient_scope", Description: "the access token lacks the scope " + ApproveScope,
			Challenge: realm + `, error="insufficient_scope", scope="` + ApproveScope + `"`,
		}
	}
	return &authn.Result{
		Subject: in.Person.ID, SessionID: in.SessionID, AuthTime: in.AuthTime, Level: in.Level, AMR: in.AMR, Provider: in.Provider,
		Details: in.Person.Details, Vouched: in.Vouched,
	}, in.Person, nil
}

// lookUp finds the request of a code that was sent, and counts that.
func (s *Service) lookUp(r *http.Request, typed, session string) (key string, rec requestRecord, err error) {
	now, hash, tried := s.now(), hashOf(readUserCode(typed)), s.entry(r, session)
	var wait time.Duration
	known := false
	err = s.update(r.Context(), func(tx storage.Tx) (err error) {
		known = false
		if wait, err = tried.count(tx, now); err != nil || wait > 0 {
			return err
		}
		key, rec, err = undecided(tx, hash, now)
		if errors.Is(err, errUnknown) {
			return nil // counted
		}
		known = err == nil
		return err
	})
	switch {
	case err != nil:
		return "", rec, err
	case wait > 0:
		return "", rec, oauth.TooManyTries(nil, wait)
	case !known:
		return "", rec, noDevice()
	}
	return key, rec, nil
}
