package actiontoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const revokedAtOnce = 500 // records in one transaction

// Make makes an action token for a person (id). The features that it needs are checked when it is used, and once more
// whether the person has a role in the admin console.
// Errors: person.ErrNoPerson, *person.ValidationError.
func (s *Service) Make(ctx context.Context, personID string, n NewActionToken, by audit.Actor) (ActionToken, error) {
	if !person.IsID(personID) {
		return ActionToken{}, person.ErrNoPerson
	}
	if err := n.check(); err != nil {
		return ActionToken{}, err
	}
	token, err := secret.NewToken(s.deps.Random, secret.ActionToken)
	if err != nil {
		return ActionToken{}, err
	}
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return ActionToken{}, err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, actionTokenMade)
	if err != nil {
		return ActionToken{}, err
	}
	now, hash := s.deps.Now(), secret.Hash(token)
	out := ActionToken{ID: id.String(), Token: token}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		p, err := readPerson(tx, personID)
		if err != nil {
			return err
		}
		if s.deps.Person.HasRole(&p) {
			if err := n.admit(); err != nil {
				return err
			}
		}
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		if n.RedirectURI != "" && !settings.Whitelisted(u.Features.ActionToken.WhitelistedURLs, n.RedirectURI) {
			return &person.ValidationError{Field: "redirect_uri", Problem: "is not whitelisted for action tokens"}
		}
		rec := Record{
			ID: out.ID, PersonID: personID, Epoch: p.Epoch, Actions: n.Actions, RedirectURI: n.RedirectURI, Level: n.Level, AppToWeb: n.AppToWeb,
			Ceiling: n.Ceiling, Roles: n.Roles,
			CreatedAt: now, ExpiresAt: now.Add(n.life(&u.Features.ActionToken)),
		}
		out.ExpiresAt = rec.ExpiresAt
		if err := Put(tx, hash, rec); err != nil {
			return err
		}
		e := by.Fill(ev[0], personID, actionTypes(n.Actions))
		e.Partition = p.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return ActionToken{}, err
	}
	return out, nil
}

// readPerson returns a person who was not removed, or person.ErrNoPerson.
func readPerson(tx storage.Tx, id string) (person.Record, error) {
	p, err := person.Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && p.State == person.Removed {
		err = person.ErrNoPerson
	}
	return p, err
}

// Put stores a new token under its hash, with the present epoch of all sessions.
func Put(tx storage.Tx, hash string, rec Record) error {
	var err error
	if rec.Global, err = session.GlobalEpoch(tx); err != nil {
		return err
	}
	if err := tokens.Create(tx, hash, rec, rec.ExpiresAt); err != nil {
		return err
	}
	return tokensOf.Create(tx, storage.Key(rec.PersonID, rec.ID), hash, rec.ExpiresAt)
}

// Revoke revokes an action token of a person (id), or all of them if tokenID is empty. Errors:
// person.ErrNoPerson, ErrNoToken.
func (s *Service) Revoke(ctx context.Context, personID, tokenID string, by audit.Actor) error {
	if !person.IsID(personID) {
		return person.ErrNoPerson
	}
	for {
		more, err := s.revokeSome(ctx, personID, tokenID, by)
		if err != nil || !more {
			return err
		}
	}
}

// revokeSome revokes as many tokens as fit into one transaction.
func (s *Service) revokeSome(ctx context.Context, personID, tokenID string, by audit.Actor) (more bool, err error) {
	ev, err := s.deps.Person.NewEvents(by.Origin, actionTokensRevoked)
	if err != nil {
		return false, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		more = false
		p, err := readPerson(tx, personID)
		if err != nil {
			return err
		}
		n := 0
		if tokenID != "" {
			n, err = RevokeIn(tx, storage.Key(personID, tokenID), now)
			if err == nil && n == 0 {
				err = ErrNoToken
			}
		} else {
			n, more, err = revokeAll(tx, personID, now)
		}
		if err != nil || n == 0 {
			return err
		}
		e := by.Fill(ev[0], personID, fmt.Sprintf("%d revoked", n))
		e.Partition = p.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	return more, err
}

func revokeAll(tx storage.Tx, personID string, now time.Time) (n int, more bool, err error) {
	seen := 0
	for e, err := range tokensOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID), Limit: revokedAtOnce}) {
		if err != nil {
			return n, false, err
		}
		one, err := RevokeIn(tx, e.Key, now)
		if err != nil {
			return n, false, err
		}
		seen++
		n += one
	}
	return n, seen == revokedAtOnce, nil
}

// RevokeIn removes a token by its key in tokensOf. It returns 1 if the token could still be used, otherwise 0.
func RevokeIn(tx storage.Tx, key string, now time.Time) (int, error) {
	hash, ok, err := tokensOf.Find(tx, key)
	if err != nil || !ok {
		return 0, err
	}
	rec, _, err := tokens.Find(tx, hash)
	if err != nil {
		return 0, err
	}
	if err := tokens.Delete(tx, hash); err != nil {
		return 0, err
	}
	if err := tokensOf.Delete(tx, key); err != nil {
		return 0, err
	}
	if !rec.ExpiresAt.After(now) {
		return 0, nil
	}
	return 1, nil
}
