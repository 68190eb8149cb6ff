package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// handleIdentityCard serves POST /api/persons/{id}/identity-card. (docs/decisions/events.md#identity-assurance)
func (a *API) handleIdentityCard(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var in assurance.Report
	if err := jsonapi.Decode(w, r, maxToken, &in); err != nil {
		return err
	}
	out, err := a.deps.Identity.Assurance.Report(r.Context(), id, in, a.actor(r, client))
	if errors.Is(err, assurance.ErrFull) {
		return conflict("too many backends have said who the person is").With(err)
	}
	if err != nil {
		return refused(w, err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handleAssurance serves GET /api/persons/{id}/assurance.
func (a *API) handleAssurance(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	out, err := a.deps.Identity.Assurance.Of(r.Context(), id)
	if err != nil {
		return missing(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handleWithdrawAssurance serves DELETE /api/persons/{id}/assurance.
func (a *API) handleWithdrawAssurance(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	if err := a.deps.Identity.Assurance.Withdraw(r.Context(), id, a.actor(r, client)); err != nil {
		return missing(err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}
