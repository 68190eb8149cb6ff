package api

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// handleInvite serves POST /api/persons/invitations: it invites a person by a link that is sent to their address.
func (a *API) handleInvite(w http.ResponseWriter, r *http.Request, client string) error {
	partition, err := a.ownPartition(r, client)
	if err != nil {
		return err
	}
	var in invitation.NewInvitation
	if err := jsonapi.Decode(w, r, maxNewToken, &in); err != nil {
		return err
	}
	if in.Partition == "" {
		in.Partition = partition
	} else if partition != "" && partition != in.Partition {
		return jsonapi.Invalid(jsonapi.Problem{Path: "partition", Problem: "is not the one that the request is about"})
	}
	made, err := a.deps.Identity.Invitation.Invite(r.Context(), in, a.actor(r, client))
	if err != nil {
		return refusedInvitation(w, err)
	}
	jsonapi.JSON(w, http.StatusCreated, made)
	return nil
}

// handleInviteAgain serves POST /api/persons/{id}/invitation: it sends a new link, which replaces the last one.
func (a *API) handleInviteAgain(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	made, err := a.deps.Identity.Invitation.InviteAgain(r.Context(), person, a.actor(r, client))
	if err != nil {
		return refusedInvitation(w, err)
	}
	jsonapi.JSON(w, http.StatusCreated, made)
	return nil
}

// handleWithdrawInvitation serves DELETE /api/persons/{id}/invitation: it removes a person who has not accepted yet.
func (a *API) handleWithdrawInvitation(w http.ResponseWriter, r *http.Request, client string) error {
	person, err := a.idOf(r, client)
	if err != nil {
		return err
	}
	if err := a.deps.Identity.Invitation.WithdrawInvitation(r.Context(), person, a.actor(r, client)); err != nil {
		return refusedInvitation(w, err)
	}
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// refusedInvitation returns the answer for a refused invitation.
func refusedInvitation(w http.ResponseWriter, err error) error {
	state := new(person.StateError)
	switch {
	case errors.As(err, &state):
		return conflict("the person is not invited, or not any more").With(err)
	case errors.Is(err, person.ErrUsernameTaken):
		return conflict("the username is taken").With(err)
	case errors.Is(err, invitation.ErrInvitationsOff):
		return conflict("invitations are switched off").With(err)
	}
	return refused(w, err)
}

// idOf is personOf for operations of identity that accept usernames too: the path must name an id.
func (a *API) idOf(r *http.Request, client string) (string, error) {
	person, err := a.personOf(r, client)
	if err == nil && (len(person) != 36 || uuid.Validate(person) != nil) {
		err = jsonapi.NotFound()
	}
	return person, err
}
