package challenge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// numberCheck is the purpose of a code that an API client asks a person for, to verify a number.
func numberCheck(personID, number string, by audit.Actor) CodePurpose {
	return CodePurpose{Purpose: "number of a backend", Subject: personID, Bound: by.ID, To: number, Limit: personID}
}

// checkedNumber returns a person who has the number and can verify it. Errors: person.ErrNoPerson, ErrTextsOff,
// *person.StateError, *person.ValidationError.
func (s *Service) checkedNumber(tx storage.Tx, personID, number string) (person.Recipient, error) {
	u, err := s.deps.Units(tx)
	if err != nil {
		return person.Recipient{}, err
	}
	if !s.deps.Person.SendsTexts(u) || !u.Features.MobileNumberValidationBackendServicesEnabled {
		return person.Recipient{}, ErrTextsOff
	}
	rec, err := person.Records.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == person.Removed {
		return person.Recipient{}, person.ErrNoPerson
	}
	if err != nil {
		return person.Recipient{}, err
	}
	if rec.State == person.Blocked {
		return person.Recipient{}, &person.StateError{State: rec.State}
	}
	prof, err := person.ReadProfile(tx, personID, &rec)
	if err != nil {
		return person.Recipient{}, err
	}
	if !slices.ContainsFunc(prof.Profile.PhoneNumbers, func(n person.PhoneNumber) bool { return n.Is(number) }) {
		return person.Recipient{}, &person.ValidationError{Field: "number", Problem: "is not one of the person's"}
	}
	return person.Recipient{ID: personID, Record: &rec, Profile: &prof.Profile}, nil
}

// SendNumberCode sends a code to a phone number of a person (id), for an API client that asks the person for it. It
// returns when the code expires. Errors: person.ErrNoPerson, ErrTextsOff, *person.StateError, *person.ValidationError,
// *TooSoonError.
func (s *Service) SendNumberCode(ctx context.Context, personID, typed string, by audit.Actor) (until time.Time, err error) {
	number, ok := person.ParsePhone(typed)
	if !ok || !person.IsID(personID) {
		return until, badNumber(personID)
	}
	code, err := NewSentCode(s.deps.Random)
	if err != nil {
		return until, err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, numberCodeSent)
	if err != nil {
		return until, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		t, err := s.checkedNumber(tx, personID, number)
		if err != nil {
			return err
		}
		wait, err := s.SendCode(tx, numberCheck(personID, number, by), code, now, func(tx storage.Tx, code string) error {
			return s.deps.Person.TextCode(tx, t, notify.SMSPhoneCode, number, code, now)
		})
		if err != nil {
			return err
		}
		if wait > 0 {
			return &TooSoonError{wait}
		}
		e := by.Fill(ev[0], personID, "")
		e.Partition = t.Record.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	return now.Add(person.SentCodeLife), err
}

// badNumber says that the id of a person is invalid, otherwise that the number is.
func badNumber(personID string) error {
	if !person.IsID(personID) {
		return person.ErrNoPerson
	}
	return &person.ValidationError{Field: "number", Problem: "is not a telephone number with the code of its country"}
}

// VerifyNumber checks the code that was sent to a phone number of a person (id), and marks the number as verified.
// Errors: person.ErrNoPerson, ErrTextsOff, *person.StateError, *person.ValidationError, ErrWrongCode.
func (s *Service) VerifyNumber(ctx context.Context, personID, typed, code string, by audit.Actor) error {
	number, ok := person.ParsePhone(typed)
	if !ok || !person.IsID(personID) {
		return badNumber(personID)
	}
	err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
		_, err := s.checkedNumber(tx, personID, number)
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := ratelimit.Outlast(ctx) // an attempt whose code is right must not stay counted
	defer cancel()
	spend, err := s.CheckCode(ctx, numberCheck(personID, number, by), code)
	if err == nil {
		_, err = s.deps.Person.UpdatePerson(ctx, personID, person.Edit{By: by, Verified: true}, func(tx storage.Tx, d *person.Details) error {
			if _, err := s.checkedNumber(tx, personID, number); err != nil {
				return err
			}
			if ok, err := spend(tx); err != nil || !ok {
				return errors.Join(err, person.ErrMismatch)
			}
			for i := range d.Profile.PhoneNumbers {
				if n := &d.Profile.PhoneNumbers[i]; n.Is(number) {
					n.Verified = true
				}
			}
			return nil
		})
	}
	if errors.Is(err, person.ErrMismatch) {
		return ErrWrongCode
	}
	return err
}
