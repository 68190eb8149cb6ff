package identity

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/secure/precis"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// State is where a person stands: INVITED, INACTIVE, ACTIVE, BLOCKED, REMOVED.
type State string

// The states. Only an active person can sign in, and nothing of any other person is valid.
const (
	Invited  State = "INVITED"
	Inactive State = "INACTIVE"
	Active   State = "ACTIVE"
	Blocked  State = "BLOCKED"
	Removed  State = "REMOVED"
)

// Person is what is told about a person.
type Person struct {
	ID            string    `json:"id"`
	Username      string    `json:"username"`
	State         State     `json:"state"`
	Name          string    `json:"name,omitempty"`
	GivenName     string    `json:"given_name,omitempty"`
	FamilyName    string    `json:"family_name,omitempty"`
	Email         string    `json:"email,omitempty"`
	EmailVerified bool      `json:"email_verified"`
	Groups        []string  `json:"groups,omitempty"`
	Locale        string    `json:"locale,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// NewPerson is what an administrator says about a person.
type NewPerson struct {
	// Username is unique regardless of case and Unicode form. One that is an e-mail address is the person's verified e-mail, unless
	// Email says otherwise.
	Username string `json:"username"`
	// Password has 8 to 256 characters. Neither it nor PasswordHash: nobody can sign in with a password yet.
	Password secret.String `json:"password,omitzero"`
	// PasswordHash is Argon2id or bcrypt in PHC form.
	PasswordHash  string   `json:"password_hash,omitempty"`
	Name          string   `json:"name,omitempty"`
	GivenName     string   `json:"given_name,omitempty"`
	FamilyName    string   `json:"family_name,omitempty"`
	Email         string   `json:"email,omitempty"`
	EmailVerified *bool    `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	Locale        string   `json:"locale,omitempty"` // BCP 47
}

// Actor is who does something to a person, for the event.
type Actor struct {
	ID, Name string
	Origin   event.Origin
	// Session is the actor's own session, which a change of the own password leaves alive. Empty: none.
	Session string
}

const (
	maxUsername = 256 // characters
	maxFolded   = 900 // bytes: it is a storage key
	maxName     = 256 // characters
	maxGroups   = 256
)

// configuration is the actor of what the Caddyfile says.
var configuration = Actor{ID: "configuration", Name: "configuration"}

// AddPerson creates an active person, or returns ErrUsernameTaken or a *ValidationError.
func (s *Service) AddPerson(ctx context.Context, n NewPerson, by Actor) (Person, error) {
	rec, folded, err := n.record()
	if err != nil {
		return Person{}, err
	}
	phc, err := s.firstPassword(ctx, n)
	if err != nil {
		return Person{}, err
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return Person{}, err
	}
	now := s.Now()
	rec.CreatedAt, rec.UpdatedAt = now, now
	ev, err := s.newEvents(by.Origin, personCreated)
	if err != nil {
		return Person{}, err
	}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := usernames.Create(tx, folded, usernameRecord{PersonID: id.String()}, time.Time{}); err != nil {
			if errors.Is(err, storage.ErrExists) {
				return ErrUsernameTaken
			}
			return err
		}
		if err := persons.Create(tx, id.String(), rec, time.Time{}); err != nil {
			return err
		}
		if phc != "" {
			if err := passwords.Create(tx, id.String(), passwordRecord{PHC: phc, ChangedAt: now}, time.Time{}); err != nil {
				return err
			}
		}
		return s.Events.Append(tx, by.did(ev[0], id.String(), ""))
	})
	if err != nil {
		return Person{}, err
	}
	return rec.person(id.String()), nil
}

// addConfigured creates a person of the configuration who is absent. The password is hashed only then.
func (s *Service) addConfigured(ctx context.Context, n NewPerson) error {
	if _, _, err := n.record(); err != nil {
		return err
	}
	if _, err := s.Person(ctx, n.Username); !errors.Is(err, ErrNoPerson) {
		return err
	}
	_, err := s.AddPerson(ctx, n, configuration)
	if errors.Is(err, ErrUsernameTaken) { // another node was faster
		return nil
	}
	return err
}

// Person returns the person of a username or id, or ErrNoPerson.
func (s *Service) Person(ctx context.Context, usernameOrID string) (p Person, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		id, rec, err := find(tx, usernameOrID)
		p = rec.person(id)
		return err
	})
	return p, err
}

