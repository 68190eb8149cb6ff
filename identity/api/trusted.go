package api

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// trustedAnswer is the answer of GET /api/persons/{id}/trusted-browsers.
type trustedAnswer struct {
	Browsers []trustedbrowser.Info `json:"browsers" rest:"required"`
}

// handleTrusted serves GET /api/persons/{id}/trusted-browsers. (docs/decisions/events.md#session-api)
func (a *API) handleTrusted(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	out, now := trustedAnswer{}, a.deps.Now()
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		list, err := a.deps.Identity.Trusted.Listed(tx, id, now)
		out.Browsers = append([]trustedbrowser.Info{}, list...)
		return err
	})
	if err != nil {
		return missing(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handleUntrust serves DELETE /api/persons/{id}/trusted-browsers, and of one browser below it.
func (a *API) handleUntrust(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	browser := r.PathValue("browser")
	ended, err := a.deps.Identity.Trusted.ForgetFor(r.Context(), id, browser, a.actor(r, client))
	switch {
	case err != nil:
		return missing(err)
	case ended == 0 && browser != "":
		return jsonapi.NotFound()
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}
