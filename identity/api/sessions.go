package api

import (
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sessionsAnswer is the answer of GET /api/persons/{id}/sessions.
type sessionsAnswer struct {
	Sessions []identity.OpenSession `json:"sessions" rest:"required"`
	// Next continues the list as after. Absent: this is its end.
	Next string `json:"next,omitempty"`
}

// handleSessions serves GET /api/persons/{id}/sessions. (docs/decisions/events.md#session-api)
func (a *API) handleSessions(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(r.URL.RawQuery) > maxQuery {
		return badQuery("the query is malformed or too long")
	}
	limit := listed
	if values.Has("limit") {
		var ok bool
		if limit, ok = number(values["limit"], 1, maxRows); !ok {
			return badLimit()
		}
	}
	if len(values["after"]) > 1 || len(values.Get("after")) > maxID {
		return badQuery("after must be the value of next in the previous page")
	}
	list, more, err := a.deps.Identity.OpenSessions(r.Context(), id, values.Get("after"), limit)
	if err != nil {
		return missing(err)
	}
	out := sessionsAnswer{Sessions: list}
	if more {
		out.Next = list[len(list)-1].ID
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handleEndSessions serves DELETE /api/persons/{id}/sessions.
func (a *API) handleEndSessions(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	if err := a.deps.Identity.Person.EndSessions(r.Context(), id, a.actor(r, client)); err != nil {
		return missing(err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// handleSession serves GET /api/sessions/{session}.
func (a *API) handleSession(w http.ResponseWriter, r *http.Request, client string) error {
	found := identity.OpenSession{}
	err := a.onSession(r, client, func(id string) (personID string, err error) {
		found, err = a.deps.Identity.ReadSession(r.Context(), id)
		return found.PersonID, err
	})
	if err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, found)
	return nil
}

// handleEndSession serves DELETE /api/sessions/{session}.
func (a *API) handleEndSession(w http.ResponseWriter, r *http.Request, client string) error {
	err := a.onSession(r, client, func(id string) (string, error) { return a.deps.Identity.HolderOf(r.Context(), id) })
	if err != nil {
		return err
	}
	if err := a.deps.Identity.EndSession(r.Context(), r.PathValue("session"), a.actor(r, client)); err != nil {
		return noValue(err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// onSession calls read with the session that the path names. Its person must be in the partition that the request is
// about.
func (a *API) onSession(r *http.Request, client string, read func(id string) (personID string, err error)) error {
	partition, err := a.ownPartition(r, client)
	if err != nil {
		return err
	}
	id := r.PathValue("session")
	if id == "" || len(id) > maxID {
		return jsonapi.NotFound()
	}
	personID, err := read(id)
	if err != nil || partition == "" {
		return noValue(err)
	}
	return a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		is, err := person.PartitionOfID(tx, personID)
		if err == nil && is != partition {
			err = jsonapi.NotFound()
		}
		return err
	})
}
