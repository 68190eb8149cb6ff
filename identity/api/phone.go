package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/qrlogin"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// scannedRequest is the body of POST /api/persons/{id}/mobile-login.
type scannedRequest struct {
	Token string `json:"token" rest:"required"`
}

// phoneAnswer is the body of POST /api/persons/{id}/mobile-login/answer.
type phoneAnswer struct {
	Token string `json:"token" rest:"required"`
	// Approve false denies.
	Approve bool `json:"approve" rest:"required"`
	// Number is the one that the person has typed: it stands next to the code.
	Number string `json:"number,omitempty"`
	// StepUpType is the type of proof that the person has given the app: that of the settings, if they demand one.
	StepUpType string `json:"step_up_type,omitempty"`
}

// handleScanned serves POST /api/persons/{id}/mobile-login: what an app shows before the person approves a code that it
// has scanned.
func (a *API) handleScanned(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in scannedRequest
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	out, err := a.deps.Identity.QRLogin.Look(r.Context(), in.Token, person, a.ceiling(client))
	if err != nil {
		return refusedPhone(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handlePhoneAnswer serves POST /api/persons/{id}/mobile-login/answer: the person approves or denies in the app.
func (a *API) handlePhoneAnswer(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in phoneAnswer
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	answer := qrlogin.AppAnswer{Number: in.Number, Deny: !in.Approve, Factor: in.StepUpType}
	if err := a.deps.Identity.QRLogin.AnswerFor(r.Context(), in.Token, person, answer, a.ceiling(client), a.actor(r, client)); err != nil {
		return refusedPhone(err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// ceiling is the highest level of a sign-in that an API client makes. 0: any
func (a *API) ceiling(client string) int {
	if a.deps.MaxLevel == nil {
		return 0
	}
	return a.deps.MaxLevel(client)
}

// refusedPhone returns the answer for a code that was not approved.
func refusedPhone(err error) error {
	switch {
	case errors.Is(err, qrlogin.ErrNoCode):
		return jsonapi.Invalid(jsonapi.Problem{Path: "token", Problem: "belongs to no code, or not any more"})
	case errors.Is(err, qrlogin.ErrNumber):
		return jsonapi.Invalid(jsonapi.Problem{Path: "number", Problem: "is not the one next to the code"})
	case errors.Is(err, qrlogin.ErrFactor):
		return jsonapi.Invalid(jsonapi.Problem{Path: "step_up_type", Problem: "must be what the settings demand: let the person show it first"})
	case errors.Is(err, qrlogin.ErrOff):
		return conflict("signing in by a phone is switched off, or not possible by an app").With(err)
	case errors.Is(err, qrlogin.ErrOver):
		return conflict("the code is no longer waiting").With(err)
	case errors.Is(err, qrlogin.ErrPerson):
		return conflict("the person is in the wrong state for a sign-in").With(err)
	}
	return missing(err)
}
