// Package admin carries out what administrators do that needs both identity and authz: reading all that is known of a
// person, listing and ending sessions, importing people, bulk changes. `caddy gatehouse` and the admin console call the
// same functions, so a word means the same in both. Their packages check who is allowed to.
package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Service does what administrators ask for. It has no state of its own.
type Service struct {
	Identity *identity.Service
	Authz    *authz.Server
	Store    storage.Store
	Recorder *audit.Recorder
	// Allow returns a *Refusal unless someone may do a kind of job to a person, as tx sees both. The console sets it.
	Allow func(tx storage.Tx, by Requester, kind, personID string) error
	// GivesRole reports whether a group gives a role. Imports put no one into such a group. The console sets it.
	GivesRole func(group string) bool
	// Outgoing are the messages that are not handed over yet, a value for each channel.
	Outgoing []notify.Outgoing
	// Keyring seals what is uploaded.
	Keyring *secret.Keyring
	// Limits are the counters of this process.
	Limits *limit.Counters
}

// ErrGone says that the item to be ended is unknown, or has ended already.
var ErrGone = errors.New("it is unknown, or has ended already")

// PersonDetails is everything about a person that an administrator asks for.
type PersonDetails struct {
	person.Person

	HasPassword bool   `json:"has_password"`
	Phone       string `json:"phone,omitempty"`
	// Planted lists passwords and addresses that do not let the person in while they have a role in the console.
	Planted []person.Planted `json:"planted,omitempty"`
	StepUp  mfa.SetUp        `json:"step_up"`
	// SignInWaits is the end of the wait for attempts from browsers that the person has not used.
	SignInWaits time.Time `json:"sign_in_waits_until,omitzero"`
	// SignedIn is the last sign-in. Zero: none is known
	SignedIn time.Time     `json:"last_sign_in,omitzero"`
	Linked   []Linked      `json:"linked,omitempty"`
	Sessions []SessionInfo `json:"sessions"`
	// TrustedBrowsers count for a second factor, without a session too.
	TrustedBrowsers []trustedbrowser.Info `json:"trusted_browsers,omitempty"`
	Tokens          []authz.Item          `json:"tokens"`
	Consents        []authz.Item          `json:"consents"`
	// AppPasswords are those that work now, without the secrets.
	AppPasswords []authz.Item `json:"app_passwords,omitempty"`
}

// Linked is an account at an identity provider that signs the person in.
type Linked struct {
	Provider string    `json:"provider"` // its id
	Name     string    `json:"name"`
	Since    time.Time `json:"since,omitzero"`
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
	// DeviceBound says that the session is valid only on the device of its browser.
	DeviceBound bool `json:"device_bound,omitempty"`
}

