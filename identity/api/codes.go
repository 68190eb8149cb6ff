package api

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// codeRequest is the body of POST /api/persons/{id}/codes.
type codeRequest struct {
	// For says what the code is good for, such as step-up.
	For string `json:"for" rest:"required"`
}

// handleMakeCode serves POST /api/persons/{id}/codes: a code for somebody to deliver, shown this once.
func (a *API) handleMakeCode(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.personOf(r)
	if err != nil {
		return err
	}
	var in codeRequest
	if err := rest.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	if len(person) != 36 || uuid.Validate(person) != nil { // never a username
		return rest.NotFound()
	}
	made, err := a.Identity.MakeDeliveredCode(r.Context(), person, in.For, a.actor(r, client))
	invalid, state, soon := new(identity.ValidationError), new(identity.StateError), new(identity.TooSoonError)
	switch {
	case errors.As(err, &invalid):
		return rest.Invalid(rest.Problem{Path: invalid.Field, Problem: invalid.Problem})
	case errors.As(err, &soon):
		w.Header().Set("Retry-After", seconds(soon.Wait)) // RFC 6585 4
		return tooManyRequests().With(err)
	case errors.As(err, &state):
		return noCode("the person is in the wrong state for such a code").With(err)
	case errors.Is(err, identity.ErrCodesOff):
		return noCode("codes for this are switched off").With(err)
	case err != nil:
		return missing(err)
	}
	rest.JSON(w, http.StatusCreated, made)
	return nil
}
