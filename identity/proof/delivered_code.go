package proof

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	deliveredCodeTries = 5
	deliveredCodeSize  = 8
	// deliveredAlphabet has none of the characters that people take for one another, written by hand or read out: 24 of them, so 37 bits.
	deliveredAlphabet = "34679ACDEFGHJKMNPQRTVWXY"
)

// DeliveredPurpose is what a code is for that somebody else delivers, such as by letter, as commands and the API name it.
type DeliveredPurpose string

// The purposes of codes.
const (
	DeliveredStepUp     DeliveredPurpose = "step-up"
	DeliveredInvitation DeliveredPurpose = "invitation"
	DeliveredActivation DeliveredPurpose = "activation"
)

// DeliveredTerms are the terms of a code.
type DeliveredTerms struct {
	Life  time.Duration // how long it is good
	After time.Duration // how long after it was made it is not good yet
	Every time.Duration // how soon another may be made in its place
}

// deliveredTermsFunc returns the terms of a code for a person, or says why there is none: ErrCodesOff, a *person.StateError, person.ErrNoPerson.
type deliveredTermsFunc func(tx storage.Tx, id string, rec *person.Record, u *config.Units) (DeliveredTerms, error)

// Deliver sets the terms of codes for a purpose. New calls it for each before the service is used.
func (s *Service) Deliver(why DeliveredPurpose, terms deliveredTermsFunc) {
	if s.deliveries == nil {
		s.deliveries = map[DeliveredPurpose]deliveredTermsFunc{}
	}
	s.deliveries[why] = terms
}

// DeliveredPurposes returns what codes can be made for, sorted.
func DeliveredPurposes() []string {
	names := []string{string(DeliveredStepUp), string(DeliveredInvitation), string(DeliveredActivation)}
	slices.Sort(names)
	return names
}

// DeliveredCode is a code for somebody to deliver, the only time that it is shown.
type DeliveredCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
	// NotBefore is when it begins to be good, where that is not at once.
	NotBefore *time.Time `json:"not_before,omitempty"`
}

// TooSoonError says how long no other code is made for the same.
type TooSoonError struct{ Wait time.Duration }

func (e *TooSoonError) Error() string {
	return fmt.Sprintf("identity: a code was made a moment ago; another one can be made in %s", e.Wait.Round(time.Second))
}

// MakeDeliveredCode makes a code for a person, in place of the one before, for somebody to deliver: by letter, by telephone, at a desk. Errors:
// person.ErrNoPerson, *person.ValidationError, *person.StateError, *TooSoonError, ErrCodesOff.
func (s *Service) MakeDeliveredCode(ctx context.Context, usernameOrID, purpose string, by event.Actor) (DeliveredCode, error) {
	why := DeliveredPurpose(purpose)
	terms, ok := s.deliveries[why]
	if !ok {
		return DeliveredCode{}, &person.ValidationError{Field: "for", Problem: "must be one of: " + strings.Join(DeliveredPurposes(), ", ")}
	}
	code, err := secret.Text(s.random, deliveredAlphabet, deliveredCodeSize)
	if err != nil {
		return DeliveredCode{}, err
	}
	ev, err := s.person.NewEvents(by.Origin, deliveredCodeMade)
	if err != nil {
		return DeliveredCode{}, err
	}
	now := s.now()
	out := DeliveredCode{Code: showDelivered(code)}
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.person.FindMany(tx, usernameOrID)
		if err == nil && rec.State == person.Removed {
			err = person.ErrNoPerson
		}
		if err != nil {
			return err
		}
		u, err := s.units(tx)
		if err != nil {
			return err
		}
		t, err := terms(tx, id, &rec, u)
		if err != nil {
			return err
		}
		if out.ExpiresAt, err = s.putDeliveredCode(tx, why, id, &rec, code, t, now); err != nil {
			return err
		}
		out.NotBefore = nil
		if t.After > 0 {
			begins := now.Add(t.After)
			out.NotBefore = &begins
		}
		e := by.Fill(ev[0], id, purpose)
		e.Partition = rec.PartitionName()
		return s.events.Append(tx, e)
	})
	if err != nil {
		return DeliveredCode{}, err
	}
	return out, nil
}

// showDelivered writes a code as people read it: in two halves.
func showDelivered(code string) string { return code[:len(code)/2] + "-" + code[len(code)/2:] }

const deliveredPurposeKey = "codes that are delivered"

func deliveredHash(key []byte, why DeliveredPurpose, person string, epoch int64, code string) []byte {
	return secret.MAC(key, "delivered code", string(why), person, strconv.FormatInt(epoch, 10), code)
}

// putDeliveredCode stores a code in place of the one before. A *TooSoonError: that one is too young.
func (s *Service) putDeliveredCode(tx storage.Tx, why DeliveredPurpose, person string, rec *person.Record, code string, t DeliveredTerms, now time.Time) (time.Time, error) {
	key := storage.Key(string(why), person)
	last, err := deliveredCodes.Get(tx, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return time.Time{}, err
	}
	if wait := last.MadeAt.Add(t.Every).Sub(now); err == nil && wait > 0 {
		return time.Time{}, &TooSoonError{wait}
	}
	out := deliveredCodeRecord{
		Hash: deliveredHash(s.keyring.Derive(deliveredPurposeKey), why, person, rec.Epoch, code), Epoch: rec.Epoch,
		MadeAt: now, From: now.Add(t.After), ExpiresAt: now.Add(t.After + t.Life),
	}
	return out.ExpiresAt, deliveredCodes.Put(tx, key, out, out.ExpiresAt.Add(session.CollectAfter))
}

// good tells whether a code is good now, but for the tries.
func (r deliveredCodeRecord) good(epoch int64, now time.Time) bool {
	return r.Epoch == epoch && !now.Before(r.From) && r.ExpiresAt.After(now)
}

// CheckDeliveredCode looks at what was typed for a code, and counts the try before it looks. person.ErrMismatch: it is wrong, not good yet or any more.
// Otherwise spend uses it up, in the transaction of what it is good for, and is false when another request was faster.
func (s *Service) CheckDeliveredCode(ctx context.Context, why DeliveredPurpose, personID, typed string) (spend func(tx storage.Tx) (bool, error), err error) {
	key, now := storage.Key(string(why), personID), s.now()
	var rec deliveredCodeRecord
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, err := person.Records.Get(tx, personID)
		if err == nil {
			rec, err = deliveredCodes.Get(tx, key)
		}
		if err != nil {
			return err
		}
		if !rec.good(p.Epoch, now) || rec.Tries >= deliveredCodeTries {
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
	if !slices.ContainsFunc(s.keyring.DeriveAll(deliveredPurposeKey), func(k []byte) bool {
		return hmac.Equal(rec.Hash, deliveredHash(k, why, personID, rec.Epoch, code))
	}) {
		return nil, person.ErrMismatch
	}
	return func(tx storage.Tx) (bool, error) {
		now, err := deliveredCodes.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		if err != nil || !hmac.Equal(now.Hash, rec.Hash) {
			return false, err
		}
		return true, deliveredCodes.Delete(tx, key)
	}, nil
}
