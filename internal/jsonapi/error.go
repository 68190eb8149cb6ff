// Package jsonapi has the shared parts of the identity service's JSON APIs: authentication of API clients, request
// bodies, responses and errors. (identity service document, "Errors", "Authentication")
package jsonapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Error is an ErrorResponse. Functions return it as error; Gate.Fail writes it, once.
type Error struct {
	Status int
	// Code is the error_code. If it is 0 the member is left out.
	Code int
	// Message is the error_message: nothing internal, nothing secret.
	Message string
	// Details are left out when nil.
	Details any
	// Words are the message for pages, of an error without details.
	Words error
	// Reason is why, for operators. Default: what the status says.
	Reason denial.Reason

	cause error // for the log
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.cause }

// With returns a copy of e that carries its cause for the log.
func (e *Error) With(cause error) *Error {
	out := *e
	out.cause = cause
	return &out
}

// Problem is an entry of Details: where in the body something is wrong, and what.
type Problem struct {
	Path    string `json:"path"`
	Problem string `json:"problem"`
	// Code and Fill name the message of pages that says the same. (package coded) Code can be empty.
	Code string `json:"-"`
	Fill []any  `json:"-"`
}

// ProblemAt returns a problem, with its code if it has one.
func ProblemAt(path string, wrong error) Problem {
	p := Problem{Path: path, Problem: wrong.Error()}
	p.Code, p.Fill = coded.Of(wrong)
	return p
}

// Invalid is a 400 that names what is wrong in the body. There is at least one problem; the message names the first.
func Invalid(problems ...Problem) *Error {
	first := problems[0].Problem
	if problems[0].Path != "" {
		first = problems[0].Path + ": " + first
	}
	return &Error{Status: http.StatusBadRequest, Message: first, Details: problems}
}

// NotFound is the same for a thing that does not exist and for one that the caller has no right to see.
func NotFound() *Error { return &Error{Status: http.StatusNotFound, Message: "not found"} }

// errorResponse is the body of an Error. (identity service document, ErrorResponse)
type errorResponse struct {
	Code    int    `json:"error_code,omitempty"`
	Message string `json:"error_message"`
	Details any    `json:"details,omitempty"`
}

// headers sets the headers of every answer.
func headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// JSON writes v. A value that cannot be encoded is a programming error, and panics.
func JSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	headers(w)
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client has gone
}

// Empty writes an answer without a body.
func Empty(w http.ResponseWriter, status int) {
	headers(w)
	w.WriteHeader(status)
}

// Fail writes err as an ErrorResponse and logs it, once: an *Error as it is, an error of storage or of a busy hasher as
// 503, anything else as 500.
func (g *Gate) Fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asError(err)
	denial.Tell(w.Header(), g.record(r, e))
	if e.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		ratelimit.RetryAfter(w, ratelimit.Soon)
	}
	JSON(w, e.Status, errorResponse{e.Code, e.Message, e.Details})
}

// record writes the log line, and keeps a refusal, whose reference it returns. What is wrong with a body or an address
// is no refusal of the caller, and the answer says it.
func (g *Gate) record(r *http.Request, e *Error) (ref string) {
	f := denial.Refusal{
		Where: denial.API, Reason: e.Reason, Detail: e.Message, Status: e.Status, Site: r.Host, Method: r.Method, Path: r.URL.Path,
	}
	if f.Reason == "" {
		f.Reason = reasons[e.Status]
	}
	if e.Status == http.StatusServiceUnavailable && e.cause == nil {
		f.Reason = denial.APIDisabled
	}
	if f.Reason != "" {
		return g.Refusals.Refuse(r.Context(), g.Log, f, e.cause, zap.Int("error_code", e.Code))
	}
	g.Log.Info("request refused", zap.String("path", audit.Clean(r.URL.Path)), zap.Int("status", e.Status), zap.Int("error_code", e.Code),
		zap.String("detail", e.Message), zap.NamedError("cause", e.cause))
	return ""
}

// reasons of the statuses that refuse the caller, and of our own failures.
var reasons = map[int]denial.Reason{
	http.StatusUnauthorized:        denial.NoCredentials,
	http.StatusForbidden:           denial.NotAllowed,
	http.StatusTooManyRequests:     denial.Throttled,
	http.StatusInternalServerError: denial.Internal,
	http.StatusServiceUnavailable:  denial.Unavailable,
}

func asError(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	for _, unknown := range []error{
		storage.ErrFull, storage.ErrUnavailable, storage.ErrCorrupt, context.Canceled,
		context.DeadlineExceeded, secret.ErrBusy,
	} {
		if errors.Is(err, unknown) {
			return (&Error{Status: http.StatusServiceUnavailable, Message: "try again later"}).With(err)
		}
	}
	if errors.Is(err, storage.ErrTooLarge) {
		return (&Error{Status: http.StatusRequestEntityTooLarge, Message: "too large to be stored"}).With(err)
	}
	return (&Error{Status: http.StatusInternalServerError, Message: "internal error"}).With(err)
}
