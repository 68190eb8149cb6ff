package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
)

// ActionTokenRequest is the body that `caddy gatehouse token action` sends.
type ActionTokenRequest struct {
	Person string                     `json:"person"` // username or id
	Make   actiontoken.NewActionToken `json:"make"`
}

func adminMakeActionToken(i *Instance, r *http.Request, in ActionTokenRequest) (any, error) {
	person, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	in.Make.Roles = true
	return i.Identity.ActionToken.Make(r.Context(), person.ID, in.Make, caller(r))
}

// actionTokensRequest names action tokens of a person.
type actionTokensRequest struct {
	Person string `json:"person"`
	ID     string `json:"id"` // empty: all
}

func adminRevokeActionTokens(i *Instance, r *http.Request, in actionTokensRequest) (any, error) {
	person, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	return Outcome{"revoked"}, i.Identity.ActionToken.Revoke(r.Context(), person.ID, in.ID, caller(r))
}
