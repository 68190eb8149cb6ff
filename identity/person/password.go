package person

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/weakpassword"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MaxPassword bounds a password, in characters. The policy is configured.
const MaxPassword = 256

// SetPassword changes the password of a person (username or id). All sessions and tokens end, except the session that
// by names. Errors: ErrNoPerson, *ValidationError, secret.ErrBusy.
func (s *Service) SetPassword(ctx context.Context, usernameOrID string, password secret.String, by audit.Actor) error {
	names, err := s.namesOf(ctx, usernameOrID)
	if err != nil {
		return err
	}
	n, err := s.PreparePassword(ctx, password.Reveal(), by, names...)
	if err != nil {
		return err
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, _, err := s.Find(tx, usernameOrID)
		if err == nil {
			_, err = s.ReplacePassword(tx, id, n)
		}
		return err
	})
}

// HashedPassword is the hash of a password that the policy allows, with what its transaction needs.
type HashedPassword struct {
	changeContext

	phc string
}

// PreparePassword is called before the transaction that calls ReplacePassword. names are those of the person, which the
// password must not repeat: see NamesOf. Errors: *ValidationError, secret.ErrBusy.
func (s *Service) PreparePassword(ctx context.Context, password string, by audit.Actor, names ...string) (*HashedPassword, error) {
	phc, err := s.HashNew(ctx, password, names...)
	if err != nil {
		return nil, err
	}
	ev, err := s.NewEvents(by.Origin, passwordChanged)
	if err != nil {
		return nil, err
	}
	return &HashedPassword{changeContext{by, passwordChanged, ev[0], s.deps.Now()}, phc}, nil
}

// ReplacePassword sets a new password within tx, with event and notice. All sessions, refresh tokens, links and action
// tokens of the person end, except the session of the audit.Actor. Error: ErrNoPerson.
func (s *Service) ReplacePassword(tx storage.Tx, id string, n *HashedPassword) (Record, error) {
	rec, err := Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == Removed {
		return rec, ErrNoPerson
	}
	if err != nil {
		return rec, err
	}
	return s.changeIn(tx, id, rec, n.changeContext, func(tx storage.Tx, id string, rec *Record) (bool, error) {
		rec.Epoch++
		for _, h := range s.passwordHooks {
			if err := h(tx, id, n.by.Session, rec.Epoch-1, rec.Epoch); err != nil {
				return false, err
			}
		}
		return true, Passwords.Put(tx, id, PasswordRecord{PHC: n.phc, ChangedAt: n.Now, SetBy: n.by.Untrusted()}, time.Time{})
	})
}

// firstPassword returns the hash of a given password, or "".
func (s *Service) firstPassword(ctx context.Context, n NewPerson, more ...string) (string, error) {
	switch {
	case n.PasswordHash != "" && !n.Password.IsZero():
		return "", &ValidationError{"password", "and password_hash cannot both be given"}
	case n.PasswordHash != "":
		if err := CheckHash(n.PasswordHash); err != nil {
			return "", err
		}
		s.decoys.learn(n.PasswordHash)
		return n.PasswordHash, nil
	case !n.Password.IsZero():
		return s.HashNew(ctx, n.Password.Reveal(), append(more, n.Names()...)...)
	}
	return "", nil
}

// NamesOf returns the names of a person that a password must not repeat: the username, the name, the addresses and the
// telephone numbers.
func NamesOf(rec *Record, p *Profile) []string {
	return append(namesIn(p), rec.Username, rec.Email)
}

// Names returns the names of a new person that the password must not repeat.
func (n *NewPerson) Names() []string {
	names := []string{n.Username, n.Email, n.Name, n.GivenName, n.FamilyName, n.GivenName + " " + n.FamilyName}
	if n.Profile != nil {
		names = append(names, namesIn(n.Profile)...)
	}
	return names
}

func namesIn(p *Profile) []string {
	out := []string{p.Name.DisplayName, p.Name.FirstName, p.Name.LastName, p.Name.FirstName + " " + p.Name.LastName}
	for _, e := range p.EmailAddresses {
		out = append(out, e.Value)
	}
	for _, n := range p.PhoneNumbers {
		out = append(out, n.Value, strings.TrimPrefix(n.Value, "+"))
	}
	return out
}

