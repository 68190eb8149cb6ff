package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/storage"
)

// contextual is a request, or anything else with a context.
type contextual interface{ Context() context.Context }

// PersonDetails is everything about a person that an administrator asks for.
type PersonDetails struct {
	person.Person

	HasPassword bool         `json:"has_password"`
	Phone       string       `json:"phone,omitempty"`
	StepUp      stepup.SetUp `json:"step_up"`
	// SignInWaits is until when attempts from browsers that the person has not used have to wait.
	SignInWaits time.Time     `json:"sign_in_waits_until,omitzero"`
	Sessions    []SessionInfo `json:"sessions"`
	Tokens      []authz.Item  `json:"tokens"`
	Consents    []authz.Item  `json:"consents"`
	// AppPasswords are those that work now, without the secrets.
	AppPasswords []authz.Item `json:"app_passwords,omitempty"`
}

// SessionInfo is a live session.
type SessionInfo struct {
	ID       string    `json:"id"`
	Person   string    `json:"person_id"`
	Username string    `json:"username,omitempty"`
	Since    time.Time `json:"since"`
	Seen     time.Time `json:"last_used"`
	Ends     time.Time `json:"ends_at"` // at the latest
	Level    int       `json:"level"`
	Provider string    `json:"provider,omitempty"` // absent: the service itself
	Address  string    `json:"ip_address,omitempty"`
	Agent    string    `json:"user_agent,omitempty"`
}

func (i *Instance) sessionInfo(s session.Session) SessionInfo {
	return SessionInfo{
		ID: s.ID, Person: s.Record.PersonID, Since: s.Record.OpenedAt(), Seen: s.Record.Seen, Ends: i.Identity.Session.Latest(s.Record), Level: s.Record.Level,
		Provider: s.Record.Provider, Address: s.Record.Address, Agent: s.Record.Agent,
	}
}

// adminShowPerson answers what is known of the person that the parameter person names.
func adminShowPerson(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	name, now := r.URL.Query().Get("person"), time.Now().UTC()
	var out PersonDetails
	err := i.Store.View(r.Context(), func(tx storage.Tx) error { // one, so that the parts belong together
		id, rec, err := i.Identity.Person.Find(tx, name)
		if err == nil {
			out, err = i.details(tx, rec.Person(id), now)
		}
		return err
	})
	return out, i.aboutPerson(r, name, err)
}

// details returns what is known of a person.
func (i *Instance) details(tx storage.Tx, p person.Person, now time.Time) (PersonDetails, error) {
	out := PersonDetails{Person: p, Sessions: []SessionInfo{}}
	d, err := i.Identity.Person.Details(tx, p.ID)
	if err != nil {
		return out, err
	}
	out.HasPassword = d.HasPassword
	for _, n := range d.Profile.PhoneNumbers {
		if n.Primary {
			out.Phone = n.Value
		}
	}
	if out.StepUp, err = i.Identity.StepUp.SetUpOf(tx, p.ID); err != nil {
		return out, err
	}
	if out.SignInWaits, err = i.Identity.Proof.Waits(tx, p.ID, now); err != nil {
		return out, err
	}
	list, err := i.sessionsOf(tx, p, now)
	if out.Sessions = append(out.Sessions, list...); err != nil || p.State != person.Active {
		return out, err
	}
	if out.Tokens, err = i.Authz.Held(tx, p.ID, "tokens", now); err == nil {
		out.Consents, err = i.Authz.Held(tx, p.ID, "consents", now)
	}
	if err == nil {
		out.AppPasswords, err = i.Authz.Held(tx, p.ID, "app_passwords", now)
	}
	return out, err
}

// sessionsOf returns the live sessions of a person.
func (i *Instance) sessionsOf(tx storage.Tx, p person.Person, now time.Time) (list []SessionInfo, err error) {
	open, err := i.Identity.Session.OfPerson(tx, p.ID, now)
	for _, s := range open {
		info := i.sessionInfo(s)
		info.Username = Typed(p)
		list = append(list, info)
	}
	return list, err
}

// PersonChange is what `caddy gatehouse person set` changes. Members that are absent stay.
type PersonChange struct {
	Person        string  `json:"person"` // username or id
	Username      *string `json:"username,omitempty"`
	Name          *string `json:"name,omitempty"`
	GivenName     *string `json:"given_name,omitempty"`
	FamilyName    *string `json:"family_name,omitempty"`
	Email         *string `json:"email,omitempty"`
	EmailVerified *bool   `json:"email_verified,omitempty"`
	Locale        *string `json:"locale,omitempty"`
}

