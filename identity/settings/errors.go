package settings

import (
	"errors"
	"net/http"
	"strings"

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
		out[i] = jsonapi.Problem{Path: strings.TrimSuffix(at+"."+p.Path, "."), Problem: p.Problem}
	}
	return out
}

// errMoved says that the configuration has been changed since it was read.
var errMoved = errors.New("the configuration has changed meanwhile")

// The refusals of the API. The document shows no body for them; they have the body of the other APIs.
// (docs/decisions/configuration.md#configuration-paths)

// refusal is a 409: the request is valid, and impossible in the present state.
func refusal(path, reason string) error {
	message := reason
	if path != "" {
		message = path + ": " + reason
	}
	return &jsonapi.Error{Status: http.StatusConflict, Message: message, Details: []jsonapi.Problem{{Path: path, Problem: reason}}}
}

// switchedOff: version 1 answers 500, version 2 and the certificates 409. (identity service document, "What the service
// does")
func switchedOff(status int) error {
	return &jsonapi.Error{Status: status, Message: "the configuration API is switched off"}
}

// preconditionFailed: RFC 9110 13.1.1.
func preconditionFailed() error {
	return &jsonapi.Error{Status: http.StatusPreconditionFailed, Message: "the configuration has changed since it was read"}
}

func tooLarge(unit string) error {
	return &jsonapi.Error{Status: http.StatusRequestEntityTooLarge, Message: unit + ": is too large to be stored"}
}