// ListPersons returns at most limit persons (0: 100) in the order of their usernames, those after the username after.
func (s *Service) ListPersons(ctx context.Context, after string, limit int) (list []Person, err error) {
	if limit <= 0 {
		limit = 100
	}
	r := storage.Range{Limit: limit}
	if after != "" {
		folded, err := fold(after)
		if err != nil {
			return nil, err
		}
		r.After = []byte(folded)
	}
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		list = nil
		for e, err := range usernames.Scan(tx, r) {
			if err != nil {
				return err
			}
			rec, err := persons.Get(tx, e.Value.PersonID)
			if err != nil {
				return err
			}
			list = append(list, rec.person(e.Value.PersonID))
		}
		return nil
	})
	return list, err
}

// SetState changes a person's state, ends everything given before and returns ErrNoPerson when there is none. Removed frees the username and
// forgets the profile and the password; nothing leads back from it.
func (s *Service) SetState(ctx context.Context, usernameOrID string, to State, by Actor) error {
	kinds := map[State]event.Type{Active: personActivated, Inactive: personInactive, Blocked: personBlocked, Removed: personRemoved}
	kind, ok := kinds[to]
	if !ok {
		return &ValidationError{"state", "is not one that a person can be set to"}
	}
	return s.change(ctx, usernameOrID, by, kind, func(tx storage.Tx, id string, rec *personRecord) (bool, error) {
		if rec.State == to {
			return false, nil
		}
		rec.State = to
		rec.Epoch++
		if to != Removed {
			return true, nil
		}
		folded, err := fold(rec.Username)
		if err != nil {
			return false, err
		}
		if rec.External != "" {
			if err := identities.Delete(tx, rec.External); err != nil {
				return false, err
			}
		}
		*rec = personRecord{State: Removed, Epoch: rec.Epoch, Username: rec.Username, CreatedAt: rec.CreatedAt}
		if err := usernames.Delete(tx, folded); err != nil {
			return false, err
		}
		return true, passwords.Delete(tx, id)
	})
}

// EndSessions ends every session and grant of a person at once.
func (s *Service) EndSessions(ctx context.Context, usernameOrID string) error {
	return s.change(ctx, usernameOrID, Actor{}, sessionsEnded, func(_ storage.Tx, _ string, rec *personRecord) (bool, error) {
		rec.Epoch++
		return true, nil
	})
}

// change reads a person, lets fn change the record and writes it with its event, in one transaction. fn answers false when there is nothing to write.
func (s *Service) change(ctx context.Context, usernameOrID string, by Actor, kind event.Type, fn func(storage.Tx, string, *personRecord) (bool, error)) error {
	ev, err := s.newEvents(by.Origin, kind)
	if err != nil {
		return err
	}
	now := s.Now()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := find(tx, usernameOrID)
		if err != nil {
			return err
		}
		epoch := rec.Epoch
		changed, err := fn(tx, id, &rec)
		if err != nil || !changed {
			return err
		}
		if rec.Epoch != epoch {
			except := ""
			if kind == passwordChanged { // the one session that may go on
				except = by.Session
			}
			if err := s.watcher.SessionsEnded(tx, id, except); err != nil {
				return err
			}
		}
		rec.UpdatedAt = now
		if err := persons.Put(tx, id, rec, time.Time{}); err != nil {
			return err
		}
		return s.Events.Append(tx, by.did(ev[0], id, ""))
	})
}

// Get returns the state of a person, or storage.ErrNotFound. It is one read.
func (s *Service) Get(tx storage.Tx, subject string) (login.Subject, error) {
	rec, err := persons.Get(tx, subject)
	if err != nil {
		return login.Subject{}, err
	}
	sub := login.Subject{ID: subject, Active: rec.State == Active, Epoch: rec.Epoch, Groups: rec.Groups, Username: rec.Username}
	sub.Profile = make(map[string]string, 8)
	set := func(claim, v string) {
		if v != "" {
			sub.Profile[claim] = v
		}
	}
	set("preferred_username", rec.Username)
	set("name", rec.Name)
	set("given_name", rec.GivenName)
	set("family_name", rec.FamilyName)
	set("email", rec.Email)
	set("locale", rec.Locale)
	set("updated_at", strconv.FormatInt(rec.UpdatedAt.Unix(), 10))
	if rec.Email != "" {
		sub.Profile["email_verified"] = strconv.FormatBool(rec.EmailVerified)
	}
	return sub, nil
}

