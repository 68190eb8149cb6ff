package person

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Holder is the data of the person with a username that a sign-in needs.
type Holder struct {
	ID     string // empty: the username is unknown
	Person Record
	PHC    string // empty: no password
	SetBy  string // as in PasswordRecord
	decoy  string // the hash to compare with then. Empty: a hash of this service
}

// LookUp returns the person with a username, or an empty Holder.
func (s *Service) LookUp(ctx context.Context, username string) (a Holder, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		a = Holder{}
		id, rec, err := s.Find(tx, username)
		if errors.Is(err, ErrNoPerson) || IsID(username) {
			return nil
		}
		if err != nil {
			return err
		}
		a.ID, a.Person = id, rec
		pw, _, err := Passwords.Find(tx, id)
		a.PHC, a.SetBy = pw.PHC, pw.SetBy
		return err
	})
	if a.PHC == "" {
		a.decoy = s.decoys.of(s.FoldTyped(username))
	}
	s.decoys.learn(a.PHC)
	return a, err
}

// HolderOf is LookUp by the id of a person. A person who was removed is no one.
func (s *Service) HolderOf(ctx context.Context, id string) (a Holder, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		a = Holder{}
		rec, found, err := Records.Find(tx, id)
		if err != nil || !found || rec.State == Removed {
			return err
		}
		pw, _, err := Passwords.Find(tx, id)
		a.ID, a.Person, a.PHC, a.SetBy = id, rec, pw.PHC, pw.SetBy
		return err
	})
	if a.PHC == "" {
		a.decoy = s.decoys.of(s.FoldTyped(a.Person.Username))
	}
	return a, err
}

// Verify returns nil if the password is right and the person can sign in, otherwise ErrMismatch. It computes exactly
// one slow hash in both cases, unless no password can have the form. fresh is a new hash if the stored one has another
// cost.
func (s *Service) Verify(ctx context.Context, a Holder, password string) (fresh string, err error) {
	if fresh, err = s.Compare(ctx, s.deps.Hasher, a, password); err == nil && a.Person.State != Active {
		err = ErrMismatch
	}
	return fresh, err
}

// Compare is Verify of the password alone, whatever the state of the person.
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
			return "", nil //nolint:nilerr // the password is right; the next sign-in hashes it again
		}
	}
	return fresh, nil
}

// Stored returns what is stored of the person, or ErrMismatch if the password is no longer the one that was verified.
func (a Holder) Stored(tx storage.Tx) (p Record, pw PasswordRecord, err error) {
	if p, err = Records.Get(tx, a.ID); err == nil {
		pw, err = Passwords.Get(tx, a.ID)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && (pw.PHC != a.PHC || p.State == Removed) {
		return p, pw, ErrMismatch
	}
	return p, pw, err
}

// Unchanged is Stored, and ErrMismatch also if the person is not active or anything has ended since the password was
// verified.
func (a Holder) Unchanged(tx storage.Tx) (p Record, pw PasswordRecord, err error) {
	p, pw, err = a.Stored(tx)
	if err == nil && (p.State != Active || p.Epoch != a.Person.Epoch) {
		err = ErrMismatch
	}
	return p, pw, err
}

// Rehash replaces the hash of the password by a new hash of the same password. fresh "": it stays.
func (a Holder) Rehash(tx storage.Tx, pw PasswordRecord, fresh string) error {
	if fresh == "" {
		return nil
	}
	pw.PHC = fresh
	return Passwords.Put(tx, a.ID, pw, time.Time{})
}
