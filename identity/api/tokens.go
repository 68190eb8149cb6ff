package api

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxToken and maxNewToken bound bodies, in bytes.
const (
	maxToken    = 4 << 10
	maxNewToken = 32 << 10
)

// actionTokenRequest is the body of both operations on action tokens. (identity service document, ActionTokenRequest)
type actionTokenRequest struct {
	Token *string `json:"token"`
}

// handleToken serves POST /api/credentials/token (identity service document, "Credentials API").
func (a *API) handleToken(w http.ResponseWriter, r *http.Request, client string) error {
	token, partition, err := a.readToken(w, r, client)
	if err != nil {
		return err
	}
	done, err := a.deps.Identity.ActionToken.Process(r.Context(), token, partition, a.actor(r, client))
	if err != nil {
		return refusedToken(err)
	}
	jsonapi.JSON(w, http.StatusOK, done)
	return nil
}

// handleCheckToken serves POST /api/credentials/tokens/validate (identity service document, "Credentials API";
// deprecated). It does not use up the token.
func (a *API) handleCheckToken(w http.ResponseWriter, r *http.Request, client string) error {
	if _, err := contextParams(r); err != nil {
		return err
	}
	token, partition, err := a.readToken(w, r, client)
	if err != nil {
		return err
	}
	err = a.deps.Identity.ActionToken.Check(r.Context(), token, partition)
	off := new(actiontoken.FeatureOffError)
	switch {
	case errors.Is(err, actiontoken.ErrNoToken):
		return noActionToken(http.StatusUnauthorized)
	case errors.As(err, &off):
		return featureOff(http.StatusBadRequest, off.Feature)
	case err != nil:
		return err
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// readToken reads the request of both operations.
func (a *API) readToken(w http.ResponseWriter, r *http.Request, client string) (token, partition string, err error) {
	if err := a.slow(w, client); err != nil {
		return "", "", err
	}
	if partition, err = a.ownPartition(r, client); err != nil {
		return "", "", err
	}
	var in actionTokenRequest
	if err := parameters(jsonapi.Decode(w, r, maxToken, &in)); err != nil {
		return "", "", err
	}
	if err := present(map[string]*string{"token": in.Token}); err != nil {
		return "", "", err
	}
	return *in.Token, partition, nil
}

// ownPartition returns the partition of a person who is named by id or token. "" is any, since an id or token names its
// partition too.
func (a *API) ownPartition(r *http.Request, client string) (string, error) {
	partition, err := a.deps.Gate.Partition(r, client, false)
	return partition, parameters(err)
}

func (a *API) actor(r *http.Request, client string) audit.Actor {
	return audit.Actor{ID: client, Name: client, Origin: a.deps.Origin(r), BelowRoles: true}
}

// refusedToken returns the answer for a token that was refused.
func refusedToken(err error) error {
	off, state, failed := new(actiontoken.FeatureOffError), new(person.StateError), new(actiontoken.FailedError)
	var e *jsonapi.Error
	switch {
	case errors.Is(err, actiontoken.ErrNoToken):
		return noActionToken(http.StatusBadRequest)
	case errors.As(err, &off):
		return featureOff(http.StatusServiceUnavailable, off.Feature)
	case errors.As(err, &state) && state.State == person.Blocked:
		e = personBlocked(http.StatusBadRequest)
	case errors.As(err, &state):
		e = wrongState()
	case errors.Is(err, person.ErrCoupled):
		e = coupledAlready()
	case errors.Is(err, federation.ErrNoProvider):
		e = noProvider()
	case errors.As(err, &failed):
		e = actionsFailed()
	default:
		return err
	}
	if errors.As(err, &failed) {
		e.Details = failedActions{failed.Actions}
	}
	return e.With(err)
}

// newTokenRequest is the body of POST /api/persons/{id}/tokens.
type newTokenRequest struct {
	Actions []actiontoken.Action `json:"actions" rest:"required"`
	// TTL counts seconds, 1 up to a year. Default: the shortest lifetime that the features unit sets for the actions.
	TTL *int `json:"ttl,omitempty"`
	// RedirectURI is the destination of the person afterwards. It must be whitelisted for action tokens. Default: where
	// any sign-in ends.
	RedirectURI string `json:"redirect_uri,omitempty"`
	// Level is the authentication level of a LOGIN, 1 to 4, up to the max_level of the API client. Default: that of the
	// features unit.
	Level *int `json:"authentication_level,omitempty"`
	// AppToWeb says that the LOGIN carries a sign-in from an app to the web.
	AppToWeb bool `json:"app_to_web,omitempty"`
}

// token returns what is asked for. A number that is there is never a default.
func (n *newTokenRequest) token(ceiling int) (actiontoken.NewActionToken, error) {
	out := actiontoken.NewActionToken{Actions: n.Actions, RedirectURI: n.RedirectURI, AppToWeb: n.AppToWeb, Ceiling: ceiling}
	if n.TTL != nil {
		if out.TTL = *n.TTL; out.TTL == 0 {
			return out, jsonapi.Invalid(jsonapi.Problem{Path: "ttl", Problem: "must be 1 second at least"})
		}
	}
	if n.Level != nil {
		if out.Level = *n.Level; out.Level == 0 {
			return out, jsonapi.Invalid(jsonapi.Problem{Path: "authentication_level", Problem: "must be 1 to 4"})
		}
	}
	return out, nil
}

// handleMakeToken serves POST /api/persons/{id}/tokens.
func (a *API) handleMakeToken(w http.ResponseWriter, r *http.Request, client string) error {
	personID, err := a.personOf(r, client)
	if err != nil {
		return err
	}
	var in newTokenRequest
	if err := jsonapi.Decode(w, r, maxNewToken, &in); err != nil {
		return err
	}
	ceiling := a.ceiling(client)
	want, err := in.token(ceiling)
	if err != nil {
		return err
	}
	made, err := a.deps.Identity.ActionToken.Make(r.Context(), personID, want, a.actor(r, client))
	if invalid := new(person.ValidationError); errors.As(err, &invalid) {
		return jsonapi.Invalid(jsonapi.Problem{Path: invalid.Field, Problem: invalid.Problem})
	}
	if err != nil {
		return missing(err)
	}
	jsonapi.JSON(w, http.StatusCreated, made)
	return nil
}

// handleRevokeTokens serves DELETE /api/persons/{id}/tokens and …/tokens/{token}.
func (a *API) handleRevokeTokens(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.personOf(r, client)
	if err != nil {
		return err
	}
	if err := a.deps.Identity.ActionToken.Revoke(r.Context(), person, fold(r.PathValue("token")), a.actor(r, client)); err != nil {
		return missing(err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// personOf returns the id of the person that the path names, who must be in the partition that the request is about.
func (a *API) personOf(r *http.Request, client string) (string, error) {
	partition, err := a.ownPartition(r, client)
	if err != nil {
		return "", err
	}
	id := fold(r.PathValue("id"))
	if len(id) > maxID {
		return "", jsonapi.NotFound()
	}
	if partition == "" {
		return id, nil
	}
	return id, a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		is, err := person.PartitionOfID(tx, id)
		if err == nil && is != partition {
			err = jsonapi.NotFound()
		}
		return err
	})
}

// maxID bounds the bytes of an id in a path.
const maxID = 64

// sparing serves an operation that would let an API client into the account of the person that the path names: one with
// a role in the admin console is refused, in each transaction of the operation too.
// (docs/decisions/console.md#programs-and-roles)
func (a *API) sparing(serve jsonapi.Handler) jsonapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		id, err := a.personOf(r, client)
		if err != nil {
			return err
		}
		spare := func(tx storage.Tx) error { return missing(a.deps.Identity.Person.Spare(tx, id)) }
		if err := a.deps.Store.View(r.Context(), spare); err != nil {
			return err
		}
		return serve(w, r.WithContext(storage.Guarded(r.Context(), spare)), client)
	}
}

// missing answers an unknown token or person with 404, and a person who is spared with 403.
func missing(err error) error {
	if errors.Is(err, person.ErrSpared) {
		return (&jsonapi.Error{Status: http.StatusForbidden, Message: person.ErrSpared.Error()}).With(err)
	}
	if errors.Is(err, person.ErrNoPerson) || errors.Is(err, actiontoken.ErrNoToken) {
		return jsonapi.NotFound()
	}
	return err
}
