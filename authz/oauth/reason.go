package oauth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// Causes of refusals that know the reason, for operators.
var (
	ErrNoClient       = denial.New(denial.ClientUnknown, "unknown client")
	ErrClientDisabled = denial.New(denial.ClientDisabled, "the client is disabled")
	ErrRedirectURI    = denial.New(denial.RedirectURI, "the redirect URI is not one of the client's")
	ErrDenied         = denial.New(denial.ConsentDenied, "the person did not allow it")
	ErrGivenUp        = denial.New(denial.ConsentDenied, "the person gave up")
	errRequestObject  = denial.New(denial.RequestObject, "the signed request is not valid")
	ErrForm           = denial.New(denial.FormRefused, "the form is not its own page's")
)

// reasons of the error codes, where the cause does not know better.
var reasons = map[string]denial.Reason{
	"invalid_request":                   denial.Malformed,
	"invalid_grant":                     denial.GrantInvalid,
	"invalid_client":                    denial.ClientAuth,
	"unauthorized_client":               denial.GrantNotAllowed,
	"unsupported_grant_type":            denial.GrantUnsupported,
	"unsupported_response_type":         denial.ResponseUnsupported,
	"invalid_redirect_uri":              denial.ClientMetadata,
	"invalid_client_metadata":           denial.ClientMetadata,
	"invalid_scope":                     denial.ScopeNotAllowed,
	"invalid_target":                    denial.ResourceNotAllowed,
	"invalid_authorization_details":     denial.DetailsRefused,
	"access_denied":                     denial.NotAllowed,
	"not_found":                         denial.NotFound,
	"temporarily_unavailable":           denial.Unavailable,
	"server_error":                      denial.Internal,
	"invalid_token":                     denial.TokenInactive,
	"insufficient_scope":                denial.ScopeMissing,
	"login_required":                    denial.SignInNeeded,
	"interaction_required":              denial.SignInNeeded,
	"account_selection_required":        denial.SignInNeeded,
	"consent_required":                  denial.ConsentNeeded,
	"unmet_authentication_requirements": denial.NoSecondFactor,
}

// Refusal returns what is kept of the error of a request.
func (e *Error) Refusal(r *http.Request) denial.Refusal {
	out := denial.Refusal{
		Where: denial.OAuth, Reason: e.reason(), Detail: e.Description, Status: e.Status, Code: e.Code,
		Site: r.Host, Method: r.Method, Path: r.URL.Path,
	}
	if g := new(denial.GroupError); errors.As(e.Cause, &g) {
		out.Detail, out.WantedGroups, out.Groups = "", g.Wanted, g.Has
	}
	return out
}

// reason says why: what the cause knows, otherwise what the code says.
func (e *Error) reason() denial.Reason {
	fallback := denial.Malformed
	switch {
	case e.Status == http.StatusTooManyRequests:
		fallback = denial.Throttled
	case e.Status == http.StatusMethodNotAllowed:
		fallback = denial.MethodNotAllowed
	case reasons[e.Code] != "":
		fallback = reasons[e.Code]
	}
	return denial.ReasonOf(e.Cause, fallback)
}

// Learn notes what a request is about, in case that it is refused.
func Learn(ctx context.Context, clientID, redirectURI, scope string) {
	denial.Learn(ctx, func(f *denial.Refusal) {
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
