package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/uservalues"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// valuesAnswer is the answer of GET /api/storage/{id}.
type valuesAnswer struct {
	Values []uservalues.Value `json:"values" rest:"required"`
}

// handleValues serves GET /api/storage/{id}: all that the API client keeps for a person.
// (docs/decisions/events.md#values-of-applications)
func (a *API) handleValues(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var out valuesAnswer
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		if err := a.exists(tx, id); err != nil {
			return err
		}
		out.Values, err = uservalues.List(tx, id, client)
		return err
	})
	if err != nil {
		return noValue(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// handleClearValues serves DELETE /api/storage/{id}.
func (a *API) handleClearValues(w http.ResponseWriter, r *http.Request, client string) error {
	return a.changeValues(w, r, client, func(tx storage.Tx, id string) error { return uservalues.Clear(tx, id, client) })
}

// handleValue serves GET /api/storage/{id}/{key}.
func (a *API) handleValue(w http.ResponseWriter, r *http.Request, client string) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	var v uservalues.Value
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		if err = a.exists(tx, id); err == nil {
			v, err = uservalues.Get(tx, id, client, r.PathValue("key"))
		}
		return err
	})
	if err != nil {
		return noValue(err)
	}
	jsonapi.Tagged(w, r, v.Tag, v)
	return nil
}

// handlePutValue serves PUT /api/storage/{id}/{key}: the body is the value.
func (a *API) handlePutValue(w http.ResponseWriter, r *http.Request, client string) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, uservalues.MaxValue+1))
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return badQuery(uservalues.ErrValue.Error())
		}
		return badQuery("the body could not be read").With(err)
	}
	v := uservalues.Value{Key: r.PathValue("key"), Value: json.RawMessage(body), UpdatedAt: a.deps.Now().UTC()}
	if err := v.Check(); err != nil {
		return badQuery(err.Error())
	}
	v.Tag = jsonapi.Tag(v, 0)
	fits := fitsTag(r)
	return a.changeValues(w, r, client, func(tx storage.Tx, id string) error { return uservalues.Put(tx, id, client, v, fits) })
}

// handleDeleteValue serves DELETE /api/storage/{id}/{key}.
func (a *API) handleDeleteValue(w http.ResponseWriter, r *http.Request, client string) error {
	fits := fitsTag(r)
	return a.changeValues(w, r, client, func(tx storage.Tx, id string) error {
		return uservalues.Delete(tx, id, client, r.PathValue("key"), fits)
	})
}

// changeValues does something with what an API client keeps for a person who exists.
func (a *API) changeValues(w http.ResponseWriter, r *http.Request, client string, change func(tx storage.Tx, id string) error) error {
	id, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	err = a.deps.Store.Update(r.Context(), func(tx storage.Tx) error {
		if err := a.exists(tx, id); err != nil {
			return err
		}
		return change(tx, id)
	})
	switch {
	case err == nil:
		jsonapi.Empty(w, http.StatusNoContent)
		return nil
	case errors.Is(err, uservalues.ErrFull):
		return conflict(err.Error())
	case errors.Is(err, uservalues.ErrChanged):
		return &jsonapi.Error{Status: http.StatusPreconditionFailed, Message: err.Error()}
	}
	return noValue(err)
}

// exists returns person.ErrNoPerson for a person who does not exist, or not any more.
func (a *API) exists(tx storage.Tx, id string) error {
	_, rec, err := a.deps.Identity.Person.Find(tx, id)
	if err == nil && rec.State == person.Removed {
		err = person.ErrNoPerson
	}
	return err
}

// noValue answers a person or value that does not exist with 404.
func noValue(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return jsonapi.NotFound()
	}
	return missing(err)
}

// fitsTag returns a function that holds a value against If-Match and If-None-Match. (RFC 9110 13.1)
func fitsTag(r *http.Request) func(*uservalues.Value) bool {
	fits := jsonapi.Precondition(r)
	return func(before *uservalues.Value) bool {
		switch {
		case fits == nil:
			return true
		case before == nil:
			return len(r.Header.Values("If-Match")) == 0
		}
		return fits(before.Tag)
	}
}
