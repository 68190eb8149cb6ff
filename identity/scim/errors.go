package scim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Error is a refusal. (RFC 7644 3.12)
type Error struct {
	Status int
	Type   string // scimType; may be empty
	Detail string // for the client: nothing secret, and of its input nothing but names of attributes
	cause  error
	unfit  bool // a value of the request, which can be left out unless it is vital
}

func (e *Error) Error() string {
	s := "scim: " + e.Detail
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// The values of scimType. (RFC 7644 3.12, table 9)
const (
	invalidFilter = "invalidFilter"
	tooMany       = "tooMany"
	uniqueness    = "uniqueness"
	mutability    = "mutability"
	invalidSyntax = "invalidSyntax"
	invalidPath   = "invalidPath"
	noTarget      = "noTarget"
	invalidValue  = "invalidValue"
)

func bad(scimType, detail string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: scimType, Detail: detail}
}

func notFound() *Error { return &Error{Status: http.StatusNotFound, Detail: "no such resource"} }

func preconditionFailed() *Error {
	return &Error{Status: http.StatusPreconditionFailed, Detail: "the resource has changed since"}
}

// asError returns the answer for an error.
func asError(err error) *Error {
	var (
		ours    *Error
		gate    *jsonapi.Error
		invalid *person.ValidationError
		many    *person.TooManyError
	)
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &gate):
		return &Error{Status: gate.Status, Detail: gate.Message, cause: err}
	case errors.As(err, &invalid):
		return &Error{Status: http.StatusBadRequest, Type: invalidValue, Detail: invalid.Field + " " + invalid.Problem}
	case errors.As(err, &many):
		return &Error{
			Status: http.StatusRequestEntityTooLarge,
			Detail: "more than " + strconv.Itoa(many.Most) + " " + many.Field + " change at once; send several requests",
		}
	case errors.Is(err, person.ErrUsernameTaken):
		return &Error{Status: http.StatusConflict, Type: uniqueness, Detail: "the userName is taken"}
	case errors.Is(err, person.ErrGroupTaken):
		return &Error{Status: http.StatusConflict, Type: uniqueness, Detail: "the displayName is taken"}
	case errors.Is(err, person.ErrSpared):
		return &Error{Status: http.StatusForbidden, Detail: person.ErrSpared.Error(), cause: err}
	case errors.Is(err, person.ErrNoPerson), errors.Is(err, person.ErrNoGroup):
		return notFound()
	case errors.Is(err, storage.ErrTooLarge):
		return &Error{Status: http.StatusRequestEntityTooLarge, Detail: "the request changes too much at once", cause: err}
	case errors.Is(err, authn.ErrNoCredentials):
		return &Error{Status: http.StatusUnauthorized, Detail: "authentication is required", cause: err}
	case errors.Is(err, authn.ErrNotAllowed):
		return &Error{Status: http.StatusForbidden, Detail: "these credentials are not for this API", cause: err}
	case errors.Is(err, secret.ErrBusy), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		storage.IsFailure(err) && isStorage(err):
		return &Error{Status: http.StatusServiceUnavailable, Detail: "try again later", cause: err}
	}
	return &Error{Status: http.StatusInternalServerError, Detail: "internal error", cause: err}
}

// isStorage reports whether the store has failed.
func isStorage(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCorrupt) ||
		errors.Is(err, storage.ErrReadOnly)
}

// errorBody is the body of a refusal.
type errorBody struct {
	Schemas []string `json:"schemas"`
	Type    string   `json:"scimType,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Status  string   `json:"status"`        // a text (RFC 7644 3.12)
	Ref     string   `json:"ref,omitempty"` // docs/decisions/operation.md#refusals
}

func (e *Error) body() errorBody {
	return errorBody{[]string{errorMessage}, e.Type, e.Detail, strconv.Itoa(e.Status), ""}
}

// fail writes a refusal and logs it once.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	switch e.Status {
	case http.StatusUnauthorized:
		w.Header().Add("WWW-Authenticate", `Bearer realm="gatehouse", scope="scim"`) // RFC 6750 3
		w.Header().Add("WWW-Authenticate", `Basic realm="gatehouse", charset="UTF-8"`)
	case http.StatusServiceUnavailable:
		ratelimit.RetryAfter(w, ratelimit.Soon)
	}
	body := e.body()
	body.Ref = s.record(r, e)
	denial.Tell(w.Header(), body.Ref)
	write(w, e.Status, body)
}

// record writes the log line, and keeps a refusal of the caller, whose reference it returns.
func (s *Server) record(r *http.Request, e *Error) (ref string) {
	f := denial.Refusal{Where: denial.API, Detail: e.Detail, Status: e.Status, Site: r.Host, Method: r.Method, Path: r.URL.Path}
	switch e.Status {
	case http.StatusUnauthorized:
		f.Reason = denial.ReasonOf(e.cause, denial.NoCredentials)
	case http.StatusForbidden:
		f.Reason = denial.NotAllowed
	case http.StatusServiceUnavailable:
		if f.Reason = denial.Unavailable; e.cause == nil {
			f.Reason = denial.APIDisabled
		}
	case http.StatusInternalServerError:
		f.Reason = denial.Internal
	default:
		s.deps.Log.Info("request refused", zap.String("method", r.Method), zap.Int("status", e.Status), zap.String("scim_type", e.Type),
			zap.NamedError("cause", e.cause))
		return ""
	}
	return s.deps.Refusals.Refuse(r.Context(), s.deps.Log, f, e.cause)
}

// mediaType is the type of answers. (RFC 7644 8.1)
const mediaType = "application/scim+json"

func headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

func write(w http.ResponseWriter, status int, v any) {
	headers(w)
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	if v != nil {
		json.NewEncoder(w).Encode(v) //nolint:errcheck,errchkjson // the caller has gone
	}
}