// find returns the person of a username or id, or ErrNoPerson. A removed person is found by id alone.
func find(tx storage.Tx, usernameOrID string) (string, personRecord, error) {
	id := usernameOrID
	if !isID(id) {
		folded, err := fold(usernameOrID)
		if err != nil {
			return "", personRecord{}, ErrNoPerson
		}
		name, err := usernames.Get(tx, folded)
		if errors.Is(err, storage.ErrNotFound) {
			return "", personRecord{}, ErrNoPerson
		}
		if err != nil {
			return "", personRecord{}, err
		}
		id = name.PersonID
	}
	rec, err := persons.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return "", rec, ErrNoPerson
	}
	return id, rec, err
}

// isID tells a person's id from a username, which cannot have this form.
func isID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// fold returns the form in which usernames are compared (RFC 8265 3.3, UsernameCaseMapped: width, case, NFC), or a *ValidationError.
func fold(username string) (string, error) {
	username = strings.TrimSpace(username)
	if username == "" || !utf8.ValidString(username) || utf8.RuneCountInString(username) > maxUsername {
		return "", &ValidationError{"username", fmt.Sprintf("must have 1 to %d characters", maxUsername)}
	}
	folded, err := precis.UsernameCaseMapped.String(username)
	if err != nil || len(folded) > maxFolded {
		return "", &ValidationError{"username", "has characters that a username cannot have, such as spaces"}
	}
	return folded, nil
}

// record checks what the administrator said.
func (n NewPerson) record() (personRecord, string, error) {
	rec := personRecord{
		State: Active, Username: strings.TrimSpace(n.Username), Name: n.Name, GivenName: n.GivenName, FamilyName: n.FamilyName,
		Email: n.Email, Groups: slices.Clone(n.Groups), Locale: n.Locale,
	}
	folded, err := fold(rec.Username)
	if err != nil {
		return rec, "", err
	}
	if isID(rec.Username) {
		return rec, "", &ValidationError{"username", "must not look like an id"}
	}
	if rec.Email == "" && isEmail(rec.Username) {
		rec.Email = rec.Username
	}
	if rec.Email != "" && !isEmail(rec.Email) {
		return rec, "", &ValidationError{"email", "is not an e-mail address"}
	}
	// A username is an e-mail address because the administrator said so: nobody else has shown that it is another's.
	rec.EmailVerified = rec.Email != "" && strings.EqualFold(rec.Email, rec.Username)
	if n.EmailVerified != nil {
		rec.EmailVerified = *n.EmailVerified && rec.Email != ""
	}
	for field, v := range map[string]string{"name": n.Name, "given_name": n.GivenName, "family_name": n.FamilyName} {
		if !isText(v, maxName) {
			return rec, "", &ValidationError{field, fmt.Sprintf("must have at most %d characters, none of them a control character", maxName)}
		}
	}
	if n.Locale != "" {
		if _, err := xlanguage.Parse(n.Locale); err != nil {
			return rec, "", &ValidationError{"locale", "is not a language tag"}
		}
	}
	if len(n.Groups) > maxGroups {
		return rec, "", &ValidationError{"groups", fmt.Sprintf("are more than %d", maxGroups)}
	}
	for _, g := range n.Groups {
		// Headers carry the groups with commas between them.
		if g == "" || strings.TrimSpace(g) != g || strings.Contains(g, ",") || !isText(g, maxName) {
			return rec, "", &ValidationError{"groups", "must be names without commas, control characters and spaces around them"}
		}
	}
	return rec, folded, nil
}

func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= 254 && isText(s, 254)
}

func isText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' })
}

func (r personRecord) person(id string) Person {
	return Person{
		ID: id, Username: r.Username, State: r.State, Name: r.Name, GivenName: r.GivenName, FamilyName: r.FamilyName, Email: r.Email,
		EmailVerified: r.EmailVerified, Groups: r.Groups, Locale: r.Locale, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// did completes an event that the actor caused.
func (a Actor) did(e event.Event, personID, reason string) event.Event {
	e.PersonID, e.Actor, e.AgentUser, e.SessionID, e.Reason = personID, a.ID, a.Name, a.Session, reason
	return e
}
