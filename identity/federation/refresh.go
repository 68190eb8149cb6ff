package federation

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refreshLanes is the number of sessions that are refreshed at once. One session is never refreshed twice at a time,
// since a provider can give a refresh token that is valid once.
const refreshLanes = 64

// RefreshDetails asks the provider of a session for the details of its person again, until ctx ends. nil: it cannot be
// asked, or the person has signed in by another provider since.
func (s *Service) RefreshDetails(ctx context.Context, subject, sessionID, provider string) (map[string][]string, error) {
	h := fnv.New32a()
	h.Write([]byte(sessionID)) //nolint:errcheck // never fails
	lane := s.lanes[h.Sum32()%refreshLanes]
	select {
	case lane <- struct{}{}:
		defer func() { <-lane }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var (
		rec  session.Record
		held session.ProviderRecord
		u    *settings.Units
		now  = s.deps.Now()
	)
	err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		if u, err = s.deps.Units(tx); err != nil {
			return err
		}
		if rec, err = s.deps.Session.Live(tx, sessionID, now); err == nil && rec.Held && rec.PersonID == subject && rec.Provider == provider {
			held, err = session.ProviderRecords.Get(tx, sessionID)
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil || len(held.Sealed) == 0 {
		return nil, err
	}
	known, err := s.load(ctx, u)
	if err != nil {
		return nil, err
	}
	p := known.Get(held.Provider)
	if p == nil {
		return nil, nil
	}
	refresher, ok := p.Source.(idp.Refresher)
	if !ok {
		return nil, nil
	}
	before, err := s.Unseal("held", held.Identity, held.Sealed)
	if err != nil {
		return nil, err
	}
	id, err := refresher.Refresh(ctx, before)
	if err != nil {
		if id != nil && len(id.Held) > 0 && len(id.Held) <= maxHeld {
			err = errors.Join(err, s.keepRefreshed(ctx, sessionID, held, &idp.Identity{Held: id.Held, Details: rec.Details}))
		}
		return nil, err
	}
	if id == nil {
		return nil, nil
	}
	if person.IdentityKey(p.ID, id) != held.Identity || len(id.Held) > maxHeld {
		return nil, &idp.Invalid{Reason: "the provider names another person than before"}
	}
	p.settle(id)
	return id.Details, s.keepRefreshed(ctx, sessionID, held, id)
}

// keepRefreshed writes the new details, unless the session has a later sign-in.
func (s *Service) keepRefreshed(ctx context.Context, sessionID string, held session.ProviderRecord, id *idp.Identity) error {
	sealed := held.Sealed
	if len(id.Held) > 0 {
		var err error
		if sealed, err = s.Seal("held", held.Identity, id.Held); err != nil {
			return err
		}
	}
	now := s.deps.Now()
	// A refresh token that is valid once is lost with the answer, so the write outlives the request.
	return s.deps.Store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		rec, err := s.deps.Session.Live(tx, sessionID, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		present, err := session.ProviderRecords.Get(tx, sessionID)
		if errors.Is(err, storage.ErrNotFound) ||
			(err == nil && (present.Identity != held.Identity || !slices.Equal(present.Sealed, held.Sealed))) {
			return nil
		}
		if err != nil {
			return err
		}
		present.Sealed, present.Refreshed = sealed, present.Refreshed+1
		if err := session.ProviderRecords.Put(tx, sessionID, present, s.deps.Session.Collect(rec)); err != nil {
			return err
		}
		if maps.EqualFunc(rec.Details, id.Details, slices.Equal) {
			return nil
		}
		rec.Details = id.Details
		return session.Records.Put(tx, sessionID, rec, s.deps.Session.Collect(rec))
	})
}
