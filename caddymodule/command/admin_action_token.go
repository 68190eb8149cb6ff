package command

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
)

// actionTokenRequest is the body that `caddy gatehouse token action` sends.
type actionTokenRequest struct {
	Person string                     `json:"person"` // username or id
	Make   actiontoken.NewActionToken `json:"make"`
}

func adminMakeActionToken(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in actionTokenRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	person, err := i.Identity.Person.Person(r.Context(), in.Person)
	if err != nil {
		return nil, err
	}
	return i.Identity.ActionToken.Make(r.Context(), person.ID, in.Make, caller(r))
}

func adminRevokeActionTokens(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
		ID     string `json:"id"` // empty: all
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	person, err := i.Identity.Person.Person(r.Context(), in.Person)
	if err != nil {
		return nil, err
	}
	return outcome{"revoked"}, i.Identity.ActionToken.Revoke(r.Context(), person.ID, in.ID, caller(r))
}
