package person

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// startsInactive tells whether somebody whom an administrator makes, or who signs up, has to be activated first. Whoever the configuration file declares, and whom another
// system has known already, has not.
func startsInactive(u *config.Units, how Welcome) bool {
	return u.Features.PersonActivation.Enabled && (how == ReasonAPI || how == ReasonWeb)
}

// Activate makes an inactive or invited person active. Nothing was given to such a person, so nothing ends.
func (s *Service) Activate(tx storage.Tx, personID string, rec Record, done event.Event, now time.Time) (Record, error) {
	how := rec.Awaits
	rec.moveTo(Active)
	rec.UpdatedAt = now
	if err := Records.Put(tx, personID, rec, time.Time{}); err != nil {
		return rec, err
	}
	prof, err := ReadProfile(tx, personID, &rec)
	if err != nil {
		return rec, err
	}
	if err := s.Notify(tx, Recipient{ID: personID, Rec: &rec, Profile: &prof.Profile}, notify.Welcome, how.Enabled, now); err != nil {
		return rec, err
	}
	done.Partition = rec.PartitionName()
	return rec, s.events.Append(tx, done)
}

// moveTo sets a state. No person waits for an activation of their own afterwards: one that an administrator has made
// inactive must not activate the account again.
func (r *Record) moveTo(to State) { r.State, r.Awaits = to, unwelcomed }

// ActivatesByEmail tells whether new persons are inactive until they have shown that they read their e-mail.
func ActivatesByEmail(u *config.Units) bool {
	return u.Features.PersonActivation.Enabled && u.Features.PersonActivation.Type == activationByEmail
}

// AwaitsNow tells whether a person is inactive until they have activated the account themselves. Whom an administrator has made inactive is not.
func (r *Record) AwaitsNow() bool { return r.State == Inactive && r.Awaits != unwelcomed }

// MakeAwait makes a new person inactive who has to be activated first.
func (s *Service) MakeAwait(tx storage.Tx, rec *Record, how Welcome) error {
	u, err := s.units(tx)
	if err == nil && rec.State == Active && startsInactive(u, how) {
		rec.State, rec.Awaits = Inactive, how
	}
	return err
}
