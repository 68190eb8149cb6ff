package settings

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// ErrTypeNotSupported says that no provider can be made of login methods of this type yet.
var ErrTypeNotSupported = errors.New("login methods of this type do not exist yet")

// MethodError says what is wrong with the members of a login method. Paths begin below the method; an empty one is the
// method.
type MethodError []jsonapi.Problem

func (e MethodError) Error() string {
	texts := make([]string, len(e))
	for i, p := range e {
		texts[i] = strings.TrimPrefix(p.Path+": "+p.Problem, ": ")
	}
	return strings.Join(texts, "; ")
}

// below returns the problems of the method at a path.
func (e MethodError) below(at string) []jsonapi.Problem {
	out := make([]jsonapi.Problem, len(e))
	for i, p := range e {
		out[i] = p
		out[i].Path = strings.TrimSuffix(at+"."+p.Path, ".")
	}
	return out
}

// errMoved says that the configuration has been changed since it was read.
var errMoved = errors.New("the configuration has changed meanwhile")

// The refusals of the API. The document shows no body for them; they have the body of the other APIs.
// (docs/decisions/configuration.md#configuration-paths)

// refusal is a 409: the request is valid, and impossible in the present state.
func refusal(path string, reason *coded.Error) error {
	e := invalid(path, reason)
	e.Status = http.StatusConflict
	return e
}

// invalid is a 400: a member is wrong.
func invalid(path string, wrong error) *jsonapi.Error {
	return jsonapi.Invalid(jsonapi.ProblemAt(path, wrong))
}

// withCode returns an error of the API without details, whose message has a code.
func withCode(status int, reason *coded.Error) error {
	return &jsonapi.Error{Status: status, Message: reason.Error(), Words: reason}
}

// switchedOff: version 1 answers 500, version 2 and the certificates 409. (identity service document, "What the service
// does")
func switchedOff(status int) error {
	return withCode(status, coded.New("api_off", "the configuration API is switched off"))
}

// preconditionFailed: RFC 9110 13.1.1.
func preconditionFailed() error {
	return withCode(http.StatusPreconditionFailed, coded.New("changed", "the configuration has changed since it was read"))
}

func tooLarge(unit string) error {
	return withCode(http.StatusRequestEntityTooLarge, coded.Errorf("too_large", "", "%s: is too large to be stored", unit))
}
