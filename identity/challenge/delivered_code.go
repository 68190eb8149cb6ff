package challenge

import (
	"context"
	"crypto/hmac"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	deliveredCodeTries = 5
	deliveredCodeSize  = 8
	// deliveredAlphabet leaves out characters that people confuse, in handwriting or on the phone. 24 of them give 37
	// bits.
	deliveredAlphabet = "34679ACDEFGHJKMNPQRTVWXY"
)

// DeliveredPurpose is the purpose of a code delivered outside of this service (letter, phone), as named in the API.
type DeliveredPurpose string

// The purposes of delivered codes.
const (
	DeliveredStepUp     DeliveredPurpose = "step-up"
	DeliveredInvitation DeliveredPurpose = "invitation"
	DeliveredActivation DeliveredPurpose = "activation"
)

// DeliveredTerms are the terms of a code.
type DeliveredTerms struct {
	Life  time.Duration // how long it works
	After time.Duration // how long after it was made it begins to work
	Every time.Duration // how soon another one can replace it
}

// deliveredTermsFunc returns the terms of a code for a person. Errors: ErrCodesOff, *person.StateError,
// person.ErrNoPerson.
type deliveredTermsFunc func(tx storage.Tx, id string, rec *person.Record, u *settings.Units) (DeliveredTerms, error)

// SetTerms sets the terms of codes for a purpose, before the service is used.
func (s *Service) SetTerms(why DeliveredPurpose, terms deliveredTermsFunc) {
	if s.deliveries == nil {
		s.deliveries = map[DeliveredPurpose]deliveredTermsFunc{}
	}
	s.deliveries[why] = terms
}

// DeliveredPurposes returns the purposes of codes, sorted.
func DeliveredPurposes() []string {
	names := []string{string(DeliveredStepUp), string(DeliveredInvitation), string(DeliveredActivation)}
	slices.Sort(names)
	return names
}

// DeliveredCode is a new code, the only time that it is shown.
type DeliveredCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
	// NotBefore is the time when it begins to work, if not at once.
	NotBefore *time.Time `json:"not_before,omitempty"`
}

// MakeDeliveredCode makes a code for a person in place of the one before. The caller delivers it: by letter, by phone,
// at a desk. Errors: person.ErrNoPerson, *person.ValidationError, *person.StateError, *TooSoonError, ErrCodesOff.
func (s *Service) MakeDeliveredCode(ctx context.Context, usernameOrID, purpose string, by audit.Actor) (DeliveredCode, error) {
	why := DeliveredPurpose(purpose)
	terms, ok := s.deliveries[why]
	if !ok {
		return DeliveredCode{}, &person.ValidationError{Field: "for", Problem: "must be one of: " + strings.Join(DeliveredPurposes(), ", ")}
	}
	code, err := secret.Text(s.deps.Random, deliveredAlphabet, deliveredCodeSize)
	if err != nil {
		return DeliveredCode{}, err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, deliveredCodeMade)
	if err != nil {
		return DeliveredCode{}, err
	}
	now := s.deps.Now()
	out := DeliveredCode{Code: showDelivered(code)}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.deps.Person.Find(tx, usernameOrID)
		if err == nil && rec.State == person.Removed {
			err = person.ErrNoPerson
		}
		if err != nil {
			return err
		}
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		t, err := terms(tx, id, &rec, u)
		if err != nil {
			return err
		}
		if out.ExpiresAt, err = s.putDeliveredCode(tx, why, id, &rec, code, by.Untrusted(), t, now); err != nil {
			return err
		}
		out.NotBefore = nil
		if t.After > 0 {
			begins := now.Add(t.After)
			out.NotBefore = &begins
		}
		e := by.Fill(ev[0], id, purpose)
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return DeliveredCode{}, err
	}
	return out, nil
}

// showDelivered returns a code as people read it: in two halves.
func showDelivered(code string) string { return code[:len(code)/2] + "-" + code[len(code)/2:] }

const deliveredPurposeKey = "codes that are delivered"

func deliveredHash(key []byte, why DeliveredPurpose, person string, epoch int64, code string) []byte {
	return secret.MAC(key, "delivered code", string(why), person, strconv.FormatInt(epoch, 10), code)
}

// putDeliveredCode stores a code in place of the one before, and returns when it expires. Error: *TooSoonError.
func (s *Service) putDeliveredCode(tx storage.Tx, why DeliveredPurpose, person string, rec *person.Record, code, setBy string,
	t DeliveredTerms, now time.Time,
) (time.Time, error) {
	key := storage.Key(string(why), person)
	last, found, err := deliveredCodes.Find(tx, key)
	if err != nil {
		return time.Time{}, err
	}
	if wait := last.MadeAt.Add(t.Every).Sub(now); found && wait > 0 {
		return time.Time{}, &TooSoonError{wait}
	}
	out := deliveredCodeRecord{
		Hash: deliveredHash(s.deps.Keyring.Derive(deliveredPurposeKey), why, person, rec.Epoch, code), Epoch: rec.Epoch,
		MadeAt: now, From: now.Add(t.After), ExpiresAt: now.Add(t.After + t.Life), SetBy: setBy,
	}
	return out.ExpiresAt, deliveredCodes.Put(tx, key, out, out.ExpiresAt.Add(session.CollectAfter))
}

// works reports whether a code works now, if attempts are left.
func (r deliveredCodeRecord) works(epoch int64, now time.Time) bool {
	return r.Epoch == epoch && !now.Before(r.From) && r.ExpiresAt.After(now)
}

// CheckDeliveredCode checks an entered code, and counts the attempt before. Error: person.ErrMismatch, if the code is
// wrong or does not work now, or an untrusted actor has made it and the person has a role. spend deletes the code in
// the transaction that uses it, and returns false if another request has.
func (s *Service) CheckDeliveredCode(ctx context.Context, why DeliveredPurpose, personID,
	typed string,
) (spend func(tx storage.Tx) (bool, error), err error) {
	key, now := storage.Key(string(why), personID), s.deps.Now()
	var rec deliveredCodeRecord
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		p, err := person.Records.Get(tx, personID)
		if err == nil {
			rec, err = deliveredCodes.Get(tx, key)
		}
		if err != nil {
			return err
		}
		if !rec.works(p.Epoch, now) || rec.Tries >= deliveredCodeTries || rec.SetBy != "" && s.deps.Person.HasRole(&p) {
			return storage.ErrNotFound
		}
		rec.Tries++
		return deliveredCodes.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, person.ErrMismatch
	}
	if err != nil {
		return nil, err
	}
	code := strings.Map(func(c rune) rune {
		if c == '-' || c == ' ' {
			return -1
		}
		return c
	}, strings.ToUpper(typed))
	if !slices.ContainsFunc(s.deps.Keyring.DeriveAll(deliveredPurposeKey), func(k []byte) bool {
		return hmac.Equal(rec.Hash, deliveredHash(k, why, personID, rec.Epoch, code))
	}) {
		return nil, person.ErrMismatch
	}
	return spendOnce(deliveredCodes, key, func(now deliveredCodeRecord) bool { return hmac.Equal(now.Hash, rec.Hash) }), nil
}
