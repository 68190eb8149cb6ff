// Package oauth parses OAuth requests and defines their errors: a form is read in one place and in one way, and an
// Error has the codes of RFC 6749.
package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Error is a refusal or failure as an OAuth client reads it. Functions return it as error; authz writes it once, as
// JSON or as a page.
type Error struct {
	Status      int    // HTTP status where the answer is not a redirect
	Code        string // RFC 6749 4.1.2.1, 5.2 and their extensions
	Description string // printable ASCII, nothing internal; of the caller's input at most a name, see Quoted
	Cause       error  // for the log only
	// Challenge is the WWW-Authenticate header. Empty: none.
	Challenge string
	// RetryAfter is the time to wait. Zero: not said, except that a 503 says a few seconds.
	RetryAfter time.Duration
	// Fields are extension parameters of an authorization error: service_saml_error, service_error_cause.
	Fields map[string]string
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Description, e.Cause)
	}
	return e.Code + ": " + e.Description
}

func (e *Error) Unwrap() error { return e.Cause }

// The error codes, one constructor each. cause is for the log and can be nil.

// InvalidRequest is a malformed request. (RFC 6749 4.1.2.1, 5.2)
func InvalidRequest(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Description: description, Cause: cause}
}

// InvalidRequestObject refuses a request that the client has signed. (RFC 9101 7)
func InvalidRequestObject(cause error, why string) error {
	return &Error{
		Status: http.StatusBadRequest, Code: "invalid_request_object", Description: "the signed request is not valid: " + why,
		Cause: errors.Join(errRequestObject, cause),
	}
}

// InvalidGrant is an invalid code, refresh token or password. (RFC 6749 5.2)
func InvalidGrant(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: description, Cause: cause}
}

// InvalidClient is the same whether the client is unknown or disabled, or the secret wrong. (RFC 6749 5.2)
func InvalidClient(cause error) error {
	return InvalidClientFor(cause, "client authentication failed")
}

// InvalidClientFor is InvalidClient for a caller that has proved to be someone else, and can know the reason.
func InvalidClientFor(cause error, description string) error {
	return &Error{
		Status: http.StatusUnauthorized, Code: "invalid_client", Description: description, Cause: cause,
		Challenge: `Basic realm="gatehouse", charset="UTF-8"`,
	}
}

// UnauthorizedClient is a client that is not allowed the grant. (RFC 6749 4.1.2.1, 5.2)
func UnauthorizedClient(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "unauthorized_client", Description: description, Cause: cause}
}

// UnsupportedGrantType is an unknown grant_type. (RFC 6749 5.2)
func UnsupportedGrantType(sent string) error {
	return &Error{
		Status: http.StatusBadRequest, Code: "unsupported_grant_type", Description: "the grant type " + Quoted(sent) + " is not supported",
	}
}

// UnsupportedResponseType is an unknown response_type. (RFC 6749 4.1.2.1)
func UnsupportedResponseType(sent string) error {
	return &Error{
		Status: http.StatusBadRequest, Code: "unsupported_response_type",
		Description: "the response type " + Quoted(sent) + " is not supported",
	}
}

// InvalidScope is a scope that is malformed or not allowed. (RFC 6749 4.1.2.1, 5.2)
func InvalidScope(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_scope", Description: description, Cause: cause}
}

// InvalidDetails refuses authorization details. (RFC 9396 5)
func InvalidDetails(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_authorization_details", Description: Printable(description), Cause: cause}
}

// InvalidTarget refuses a resource or an audience. (RFC 8707 2)
func InvalidTarget(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_target", Description: description, Cause: cause}
}

// InvalidResource refuses a resource by its name. Empty: it is their number.
func InvalidResource(name string) error {
	if name == "" {
		return InvalidTarget(nil, "the resource is unknown or not allowed")
	}
	return InvalidTarget(nil, "the resource "+Quoted(name)+" is unknown or not allowed to the client")
}

// InvalidRedirectURI refuses a redirect URI of a client that registers itself. (RFC 7591 3.2.2)
func InvalidRedirectURI(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_redirect_uri", Description: Printable(description), Cause: cause}
}

// InvalidClientMetadata refuses what such a client says of itself. (RFC 7591 3.2.2)
func InvalidClientMetadata(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_client_metadata", Description: description, Cause: cause}
}

// AccessDenied is a refusal by the person or the server. (RFC 6749 4.1.2.1)
func AccessDenied(cause error) error {
	return &Error{Status: http.StatusForbidden, Code: "access_denied", Description: "the request was denied", Cause: cause}
}

// CodeUseNonce is the code of UseNonce.
const CodeUseNonce = "use_dpop_nonce"

// UseNonce asks for a proof with the nonce that comes with the answer. (RFC 9449 8)
func UseNonce(cause error) error {
	return &Error{
		Status: http.StatusBadRequest, Code: CodeUseNonce, Description: "the DPoP proof needs the nonce of this answer",
		Cause: cause,
	}
}

// InvalidProof refuses a DPoP proof, or a request without one. (RFC 9449 5)
func InvalidProof(cause error, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_dpop_proof", Description: description, Cause: cause}
}

// NotFound is a 404 of an API.
func NotFound() error {
	return &Error{Status: http.StatusNotFound, Code: "not_found", Description: "there is no such thing"}
}

// ServerError is a failure on our side. The client reads nothing of the cause.
func ServerError(cause error) error {
	return &Error{Status: http.StatusInternalServerError, Code: "server_error", Description: "internal error", Cause: cause}
}

// TemporarilyUnavailable is a failure that can pass, of storage or because of too many password checks: 503 with
// Retry-After.
func TemporarilyUnavailable(cause error) error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "try again later", Cause: cause}
}

// TooManyTries refuses to check passwords for a while (RFC 6585 4), as the sign-in page does. RFC 6749 has no code for
// it.
func TooManyTries(cause error, wait time.Duration) error {
	return &Error{
		Status: http.StatusTooManyRequests, Code: "temporarily_unavailable", Description: "too many tries",
		Cause: cause, RetryAfter: wait,
	}
}

// AsError turns any error into an Error: a failure of storage is 503, an unknown error 500.
func AsError(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	if isUnavailable(err) {
		return TemporarilyUnavailable(err).(*Error) //nolint:errorlint,forcetypeassert // just made
	}
	return ServerError(err).(*Error) //nolint:errorlint,forcetypeassert // just made
}

// isUnavailable reports whether err is a failure of storage.
func isUnavailable(err error) bool {
	return errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrCorrupt)
}

// StorageError turns failures of storage into a 503 and leaves verdicts as they are.
func StorageError(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*Error)) || errors.As(err, new(*authn.Refusal)) || errors.Is(err, authn.ErrResponded) {
		return err
	}
	if storage.IsFailure(err) {
		return TemporarilyUnavailable(err)
	}
	return err
}

// maxQuoted is the part of a name that an answer repeats.
const maxQuoted = 200

// Quoted is a name that the caller has sent, for the description of an error.
func Quoted(name string) string {
	name = Printable(name)
	return name[:min(len(name), maxQuoted)]
}

// Printable keeps what RFC 6749 4.1.2.1 allows in error_description.
func Printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return -1
		}
		return c
	}, text)
}
