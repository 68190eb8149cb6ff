package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// numberRequest is the body of POST /api/persons/{id}/phone-numbers/code.
type numberRequest struct {
	Number string `json:"number" rest:"required"`
}

// numberSent is the answer to it.
type numberSent struct {
	ExpiresAt time.Time `json:"expires_at" rest:"required"`
}

// verifyRequest is the body of POST /api/persons/{id}/phone-numbers/verify.
type verifyRequest struct {
	Number string `json:"number" rest:"required"`
	Code   string `json:"code" rest:"required"`
}

// handleSendNumberCode serves POST /api/persons/{id}/phone-numbers/code: it sends a code to a number of the person, and
// the backend asks the person for it.
func (a *API) handleSendNumberCode(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in numberRequest
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	until, err := a.deps.Identity.Proof.SendNumberCode(r.Context(), person, in.Number, a.actor(r, client))
	if err != nil {
		return refusedNumber(w, err)
	}
	jsonapi.JSON(w, http.StatusAccepted, numberSent{until})
	return nil
}

// handleVerifyNumber serves POST /api/persons/{id}/phone-numbers/verify.
func (a *API) handleVerifyNumber(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in verifyRequest
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	if err := a.deps.Identity.Proof.VerifyNumber(r.Context(), person, in.Number, in.Code, a.actor(r, client)); err != nil {
		return refusedNumber(w, err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// refusedNumber returns the answer for a number that was not checked.
func refusedNumber(w http.ResponseWriter, err error) error {
	state := new(person.StateError)
	switch {
	case errors.Is(err, challenge.ErrWrongCode):
		return jsonapi.Invalid(jsonapi.Problem{Path: "code", Problem: "is wrong, or not good any more"})
	case errors.As(err, &state):
		return conflict("the person is blocked").With(err)
	case errors.Is(err, challenge.ErrTextsOff):
		return conflict("the validation of numbers is switched off").With(err)
	}
	return refused(w, err)
}
