package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/access"
)

// AccessDecision is an operator's decision about a request for access.
type AccessDecision struct {
	Decision string `json:"decision"` // grant, refuse or revoke
	Person   string `json:"person"`   // username or id
	Site     string `json:"site"`     // origin
	For      string `json:"for,omitempty"`
	Uses     int    `json:"uses,omitempty"`
	Note     string `json:"note,omitempty"`
}

// AccessList are the requests for access.
type AccessList struct {
	Items []access.Request `json:"items"`
}

func adminListAccess(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	items, err := i.Access.List(r.Context(), access.Filter{})
	return AccessList{items}, err
}

func adminDecideAccess(i *Instance, r *http.Request, in AccessDecision) (any, error) {
	who, err := i.Identity.Person.Person(r.Context(), in.Person)
	if err != nil {
		return nil, i.aboutPerson(r, in.Person, err)
	}
	terms := access.Terms{Uses: in.Uses}
	if in.For != "" {
		if terms.For, err = time.ParseDuration(in.For); err != nil || terms.For <= 0 {
			return nil, badRequestf("%q is not a duration such as 8h", in.For)
		}
	}
	var out access.Request
	switch in.Decision {
	case "grant":
		out, err = i.Access.Grant(r.Context(), who.ID, in.Site, terms, in.Note, caller(r))
	case "refuse":
		out, err = i.Access.Refuse(r.Context(), who.ID, in.Site, in.Note, caller(r))
	case "revoke":
		out, err = i.Access.Revoke(r.Context(), who.ID, in.Site, in.Note, caller(r))
	default:
		return nil, badRequestf("a decision is grant, refuse or revoke")
	}
	for _, known := range []error{access.ErrNone, access.ErrState, access.ErrTerms, access.ErrReason} {
		if errors.Is(err, known) {
			return nil, badRequestf("%s at %s: %w", in.Person, in.Site, err)
		}
	}
	return out, err
}
