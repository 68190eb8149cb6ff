package person

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// State is the state of a person: INVITED, INACTIVE, ACTIVE, BLOCKED or REMOVED.
type State string

// The states. Only an active person can sign in. Sessions and tokens of all others are invalid.
const (
	Invited  State = "INVITED"
	Inactive State = "INACTIVE"
	Active   State = "ACTIVE"
	Blocked  State = "BLOCKED"
	Removed  State = "REMOVED"
)

// Person is the view of a person in commands and APIs.
type Person struct {
	ID            string    `json:"id"`
	Username      string    `json:"username"`
	State         State     `json:"state"`
	Partition     string    `json:"partition,omitempty"` // absent: the default one
	Name          string    `json:"name,omitempty"`
	GivenName     string    `json:"given_name,omitempty"`
	FamilyName    string    `json:"family_name,omitempty"`
	Email         string    `json:"email,omitempty"`
	EmailVerified bool      `json:"email_verified"`
	Groups        []string  `json:"groups,omitempty"`
	Locale        string    `json:"locale,omitempty"`
	BlockedUntil  time.Time `json:"blocked_until,omitzero"` // when a block ends by itself
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// NewPerson is an administrator's input for a new person.
type NewPerson struct {
	// Username is unique regardless of case and Unicode form. An e-mail address as username is the person's verified
	// address, unless Email says otherwise.
	Username string `json:"username"`
	// Password is checked by the policy. Without it and PasswordHash the person cannot sign in by password yet.
	Password secret.String `json:"password,omitzero"`
	// PasswordHash was made by another system. secret.CheckImported says which forms are accepted.
	PasswordHash  string   `json:"password_hash,omitempty"`
	Name          string   `json:"name,omitempty"`
	GivenName     string   `json:"given_name,omitempty"`
	FamilyName    string   `json:"family_name,omitempty"`
	Email         string   `json:"email,omitempty"`
	EmailVerified *bool    `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	Locale        string   `json:"locale,omitempty"` // BCP 47
	// Partition is the partition in which the username is unique. Default: the part of the username before a \,
	// otherwise "default".
	Partition string `json:"partition,omitempty"`
	// Inactive persons cannot sign in until they are activated.
	Inactive bool `json:"inactive,omitempty"`
	// Profile is the whole profile. The members above replace parts of it. Default: those members.
	Profile *Profile `json:"profile,omitempty"`
	// Directory are the additional attributes of a directory. Default: nothing.
	Directory *Directory `json:"-"`
	// Foreign says that the data comes from another system: values that cannot be stored are left out. Default: they are
	// refused.
	Foreign bool `json:"-"`
	// LeftOut are the values that the caller has left out already. The event of the new person names them.
	LeftOut []LeftOut `json:"-"`
	// ID is the id of the person, a UUID in lower case. Default: a new one.
	ID string `json:"-"`
	// AlsoWrite writes further records in the same transaction, before the person is stored. An error undoes all of it.
	// Default: nothing.
	AlsoWrite func(tx storage.Tx, rec *Record, id string) error `json:"-"`
}

// Bounds of names.
const (
	MaxUsername = 256 // characters
	maxFolded   = 900 // bytes: it is a storage key
	MaxName     = 256 // characters
	maxGroups   = 256
)

// configuration is the actor of persons of the Caddyfile.
var configuration = audit.Actor{ID: "configuration", Name: "configuration"}

// AddPerson creates a person, or returns ErrUsernameTaken or a *ValidationError.
func (s *Service) AddPerson(ctx context.Context, n NewPerson, by audit.Actor) (Person, error) {
	d, err := s.CreatePerson(ctx, n, by)
	if err != nil {
		return Person{}, err
	}
	return s.Person(ctx, d.ID)
}

// CreatePerson is AddPerson, and returns everything that is stored.
func (s *Service) CreatePerson(ctx context.Context, n NewPerson, by audit.Actor) (Details, error) {
	return s.CreateAs(ctx, n, by, ReasonAPI)
}

// CreateAs is CreatePerson for a person who is created in a given way, which decides about the welcome message.
func (s *Service) CreateAs(ctx context.Context, n NewPerson, by audit.Actor, how Welcome) (Details, error) {
	n, err := s.Place(n)
	if err == nil {
		err = s.CheckChosen(n.Username)
	}
	if err != nil {
		return Details{}, err
	}
	if n.Foreign {
		if n, err = s.Usable(ctx, n); err != nil {
			return Details{}, err
		}
	}
	rec, prof, folded, err := n.Records()
	if err != nil {
		return Details{}, err
	}
	phc, err := s.firstPassword(ctx, n)
	if err != nil {
		return Details{}, err
	}
	id, err := s.idOf(n)
	if err != nil {
		return Details{}, err
	}
	now := s.deps.Now()
	rec.CreatedAt, rec.UpdatedAt = now, now
	ev, err := s.NewEvents(by.Origin, EventCreated)
	if err != nil {
		return Details{}, err
	}
	prof.MarkNew(by)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.CheckConfigured(tx, &prof, nil, now); err != nil {
			return err
		}
		if err := RefuseOthers(tx, by, "", &rec, &prof.Profile, nil, ""); err != nil {
			return err
		}
		if err := s.SpareNew(by, &rec); err != nil {
			return err
		}
		if err := s.MakeAwait(tx, &rec, how); err != nil {
			return err
		}
		if n.AlsoWrite != nil {
			if err := n.AlsoWrite(tx, &rec, id); err != nil {
				return err
			}
		}
		if err := CreatePerson(tx, id, rec, &prof, folded); err != nil {
			return err
		}
		if phc != "" {
			if err := Passwords.Create(tx, id, PasswordRecord{PHC: phc, ChangedAt: now, SetBy: by.Untrusted()}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.welcomeHook(tx, Recipient{ID: id, Record: &rec, Profile: &prof.Profile}, how, now); err != nil {
			return err
		}
		e := by.Fill(ev[0], id, ReasonWith("", n.LeftOut))
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return Details{}, err
	}
	d := rec.details(id, &prof)
	d.HasPassword, d.LeftOut = phc != "", n.LeftOut
	return d, nil
}

// Usable is NewPerson.Usable with the current settings.
func (s *Service) Usable(ctx context.Context, n NewPerson) (NewPerson, error) {
	now := s.deps.Now()
	var out NewPerson
	err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
		u, err := s.deps.Units(tx)
		if err == nil {
			out = n.Usable(u, now)
		}
		return err
	})
	return out, err
}

// idOf returns the id of a new person.
func (s *Service) idOf(n NewPerson) (string, error) {
	if n.ID == "" {
		id, err := uuid.NewRandomFromReader(s.deps.Random)
		return id.String(), err
	}
	if !IsID(n.ID) || n.ID != strings.ToLower(n.ID) {
		return "", &ValidationError{"id", "is not a UUID in lower case"}
	}
	return n.ID, nil
}

// RemovePerson removes the person with an id. allow gets the person, and prevents the removal by an error.
func (s *Service) RemovePerson(ctx context.Context, id string, by audit.Actor, allow func(tx storage.Tx, d *Details) error) error {
	if !IsID(id) {
		return ErrNoPerson
	}
	return s.Change(ctx, id, by, personRemoved, func(tx storage.Tx, id string, rec *Record) (bool, error) {
		d, err := s.Details(tx, id)
		if err != nil {
			return false, err
		}
		if err := allow(tx, &d); err != nil {
			return false, err
		}
		if by.BelowRoles && s.HasRole(rec) { // a new person with this username could get the role
			return false, ErrSpared
		}
		return true, s.remove(tx, id, rec)
	})
}

// remove deletes everything of a person except the record that they existed.
func (s *Service) remove(tx storage.Tx, id string, rec *Record) error {
	if err := s.forget(tx, id, rec); err != nil {
		return err
	}
	*rec = Record{State: Removed, Epoch: rec.Epoch + 1, Username: rec.Username, Partition: rec.Partition, CreatedAt: rec.CreatedAt}
	return nil
}

// SetState changes the state of a person and ends all earlier sessions and grants. Removed frees the username and
// deletes profile and password; it is final. Errors: ErrNoPerson, *ValidationError, *StateError for someone who has to
// accept an invitation to become active.
func (s *Service) SetState(ctx context.Context, usernameOrID string, to State, by audit.Actor) error {
	if to == Removed {
		return s.Change(ctx, usernameOrID, by, personRemoved, func(tx storage.Tx, id string, rec *Record) (bool, error) {
			if rec.State == Removed {
				return false, nil
			}
			return true, s.remove(tx, id, rec)
		})
	}
	if _, ok := stateEvents[to]; !ok {
		return &ValidationError{"state", "is not one that a person can be set to"}
	}
	return s.moveState(ctx, usernameOrID, to, time.Time{}, by)
}

// EndSessions ends every session and grant of a person at once.
func (s *Service) EndSessions(ctx context.Context, usernameOrID string, by audit.Actor) error {
	return s.Change(ctx, usernameOrID, by, SessionsEnded, func(_ storage.Tx, _ string, rec *Record) (bool, error) {
		rec.Epoch++
		return true, nil
	})
}

// Change reads a person, lets fn change the record and writes it with its event, in one transaction. fn returns
// false if there is nothing to write.
func (s *Service) Change(ctx context.Context, usernameOrID string, by audit.Actor, kind audit.Type,
	fn func(storage.Tx, string, *Record) (bool, error),
) error {
	ev, err := s.NewEvents(by.Origin, kind)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		_, err = s.changeIn(tx, id, rec, changeContext{by, kind, ev[0], now}, fn)
		return err
	})
}

// changeContext is the data for a change of a person that is read before its transaction.
type changeContext struct {
	by    audit.Actor
	Kind  audit.Type
	event audit.Event // of the kind
	Now   time.Time
}

// changeIn is Change within tx, for a record that tx has read. It returns the record after the change.
func (s *Service) changeIn(tx storage.Tx, id string, rec Record, c changeContext,
	fn func(storage.Tx, string, *Record) (bool, error),
) (Record, error) {
	epoch, was := rec.Epoch, rec
	prof, err := s.before(tx, id, &rec, c.Kind)
	if err != nil {
		return rec, err
	}
	changed, err := fn(tx, id, &rec)
	if err != nil || !changed {
		return rec, err
	}
	if rec.Epoch != epoch {
		except := ""
		if c.Kind == passwordChanged { // one session continues
			except = c.by.Session
		}
		if err := s.Watcher().SessionsEnded(tx, id, except); err != nil {
			return rec, err
		}
	}
	if err := s.tellDone(tx, id, &was, prof, c.Kind, c.Now); err != nil {
		return rec, err
	}
	rec.UpdatedAt = c.Now
	if err := Records.Put(tx, id, rec, time.Time{}); err != nil {
		return rec, err
	}
	e := c.by.Fill(c.event, id, "")
	e.Partition = rec.PartitionName()
	return rec, s.deps.Events.Append(tx, e)
}

// Get returns the state of a person, or storage.ErrNotFound. It is one read.
func (s *Service) Get(tx storage.Tx, subject string) (authn.Subject, error) {
	rec, err := Records.Get(tx, subject)
	if err != nil {
		return authn.Subject{}, err
	}
	sub := authn.Subject{
		ID: subject, Active: rec.State == Active, Epoch: rec.Epoch, Partition: rec.Partition, Assurance: rec.Assurance,
		Administrator: s.HasRole(&rec),
	}
	sub.Username, sub.Groups = s.cfg.Partitions.outside(rec.Partition, rec.Username, rec.Groups)
	sub.Profile = make(map[string]string, 8)
	set := func(claim, v string) {
		if v != "" {
			sub.Profile[claim] = v
		}
	}
	set("preferred_username", sub.Username)
	if s.cfg.Partitions.On {
		set("partition", rec.PartitionName())
	}
	set("name", rec.Name)
	set("given_name", rec.GivenName)
	set("family_name", rec.FamilyName)
	set("email", rec.Email)
	set("locale", rec.Locale)
	set("updated_at", strconv.FormatInt(rec.UpdatedAt.Unix(), 10))
	if rec.Email != "" {
		sub.Profile["email_verified"] = strconv.FormatBool(rec.EmailVerified)
	}
	maps.Copy(sub.Profile, rec.Claims)
	return sub, nil
}
