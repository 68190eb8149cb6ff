package person

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// startsInactive reports whether a new person must be activated first: one that an administrator creates or that signs
// up. Persons of the configuration file and imported persons are active at once.
func startsInactive(u *settings.Units, how Welcome) bool {
	return u.Features.PersonActivation.Enabled && (how == ReasonAPI || how == ReasonWeb)
}

// Activate makes an inactive or invited person active, welcomes them and appends the event done. No session or token of
// such a person exists, so none ends.
func (s *Service) Activate(tx storage.Tx, personID string, rec Record, done audit.Event, now time.Time) (Record, error) {
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
	if err := s.Notify(tx, Recipient{ID: personID, Record: &rec, Profile: &prof.Profile}, notify.Welcome, how.Enabled, now); err != nil {
		return rec, err
	}
	done.Partition = rec.PartitionName()
	return rec, s.deps.Events.Append(tx, done)
}

// moveTo sets a state. No person waits for an activation of their own afterwards: one that an administrator has made
// inactive must not activate the account again. After a block, someone who has not accepted an invitation is invited.
func (r *Record) moveTo(to State) {
	was := State("")
	switch {
	case to == Blocked && r.State == Invited:
		was = Invited
	case to == Active && r.isInvited():
		to = Invited
	}
	r.State, r.Was, r.Awaits, r.BlockedUntil = to, was, unwelcomed, time.Time{}
}

// isInvited reports whether someone who is blocked has an invitation that they have not accepted.
func (r *Record) isInvited() bool { return r.State == Blocked && r.Was == Invited }

// ActivatesByEmail reports whether new persons are inactive until they have verified their e-mail address.
func ActivatesByEmail(u *settings.Units) bool {
	return u.Features.PersonActivation.Enabled && u.Features.PersonActivation.Type == activationByEmail
}

// AwaitsNow reports whether an inactive person can activate the account. One that an administrator has made inactive
// cannot.
func (r *Record) AwaitsNow() bool { return r.State == Inactive && r.Awaits != unwelcomed }

// MakeAwait makes a new person inactive if they must be activated first.
func (s *Service) MakeAwait(tx storage.Tx, rec *Record, how Welcome) error {
	u, err := s.deps.Units(tx)
	if err == nil && rec.State == Active && startsInactive(u, how) {
		rec.State, rec.Awaits = Inactive, how
	}
	return err
}

// The types of activation. (identity service document, FeaturesConfiguration)
const (
	ActivationByCode  = "EXTERNALLY_DELIVERED_CODE"
	activationByEmail = "EMAIL" // by a link or a code sent to the person
)

// OfInactive returns what a right password of an inactive person means: an *InactiveError if they can activate the
// account, otherwise ErrMismatch. A wrong password must not tell which.
func (s *Service) OfInactive(ctx context.Context, a Holder) error {
	u, err := s.Settings(ctx)
	if err == nil && u.Features.PersonActivation.Enabled && a.Person.State == Inactive &&
		(u.Features.PersonActivation.Type == ActivationByCode || a.Person.AwaitsNow()) {
		err = &InactiveError{a}
	}
	if err == nil {
		err = ErrMismatch
	}
	return err
}