// namesOf is NamesOf for a username or id. An unknown one has none.
func (s *Service) namesOf(ctx context.Context, usernameOrID string) (names []string, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		id, rec, err := s.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		prof, err := ReadProfile(tx, id, &rec)
		names = NamesOf(&rec, &prof.Profile)
		return err
	})
	if errors.Is(err, ErrNoPerson) {
		err = nil // which the caller finds out
	}
	return names, err
}

// HashNew hashes a password that the policy allows for a person of these names.
func (s *Service) HashNew(ctx context.Context, password string, names ...string) (string, error) {
	normal, ok := normalPassword(password)
	if err := s.checkPolicy(ctx, normal, ok, names); err != nil {
		return "", err
	}
	return s.made.Hash(ctx, normal)
}

// HashKnown hashes a password that the person has already, whatever the policy demands of new ones.
func (s *Service) HashKnown(ctx context.Context, password string) (string, error) {
	normal, ok := normalPassword(password)
	if !ok {
		return "", ErrMismatch
	}
	return s.made.Hash(ctx, normal)
}

// CanBePassword reports whether a password can have this form.
func CanBePassword(password string) bool {
	_, ok := normalPassword(password)
	return ok
}

// normalPassword returns the form of a password that is hashed: NFC, so it does not matter how a keyboard composes é
// (RFC 8265 4.2). ok is false if no password can have the form: it is empty, too long, not UTF-8, or has a NUL.
func normalPassword(password string) (normal string, ok bool) {
	if len(password) > 4*MaxPassword*3 || !utf8.ValidString(password) || strings.Contains(password, "\x00") {
		return "", false
	}
	normal = norm.NFC.String(password)
	n := utf8.RuneCountInString(normal)
	return normal, n >= 1 && n <= MaxPassword
}

// checkPolicy checks a new password, in the form that is hashed. ok is false if there is no such form.
func (s *Service) checkPolicy(ctx context.Context, normal string, ok bool, names []string) error {
	u, err := s.Settings(ctx)
	if err != nil {
		return err
	}
	switch broken := u.PasswordPolicy.Check(normal); {
	case !ok || len(broken) > 0:
		return &PolicyError{&ValidationError{"password", policyProblem(u.PasswordPolicy)}, broken}
	case !s.cfg.CommonPasswords && weakpassword.Repeats(normal, append(names, s.cfg.SiteNames...)...):
		return &ValidationError{"password", RepeatsProblem}
	case !s.cfg.CommonPasswords && weakpassword.Common(normal):
		return &ValidationError{"password", CommonProblem}
	case u.PasswordPolicy.BreachedPasswordBlocked:
		return s.checkBreached(ctx, normal)
	}
	return nil
}

// Problems of passwords that others try first. (docs/decisions/sign-in.md#common-passwords)
const (
	CommonProblem  = "is one of the most common passwords: others try it, so choose another"
	RepeatsProblem = "repeats the username, the name, the e-mail address or the name of the site: choose another"
)

// PolicyError is the *ValidationError of a password that breaks rules of the policy, in the words of
// settings.PasswordPolicy.Check.
type PolicyError struct {
	Invalid *ValidationError
	Broken  []string
}

func (e *PolicyError) Error() string { return e.Invalid.Error() }

func (e *PolicyError) Unwrap() error { return e.Invalid }

// policyProblem says everything that the policy requires, so one more attempt is enough.
func policyProblem(p settings.PasswordPolicy) string {
	text := fmt.Sprintf("must have %d to %d characters", p.MinLength, min(p.MaxLength, MaxPassword))
	var classes []string
	for _, c := range []struct {
		required bool
		name     string
	}{
		{p.LowerCaseCharRequired, "a lower case letter"},
		{p.UpperCaseCharRequired, "an upper case letter"},
		{p.SpecialCharRequired, "a character that is neither letter nor digit"},
	} {
		if c.required {
			classes = append(classes, c.name)
		}
	}
	if len(classes) > 0 {
		text += ", among them " + strings.Join(classes, " and ")
	}
	return text
}
