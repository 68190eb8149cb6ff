package federation

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refreshLanes bounds how many sessions are refreshed at once; one session is never refreshed twice at a time, since a provider may give
// a refresh token that is good once.
const refreshLanes = 64

// RefreshDetails implements authz.Subjects.
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
		rec session.Record
		hr  session.HeldRecord
		now = s.now()
	)
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		if rec, err = s.session.Live(tx, sessionID, now); err == nil && rec.Held && rec.PersonID == subject && rec.Provider == provider {
			hr, err = session.HeldRecords.Get(tx, sessionID)
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil || len(hr.Sealed) == 0 {
		return nil, err
	}
	known, err := s.Current(ctx)
	if err != nil {
		return nil, err
	}
	p := known.Get(hr.Provider)
	if p == nil {
		return nil, nil
	}
	refresher, ok := p.Source.(idp.Refresher)
	if !ok {
		return nil, nil
	}
	before, err := s.Unseal("held", hr.Identity, hr.Sealed)
	if err != nil {
		return nil, err
	}
	id, err := refresher.Refresh(ctx, before)
	if err != nil {
		if id != nil && len(id.Held) > 0 && len(id.Held) <= maxHeld {
			err = errors.Join(err, s.keepRefreshed(ctx, sessionID, hr, &idp.Identity{Held: id.Held, Details: rec.Details}))
		}
		return nil, err
	}
	if id == nil {
		return nil, nil
	}
	if person.IdentityKey(p.ID, id) != hr.Identity || len(id.Held) > maxHeld {
		return nil, &idp.Invalid{Reason: "the provider names another person than before"}
	}
	return id.Details, s.keepRefreshed(ctx, sessionID, hr, id)
}

// keepRefreshed writes what the provider says now, unless the session has a later sign-in.
func (s *Service) keepRefreshed(ctx context.Context, sessionID string, hr session.HeldRecord, id *idp.Identity) error {
	sealed := hr.Sealed
	if len(id.Held) > 0 {
		var err error
		if sealed, err = s.Seal("held", hr.Identity, id.Held); err != nil {
			return err
		}
	}
	now := s.now()
	// A refresh token that is good once is lost with the answer, so the write outlives whoever asked.
	return s.store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
		rec, err := s.session.Live(tx, sessionID, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		present, err := session.HeldRecords.Get(tx, sessionID)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && (present.Identity != hr.Identity || !slices.Equal(present.Sealed, hr.Sealed))) {
			return nil
		}
		if err != nil {
			return err
		}
		present.Sealed, present.Refreshed = sealed, present.Refreshed+1
		if err := session.HeldRecords.Put(tx, sessionID, present, s.session.Collect(rec)); err != nil {
			return err
		}
		if maps.EqualFunc(rec.Details, id.Details, slices.Equal) {
			return nil
		}
		rec.Details = id.Details
		return session.Records.Put(tx, sessionID, rec, s.session.Collect(rec))
	})
}
