package mfa

import (
	"context"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Suspect marks a passkey whose counter has gone back: there may be a copy, and which of the two answered is unknown.
// From now on neither is accepted.
func (s *Service) Suspect(ctx context.Context, personID string, key passkey.Passkey, from audit.Origin) error {
	ev, err := s.deps.Person.NewEvents(from, passkeySuspected)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		set, err := passkey.Read(tx, personID)
		i := set.Find(key.Credential)
		if err != nil || i < 0 || set.Keys[i].Suspect {
			return err
		}
		set.Keys = slices.Clone(set.Keys)
		set.Keys[i].Suspect = true
		if err := passkey.Put(tx, personID, set); err != nil {
			return err
		}
		if err := s.deps.Session.FactorChanged(tx, personID); err != nil {
			return err
		}
		if err := s.notifyMethod(tx, personID, &rec, notify.PasskeySuspected, session.MethodPasskey, now); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, audit.Actor{}.Fill(ev[0], personID, set.Keys[i].Name))
	})
}
