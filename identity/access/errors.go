package access

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// Errors that tell the caller what to do.
var (
	ErrNone    = errors.New("there is no request of this person for this site")
	ErrOpen    = errors.New("the person has asked already")
	ErrTooSoon = errors.New("the person has asked a short time ago, or for too many sites")
	ErrReason  = errors.New("a reason or note has 3 to 300 characters, on one line")
	ErrTerms   = errors.New("a grant lasts up to 365 days, has up to 1000 uses, and needs one of the two")
	ErrState   = errors.New("the request is in another state")
)

// refused is the answer of the API to an error: 404 for an unknown request, 409 for one in another state, 400 for what
// is invalid.
func refused(err error) error {
	switch {
	case errors.Is(err, ErrNone):
		return jsonapi.NotFound().With(err)
	case errors.Is(err, ErrState):
		return (&jsonapi.Error{Status: http.StatusConflict, Message: ErrState.Error()}).With(err)
	case errors.Is(err, ErrTerms):
		return jsonapi.Invalid(jsonapi.Problem{Path: "for", Problem: ErrTerms.Error()})
	case errors.Is(err, ErrReason):
		return jsonapi.Invalid(jsonapi.Problem{Path: "note", Problem: "must be one line of at most 300 characters"})
	}
	return err
}

func badQuery(message string) *jsonapi.Error {
	return &jsonapi.Error{Status: http.StatusBadRequest, Message: message}
}