// Typed returns the username as a person types it: with the partition in front, unless that is the default one.
func Typed(p person.Person) string {
	if p.Partition == "" {
		return p.Username
	}
	return p.Partition + `\` + p.Username
}

func (s *Service) sessionInfo(o session.Session, username string) SessionInfo {
	return SessionInfo{
		ID: o.ID, Person: o.Record.PersonID, Username: username, Since: o.Record.OpenedAt(), Seen: o.Record.Seen,
		Ends:  s.Identity.Session.Latest(o.Record),
		Level: o.Record.Level, Provider: o.Record.Provider, Address: o.Record.Address, Agent: o.Record.Agent,
		DeviceBound: o.Record.IsBound(),
	}
}

// Details returns what is known of a person.
func (s *Service) Details(tx storage.Tx, p person.Person, now time.Time) (PersonDetails, error) {
	out := PersonDetails{Person: p, Sessions: []SessionInfo{}}
	d, err := s.Identity.Person.Details(tx, p.ID)
	if err != nil {
		return out, err
	}
	out.HasPassword = d.HasPassword
	for _, n := range d.Profile.PhoneNumbers {
		if n.Primary {
			out.Phone = n.Value
		}
	}
	if out.Planted, err = person.PlantedFor(tx, p.ID); err != nil {
		return out, err
	}
	if out.StepUp, err = s.Identity.StepUp.SetUpOf(tx, p.ID); err != nil {
		return out, err
	}
	if out.SignInWaits, err = s.Identity.Proof.Waits(tx, p.ID, now); err != nil {
		return out, err
	}
	linked, err := person.CoupledIdentities(tx, p.ID)
	if err != nil {
		return out, err
	}
	for _, l := range linked {
		out.Linked = append(out.Linked, Linked{l.Provider, s.Identity.Federation.ProviderName(l.Provider), l.Record.Since})
	}
	if out.SignedIn, err = personindex.SignedIn(tx, p.ID); err != nil {
		return out, err
	}
	if out.TrustedBrowsers, err = s.Identity.Trusted.Listed(tx, p.ID, now); err != nil {
		return out, err
	}
	list, err := s.SessionsOf(tx, p, now)
	if out.Sessions = append(out.Sessions, list...); err != nil || p.State != person.Active {
		return out, err
	}
	if out.Tokens, err = s.Authz.Held(tx, p.ID, "tokens", now); err == nil {
		out.Consents, err = s.Authz.Held(tx, p.ID, "consents", now)
	}
	if err == nil {
		out.AppPasswords, err = s.Authz.Held(tx, p.ID, "app_passwords", now)
	}
	return out, err
}

// SessionsOf returns the live sessions of a person.
func (s *Service) SessionsOf(tx storage.Tx, p person.Person, now time.Time) (list []SessionInfo, err error) {
	open, err := s.Identity.Session.OfPerson(tx, p.ID, now)
	for _, o := range open {
		list = append(list, s.sessionInfo(o, Typed(p)))
	}
	return list, err
}

// Names returns the usernames of persons by their ids. Unknown and removed persons have none.
func (s *Service) Names(tx storage.Tx, ids []string) (map[string]string, error) {
	people, err := s.Identity.Person.ManyPersons(tx, ids)
	names := make(map[string]string, len(people))
	for _, p := range people {
		names[p.ID] = Typed(p)
	}
	return names, err
}

// EndSession ends a session and everything that depends on it, or returns ErrGone.
func (s *Service) EndSession(ctx context.Context, id string, by audit.Actor) error {
	var rec session.Record
	now := s.Recorder.Now().UTC()
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, err = s.Identity.Session.Unended(tx, id, now)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	return s.EndHeld(ctx, rec.PersonID, "sessions", id, by)
}

// EndHeld ends something that a person holds (tokens, sessions, consents, app_passwords), or all of the kind if item is
// empty. It returns ErrGone for an item that the person does not hold.
func (s *Service) EndHeld(ctx context.Context, personID, kind, item string, by audit.Actor) error {
	err := s.Authz.EndHeld(ctx, personID, kind, item, by)
	if e := new(oauth.Error); errors.As(err, &e) && e.Status == http.StatusNotFound {
		return ErrGone
	}
	return err
}

// Untrust ends the trust in a browser of a person, or in every one if id is empty. It returns ErrGone for a browser
// that the person does not trust, or no longer trusts.
func (s *Service) Untrust(ctx context.Context, personID, id string, by audit.Actor) error {
	ended, err := s.Identity.Trusted.ForgetFor(ctx, personID, id, by)
	if err == nil && ended == 0 && id != "" {
		return ErrGone
	}
	return err
}

// PersonChange is an administrator's change of a person. Members that are absent stay.
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

// ChangePerson changes the person with an id. allow can refuse it in the transaction of the change. nil: it is allowed.
func (s *Service) ChangePerson(ctx context.Context, id string, c PersonChange, by audit.Actor,
	allow func(storage.Tx, *person.Details) error,
) error {
	e := person.Edit{By: by, Verified: true, Complete: true}
	if c.Email != nil {
		e.Confirmed = *c.Email
	}
	_, err := s.Identity.Person.UpdatePerson(ctx, id, e, func(tx storage.Tx, d *person.Details) error {
		if allow != nil {
			if err := allow(tx, d); err != nil {
				return err
			}
		}
		c.apply(d)
		return nil
	})
	return err
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
	if c.Email != nil {
		e.Verified = e.Verified && person.FoldEmail(*c.Email) == person.FoldEmail(e.Value) // another spelling stays verified
		e.Value = *c.Email
	}
	if c.EmailVerified != nil {
		e.Verified = *c.EmailVerified
	}
	if e.Value == "" {
		d.Profile.EmailAddresses = slices.Delete(d.Profile.EmailAddresses, at, at+1)
	}
}
