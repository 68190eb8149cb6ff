package oauth

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// Causes of refusals that know the reason, for operators.
var (
	ErrNoClient       = refusal.New(refusal.ClientUnknown, "unknown client")
	ErrClientDisabled = refusal.New(refusal.ClientDisabled, "the client is disabled")
	ErrRedirectURI    = refusal.New(refusal.RedirectURI, "the redirect URI is not one of the client's")
	ErrDenied         = refusal.New(refusal.ConsentDenied, "the person did not allow it")
	ErrGivenUp        = refusal.New(refusal.ConsentDenied, "the person gave up")
	errRequestObject  = refusal.New(refusal.RequestObject, "the signed request is not valid")
	ErrForm           = refusal.New(refusal.FormRefused, "the form is not its own page's")
)

// reasons of the error codes, where the cause does not know better.
var reasons = map[string]refusal.Reason{
	"invalid_request":                   refusal.Malformed,
	"invalid_grant":                     refusal.GrantInvalid,
	"invalid_client":                    refusal.ClientAuth,
	"unauthorized_client":               refusal.GrantNotAllowed,
	"unsupported_grant_type":            refusal.GrantUnsupported,
	"unsupported_response_type":         refusal.ResponseUnsupported,
	"invalid_redirect_uri":              refusal.ClientMetadata,
	"invalid_client_metadata":           refusal.ClientMetadata,
	"invalid_scope":                     refusal.ScopeNotAllowed,
	"invalid_target":                    refusal.ResourceNotAllowed,
	"invalid_authorization_details":     refusal.DetailsRefused,
	"access_denied":                     refusal.NotAllowed,
	"not_found":                         refusal.NotFound,
	"temporarily_unavailable":           refusal.Unavailable,
	"server_error":                      refusal.Internal,
	"invalid_token":                     refusal.TokenInactive,
	"insufficient_scope":                refusal.ScopeMissing,
	"login_required":                    refusal.SignInNeeded,
	"interaction_required":              refusal.SignInNeeded,
	"account_selection_required":        refusal.SignInNeeded,
	"consent_required":                  refusal.ConsentNeeded,
	"unmet_authentication_requirements": refusal.NoSecondFactor,
}

// Refusal returns what is kept of the error of a request.
func (e *Error) Refusal(r *http.Request) refusal.Refusal {
	return refusal.Refusal{
		Where: refusal.OAuth, Reason: e.reason(), Detail: e.Description, Status: e.Status, Code: e.Code,
		Site: r.Host, Method: r.Method, Path: r.URL.Path,
	}
}

// reason says why: what the cause knows, otherwise what the code says.
func (e *Error) reason() refusal.Reason {
	fallback := refusal.Malformed
	switch {
	case e.Status == http.StatusTooManyRequests:
		fallback = refusal.Throttled
	case e.Status == http.StatusMethodNotAllowed:
		fallback = refusal.MethodNotAllowed
	case reasons[e.Code] != "":
		fallback = reasons[e.Code]
	}
	return refusal.ReasonOf(e.Cause, fallback)
}

// Learn notes what a request is about, in case that it is refused.
func Learn(ctx context.Context, clientID, redirectURI, scope string) {
	refusal.Learn(ctx, func(f *refusal.Refusal) {
		f.ClientID, f.WantedScopes = clientID, strings.Fields(scope)
		if redirectURI == "" {
			return
		}
		if u, err := url.Parse(redirectURI); err == nil {
			f.RedirectHost = cmp.Or(u.Host, u.Scheme)
			u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", "" // they can hold secrets
			f.RedirectURI = u.String()
		}
	})
}
