package adminapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// contextual is a request, or anything else with a context.
type contextual interface{ Context() context.Context }

// The values that this API shares with the admin console.
type (
	// PersonDetails is everything about a person that an administrator asks for.
	PersonDetails = admin.PersonDetails
	// SessionInfo is a live session.
	SessionInfo = admin.SessionInfo
	// PersonChange is the change that `caddy gatehouse person set` makes. Members that are absent stay.
	PersonChange = admin.PersonChange
)

// adminShowPerson answers what is known of the person that the parameter person names.
func adminShowPerson(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	name, now := r.URL.Query().Get("person"), time.Now().UTC()
	var out PersonDetails
	err := i.Store.View(r.Context(), func(tx storage.Tx) error { // one, so the parts belong together
		id, rec, err := i.Identity.Person.Find(tx, name)
		if err == nil {
			out, err = i.manage().Details(tx, rec.Person(id), now)
		}
		return err
	})
	return out, i.aboutPerson(r, name, err)
}

func adminChangePerson(i *Instance, r *http.Request, in PersonChange) (any, error) {
	p, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	if err := i.manage().ChangePerson(r.Context(), p.ID, in, caller(r), nil); err != nil {
		return nil, err
	}
	return i.Identity.Person.Person(r.Context(), p.ID)
}

// Unlocked is the answer of a person whose failed sign-ins were forgotten.
type Unlocked struct {
	Counters int `json:"counters"` // how many there were
}

func adminUnlock(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	n, err := i.Identity.Proof.Unlock(r.Context(), in.Person, caller(r))
	return Unlocked{n}, i.aboutPerson(r, in.Person, err)
}

// AddressRequest names an IP address, or a network as the console does.
type AddressRequest struct {
	Address string `json:"address"`
}

func adminUnlockAddress(i *Instance, r *http.Request, in AddressRequest) (any, error) {
	n, err := i.Identity.Proof.UnlockAddress(r.Context(), in.Address, caller(r))
	return Unlocked{n}, err
}

// PersonRequest names a person by username or id.
type PersonRequest struct {
	Person string `json:"person"`
}

func adminSignOut(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	return Outcome{"signed out"}, i.aboutPerson(r, in.Person, i.Identity.Person.EndSessions(r.Context(), in.Person, caller(r)))
}

// adminListSessions answers the sessions of the parameter person, or a page of all past after.
func adminListSessions(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := pageSize(q.Get("limit"))
	if err != nil {
		return nil, err
	}
	var of person.Person
	if name := q.Get("person"); name != "" {
		if of, err = i.person(r, name); err != nil {
			return nil, err
		}
	}
	f := admin.SessionFilter{Address: q.Get("address"), Application: q.Get("client"), Site: q.Get("site"), Device: q.Get("device")}
	if of.ID != "" && f != (admin.SessionFilter{}) {
		return nil, badRequestf("person: the other filters are for the sessions of everybody")
	}
	now := time.Now().UTC()
	var out Page[SessionInfo]
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		out = Page[SessionInfo]{Items: []SessionInfo{}}
		if of.ID != "" {
			list, err := i.manage().SessionsOf(tx, of, now)
			out.Items = append(out.Items, list...)
			return err
		}
		list, next, err := i.manage().Sessions(tx, f, q.Get("after"), limit, now)
		out.Items, out.Next = append(out.Items, list...), next
		return err
	})
	return out, err
}

// sessionRequest names a live session.
type sessionRequest struct {
	Session string `json:"session"`
}

// appPasswordRequest names an app password of a person, or without an id all of them.
type appPasswordRequest struct {
	Person string `json:"person"`
	ID     string `json:"id,omitempty"`
}

func adminRevokeAppPasswords(i *Instance, r *http.Request, in appPasswordRequest) (any, error) {
	p, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	err = i.manage().EndHeld(r.Context(), p.ID, "app_passwords", in.ID, caller(r))
	if errors.Is(err, admin.ErrGone) {
		err = &unknownError{what: "app password", name: in.ID, cause: errUnknownItem}
	}
	return Outcome{"revoked"}, err
}

// untrustRequest names a trusted browser of a person, or without an id all of them.
type untrustRequest struct {
	Person string `json:"person"`
	ID     string `json:"id,omitempty"`
}

func adminUntrust(i *Instance, r *http.Request, in untrustRequest) (any, error) {
	p, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	err = i.manage().Untrust(r.Context(), p.ID, in.ID, caller(r))
	if errors.Is(err, admin.ErrGone) {
		err = &unknownError{what: "trusted browser", name: in.ID, cause: errUnknownItem}
	}
	return Outcome{"no longer trusted"}, err
}

func adminEndSession(i *Instance, r *http.Request, in sessionRequest) (any, error) {
	err := i.manage().EndSession(r.Context(), in.Session, caller(r))
	if errors.Is(err, admin.ErrGone) {
		err = &unknownError{what: "live session", name: in.Session, cause: errUnknownItem}
	}
	return Outcome{"ended"}, err
}
