package identity

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refreshLanes bounds how many sessions are refreshed at once; one session is never refreshed twice at a time, since a provider may give
// a refresh token that is good once.
const refreshLanes = 64

// RefreshDetails implements authz.Subjects.
func (s *Service) RefreshDetails(ctx context.Context, subject, session, provider string) (map[string][]string, error) {
	h := fnv.New32a()
	h.Write([]byte(session)) //nolint:errcheck // never fails
	lane := s.lanes[h.Sum32()%refreshLanes]
	select {
	case lane <- struct{}{}:
		defer func() { <-lane }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var (
		rec sessionRecord
		hr  heldRecord
		now = s.Now()
	)
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		if rec, err = s.live(tx, session, now); err == nil && rec.Held && rec.PersonID == subject && rec.Provider == provider {
			hr, err = held.Get(tx, session)
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil || len(hr.Sealed) == 0 {
		return nil, err
	}
	known, err := s.providers(ctx)
	if err != nil {
		return nil, err
	}
	p := known.get(hr.Provider)
	if p == nil {
		return nil, nil
	}
	refresher, ok := p.Source.(idp.Refresher)
	if !ok {
		return nil, nil
	}
	before, err := s.unseal("held", hr.Identity, hr.Sealed)
	if err != nil {
		return nil, err
	}
	id, err := refresher.Refresh(ctx, before)
	if err != nil {
		if id != nil && len(id.Held) > 0 && len(id.Held) <= maxHeld {
			err = errors.Join(err, s.keepRefreshed(ctx, session, hr, &idp.Identity{Held: id.Held, Details: rec.Details}))
		}
		return nil, err
	}
	if id == nil {
		return nil, nil
	}
	if identityKey(p.ID, id) != hr.Identity || len(id.Held) > maxHeld {
		return nil, &idp.Invalid{Reason: "the provider names another person than before"}
	}
	return id.Details, s.keepRefreshed(ctx, session, hr, id)
}

// keepRefreshed writes what the provider says now, unless the session has a later sign-in.
func (s *Service) keepRefreshed(ctx context.Context, session string, hr heldRecord, id *idp.Identity) error {
	sealed := hr.Sealed
	if len(id.Held) > 0 {
		var err error
		if sealed, err = s.seal("held", hr.Identity, id.Held); err != nil {
			return err
		}
	}
	now := s.Now()
	// A refresh token that is good once is lost with the answer, so the write outlives whoever asked.
	return s.Store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		rec, err := s.live(tx, session, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		present, err := held.Get(tx, session)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && (present.Identity != hr.Identity || !slices.Equal(present.Sealed, hr.Sealed))) {
			return nil
		}
		if err != nil {
			return err
		}
		present.Sealed, present.Refreshed = sealed, present.Refreshed+1
		if err := held.Put(tx, session, present, s.collect(rec)); err != nil {
			return err
		}
		if maps.EqualFunc(rec.Details, id.Details, slices.Equal) {
			return nil
		}
		rec.Details = id.Details
		return sessions.Put(tx, session, rec, s.collect(rec))
	})
}
