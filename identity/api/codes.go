package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// codeRequest is the body of POST /api/persons/{id}/codes.
type codeRequest struct {
	// For is the purpose of the code, such as step-up.
	For string `json:"for" rest:"required"`
}

// handleMakeCode serves POST /api/persons/{id}/codes: it makes a code to be delivered outside Gatehouse, and shows it
// this once.
func (a *API) handleMakeCode(w http.ResponseWriter, r *http.Request, client string) error {
	personID, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in codeRequest
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	made, err := a.deps.Identity.Proof.MakeDeliveredCode(r.Context(), personID, in.For, a.actor(r, client))
	state := new(person.StateError)
	switch {
	case errors.As(err, &state):
		return conflict("the person is in the wrong state for such a code").With(err)
	case errors.Is(err, challenge.ErrCodesOff):
		return conflict("codes for this are switched off").With(err)
	case err != nil:
		return refused(w, err)
	}
	jsonapi.JSON(w, http.StatusCreated, made)
	return nil
}
