package identity

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxPassword bounds a password, in characters. What else it must be like is configured.
const maxPassword = 256

// SetPassword changes the password of a person (username or id). It ends everything given before, but for the session that by names.
// ErrNoPerson, *ValidationError, secret.ErrBusy.
func (s *Service) SetPassword(ctx context.Context, usernameOrID string, password secret.String, by Actor) error {
	n, err := s.preparePassword(ctx, password.Reveal(), by)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		id, _, err := s.find(tx, usernameOrID)
		if err == nil {
			_, err = s.replacePassword(tx, id, n)
		}
		return err
	})
}

// newPassword is a password that the policy allows, hashed, with what its transaction needs.
type newPassword struct {
	changing

	phc string
}

// preparePassword is called before the transaction that calls replacePassword. *ValidationError, secret.ErrBusy.
func (s *Service) preparePassword(ctx context.Context, password string, by Actor) (*newPassword, error) {
	phc, err := s.hashNew(ctx, password)
	if err != nil {
		return nil, err
	}
	ev, err := s.newEvents(by.Origin, passwordChanged)
	if err != nil {
		return nil, err
	}
	return &newPassword{changing{by, passwordChanged, ev[0], s.Now()}, phc}, nil
}

// replacePassword gives the person of an id a new password, within tx: it ends every session, refresh token, link and action token given before, but
// for the session that names itself in Actor, records it and tells the person. ErrNoPerson.
func (s *Service) replacePassword(tx storage.Tx, id string, n *newPassword) (personRecord, error) {
	rec, err := persons.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == Removed {
		return rec, ErrNoPerson
	}
	if err != nil {
		return rec, err
	}
	return s.changeIn(tx, id, rec, n.changing, func(tx storage.Tx, id string, rec *personRecord) (bool, error) {
		rec.Epoch++
		for _, h := range s.passwordHooks {
			if err := h(tx, id, n.by.Session, rec.Epoch-1, rec.Epoch); err != nil {
				return false, err
			}
		}
		return true, passwords.Put(tx, id, passwordRecord{PHC: n.phc, ChangedAt: n.now}, time.Time{})
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
		return s.hashNew(ctx, n.Password.Reveal())
	}
	return "", nil
}

// hashNew hashes a password that the policy allows.
func (s *Service) hashNew(ctx context.Context, password string) (string, error) {
	normal, ok := normalPassword(password)
	if err := s.checkPolicy(ctx, normal, ok); err != nil {
		return "", err
	}
	return s.made.Hash(ctx, normal)
}

// normalPassword returns the form of a password that is hashed: NFC, so that it does not matter how a keyboard composes é (RFC 8265 4.2).
// It is not ok when no stored password can be like it: empty, longer than the bound, not UTF-8, or with a NUL.
func normalPassword(password string) (normal string, ok bool) {
	if len(password) > 4*maxPassword*3 || !utf8.ValidString(password) || strings.Contains(password, "\x00") {
		return "", false
	}
	normal = norm.NFC.String(password)
	n := utf8.RuneCountInString(normal)
	return normal, n >= 1 && n <= maxPassword
}

// account is what a sign-in needs to know of the person who may own a username.
type account struct {
	id     string // empty: nobody has the username
	person personRecord
	phc    string // empty: no password
	decoy  string // what the password is held against then. Empty: a hash like ours
}

// lookUp returns the owner of a username, or an empty account.
func (s *Service) lookUp(ctx context.Context, username string) (a account, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		a = account{}
		id, rec, err := s.find(tx, username)
		if errors.Is(err, ErrNoPerson) || isID(username) {
			return nil
		}
		if err != nil {
			return err
		}
		a.id, a.person = id, rec
		pw, err := passwords.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		a.phc = pw.PHC
		return err
	})
	if a.phc == "" {
		a.decoy = s.decoys.of(username)
	}
	s.decoys.learn(a.phc)
	return a, err
}

// verify returns nil when the password is the account's and the person may sign in, and errMismatch for every other verdict. It
// computes exactly one slow hash whatever the verdict, unless the password could be nobody's. fresh is a new hash when the stored one
// was made at another cost.
func (s *Service) verify(ctx context.Context, a account, password string) (fresh string, err error) {
	if fresh, err = s.compare(ctx, s.Hasher, a, password); err == nil && a.person.State != Active {
		err = errMismatch
	}
	return fresh, err
}

// compare is verify of the password alone, whatever the state of the person.
func (s *Service) compare(ctx context.Context, with *secret.Hasher, a account, password string) (fresh string, err error) {
	normal, ok := normalPassword(password)
	if !ok {
		return "", errMismatch
	}
	if a.phc == "" {
		if a.decoy != "" {
			_, _, err = with.Verify(ctx, a.decoy, normal)
		} else {
			err = with.Waste(ctx, normal)
		}
		if err != nil {
			return "", err
		}
		return "", errMismatch
	}
	ok, stale, err := with.Verify(ctx, a.phc, normal)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errMismatch
	}
	if stale {
		if fresh, err = with.Hash(ctx, normal); err != nil {
			return "", nil //nolint:nilerr // the sign-in is good; the next one rehashes
		}
	}
	return fresh, nil
}
