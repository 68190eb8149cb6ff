package person

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// HolderByID is LookUp of the person of an id.
func (s *Service) HolderByID(ctx context.Context, id string) (a Holder, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a = Holder{ID: id}
		if a.Person, err = Records.Get(tx, id); err != nil {
			return err
		}
		pw, err := Passwords.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		a.PHC = pw.PHC
		return err
	})
	return a, err
}

// MaxPassword bounds a password, in characters. What else it must be like is configured.
const MaxPassword = 256

// SetPassword changes the password of a person (username or id). It ends everything given before, but for the session that by names.
// ErrNoPerson, *ValidationError, secret.ErrBusy.
func (s *Service) SetPassword(ctx context.Context, usernameOrID string, password secret.String, by event.Actor) error {
	n, err := s.PreparePassword(ctx, password.Reveal(), by)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		id, _, err := s.FindMany(tx, usernameOrID)
		if err == nil {
			_, err = s.ReplacePassword(tx, id, n)
		}
		return err
	})
}

// HashedPassword is a password that the policy allows, hashed, with what its transaction needs.
type HashedPassword struct {
	changeContext

	phc string
}

// PreparePassword is called before the transaction that calls ReplacePassword. *ValidationError, secret.ErrBusy.
func (s *Service) PreparePassword(ctx context.Context, password string, by event.Actor) (*HashedPassword, error) {
	phc, err := s.HashNew(ctx, password)
	if err != nil {
		return nil, err
	}
	ev, err := s.NewEvents(by.Origin, passwordChanged)
	if err != nil {
		return nil, err
	}
	return &HashedPassword{changeContext{by, passwordChanged, ev[0], s.now()}, phc}, nil
}

// ReplacePassword gives the person of an id a new password, within tx: it ends every session, refresh token, link and action token given before, but
// for the session that names itself in event.Actor, records it and tells the person. ErrNoPerson.
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
		return true, Passwords.Put(tx, id, PasswordRecord{PHC: n.phc, ChangedAt: n.Now}, time.Time{})
	})
}

// firstPassword returns the hash that a new person starts with, or "".
func (s *Service) firstPassword(ctx context.Context, n NewPerson) (string, error) {
	switch {
	case n.PasswordHash != "" && !n.Password.IsZero():
		return "", &ValidationError{"password", "and password_hash cannot both be given"}
	case n.PasswordHash != "":
		if secret.CheckImported(n.PasswordHash) != nil {
			return "", &ValidationError{"password_hash", "is not a hash that is understood, or costs too much"}
		}
		s.decoys.learn(n.PasswordHash)
		return n.PasswordHash, nil
	case !n.Password.IsZero():
		return s.HashNew(ctx, n.Password.Reveal())
	}
	return "", nil
}

// HashNew hashes a password that the policy allows.
func (s *Service) HashNew(ctx context.Context, password string) (string, error) {
	normal, ok := normalPassword(password)
	if err := s.checkPolicy(ctx, normal, ok); err != nil {
		return "", err
	}
	return s.made.Hash(ctx, normal)
}

// normalPassword returns the form of a password that is hashed: NFC, so that it does not matter how a keyboard composes é (RFC 8265 4.2).
// It is not ok when no stored password can be like it: empty, longer than the bound, not UTF-8, or with a NUL.
func normalPassword(password string) (normal string, ok bool) {
	if len(password) > 4*MaxPassword*3 || !utf8.ValidString(password) || strings.Contains(password, "\x00") {
		return "", false
	}
	normal = norm.NFC.String(password)
	n := utf8.RuneCountInString(normal)
	return normal, n >= 1 && n <= MaxPassword
}

// Holder is what a sign-in needs to know of the person who may own a username.
type Holder struct {
	ID     string // empty: nobody has the username
	Person Record
	PHC    string // empty: no password
	decoy  string // what the password is held against then. Empty: a hash like ours
}

// LookUp returns the owner of a username, or an empty account.
func (s *Service) LookUp(ctx context.Context, username string) (a Holder, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a = Holder{}
		id, rec, err := s.FindMany(tx, username)
		if errors.Is(err, ErrNoPerson) || IsID(username) {
			return nil
		}
		if err != nil {
			return err
		}
		a.ID, a.Person = id, rec
		pw, err := Passwords.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		a.PHC = pw.PHC
		return err
	})
	if a.PHC == "" {
		a.decoy = s.decoys.of(username)
	}
	s.decoys.learn(a.PHC)
	return a, err
}

// Verify returns nil when the password is the account's and the person may sign in, and ErrMismatch for every other verdict. It
// computes exactly one slow hash whatever the verdict, unless the password could be nobody's. fresh is a new hash when the stored one
// was made at another cost.
func (s *Service) Verify(ctx context.Context, a Holder, password string) (fresh string, err error) {
	if fresh, err = s.Compare(ctx, s.hasher, a, password); err == nil && a.Person.State != Active {
		err = ErrMismatch
	}
	return fresh, err
}

// Compare is verify of the password alone, whatever the state of the person.
func (s *Service) Compare(ctx context.Context, with *secret.Hasher, a Holder, password string) (fresh string, err error) {
	normal, ok := normalPassword(password)
	if !ok {
		return "", ErrMismatch
	}
	if a.PHC == "" {
		if a.decoy != "" {
			_, _, err = with.Verify(ctx, a.decoy, normal)
		} else {
			err = with.Waste(ctx, normal)
		}
		if err != nil {
			return "", err
		}
		return "", ErrMismatch
	}
	ok, stale, err := with.Verify(ctx, a.PHC, normal)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", ErrMismatch
	}
	if stale {
		if fresh, err = with.Hash(ctx, normal); err != nil {
			return "", nil //nolint:nilerr // the sign-in is good; the next one rehashes
		}
	}
	return fresh, nil
}