func adminChangePerson(i *Instance, r *http.Request, in PersonChange) (any, error) {
	p, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	_, err = i.Identity.Person.UpdatePerson(r.Context(), p.ID, person.Edit{By: caller(r), Verified: true}, func(_ storage.Tx, d *person.Details) error {
		in.apply(d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return i.Identity.Person.Person(r.Context(), p.ID)
}

// apply writes the members that are present to a person. It can run again on the person as they were before.
func (c *PersonChange) apply(d *person.Details) {
	set := func(to, from *string) {
		if from != nil {
			*to = *from
		}
	}
	set(&d.Username, c.Username)
	set(&d.Profile.Name.FirstName, c.GivenName)
	set(&d.Profile.Name.LastName, c.FamilyName)
	set(&d.Profile.Name.DisplayName, c.Name)
	set(&d.Profile.PreferredLocale, c.Locale)
	if c.Email == nil && c.EmailVerified == nil {
		return
	}
	d.Profile.EmailAddresses = slices.Clone(d.Profile.EmailAddresses)
	at := slices.IndexFunc(d.Profile.EmailAddresses, func(e person.EmailAddress) bool { return e.Primary })
	if at < 0 {
		d.Profile.EmailAddresses = append(d.Profile.EmailAddresses, person.EmailAddress{Primary: true})
		at = len(d.Profile.EmailAddresses) - 1
	}
	e := &d.Profile.EmailAddresses[at]
	if c.Email != nil && !strings.EqualFold(*c.Email, e.Value) {
		e.Value, e.Verified = *c.Email, false
	}
	if c.EmailVerified != nil {
		e.Verified = *c.EmailVerified
	}
	if e.Value == "" {
		d.Profile.EmailAddresses = slices.Delete(d.Profile.EmailAddresses, at, at+1)
	}
}

// Unlocked is the answer of a person whose failed sign-ins were forgotten.
type Unlocked struct {
	Counters int `json:"counters"` // how many there were
}

func adminUnlock(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	n, err := i.Identity.Proof.Unlock(r.Context(), in.Person, caller(r))
	return Unlocked{n}, i.aboutPerson(r, in.Person, err)
}

// PersonRequest names a person by username or id.
type PersonRequest struct {
	Person string `json:"person"`
}

func adminSignOut(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	return Outcome{"signed out"}, i.aboutPerson(r, in.Person, i.Identity.Person.EndSessions(r.Context(), in.Person, caller(r)))
}

// SessionsPage is one page of live sessions.
type SessionsPage struct {
	Items []SessionInfo `json:"items"`
	Next  string        `json:"next,omitempty"` // the value of after for the next page
}

// adminListSessions answers the sessions of the parameter person, or a page of all from behind after.
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
	now := time.Now().UTC()
	var out SessionsPage
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		out = SessionsPage{Items: []SessionInfo{}}
		if of.ID != "" {
			list, err := i.sessionsOf(tx, of, now)
			out.Items = append(out.Items, list...)
			return err
		}
		list, next, err := i.Identity.Session.All(tx, q.Get("after"), limit, now)
		if err != nil {
			return err
		}
		out.Next = next
		var ids []string
		for _, s := range list {
			ids = append(ids, s.Record.PersonID)
			out.Items = append(out.Items, i.sessionInfo(s))
		}
		people, err := i.Identity.Person.ManyPersons(tx, ids)
		names := map[string]string{}
		for _, p := range people {
			names[p.ID] = Typed(p)
		}
		for n := range out.Items {
			out.Items[n].Username = names[out.Items[n].Person]
		}
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
	err = i.Authz.EndHeld(r.Context(), p.ID, "app_passwords", in.ID, caller(r))
	if e := new(oauth.Error); errors.As(err, &e) && e.Status == http.StatusNotFound {
		err = &unknownError{what: "app password", name: in.ID, cause: errUnknownItem}
	}
	return Outcome{"revoked"}, err
}

func adminEndSession(i *Instance, r *http.Request, in sessionRequest) (any, error) {
	var rec session.Record
	now := time.Now().UTC()
	err := i.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = i.Identity.Session.Live(tx, in.Session, now)
		return err
	})
	if err == nil {
		err = i.Authz.EndHeld(r.Context(), rec.PersonID, "sessions", in.Session, caller(r))
	}
	if e := new(oauth.Error); errors.Is(err, storage.ErrNotFound) || errors.As(err, &e) && e.Status == http.StatusNotFound {
		err = &unknownError{what: "live session", name: in.Session, cause: errUnknownItem}
	}
	return Outcome{"ended"}, err
}
