package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/storage"
)

// numberCheck is what the code is good for that a backend asks a person for: that number of that person, asked for by that API client.
func numberCheck(personID, number string, by Actor) codeFor {
	return codeFor{Purpose: "number of a backend", Subject: personID, Bound: by.ID, To: number, Limit: personID}
}

// checkedNumber returns what is known of a person one of whose telephone numbers is to be shown to be theirs. Errors: ErrNoPerson, ErrTextsOff,
// *StateError, *ValidationError.
func (s *Service) checkedNumber(tx storage.Tx, personID, number string) (told, error) {
	u, err := s.Units(tx)
	if err != nil {
		return told{}, err
	}
	if !s.sendsTexts(u) || !u.Features.MobileNumberValidationBackendServicesEnabled {
		return told{}, ErrTextsOff
	}
	rec, err := persons.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == Removed {
		return told{}, ErrNoPerson
	}
	if err != nil {
		return told{}, err
	}
	if rec.State == Blocked {
		return told{}, &StateError{rec.State}
	}
	prof, err := readProfile(tx, personID, &rec)
	if err != nil {
		return told{}, err
	}
	if !slices.ContainsFunc(prof.Profile.PhoneNumbers, func(n PhoneNumber) bool { return n.is(number) }) {
		return told{}, &ValidationError{"number", "is not one of the person's"}
	}
	return told{id: personID, rec: &rec, profile: &prof.Profile}, nil
}

// is tells whether the number, as it is stored, is the one of an international form.
func (n *PhoneNumber) is(number string) bool {
	own, ok := parsePhone(n.Value)
	return ok && own == number
}

// SendNumberCode sends a code to a telephone number of a person (id), for a backend that asks the person for it. It returns until when the code is good.
// Errors: ErrNoPerson, ErrTextsOff, *StateError, *ValidationError, *TooSoonError.
func (s *Service) SendNumberCode(ctx context.Context, personID, typed string, by Actor) (until time.Time, err error) {
	number, ok := parsePhone(typed)
	if !ok || !isID(personID) {
		return until, cmpErr(noPersonOf(personID), &ValidationError{"number", "is not a telephone number with the code of its country"})
	}
	code, err := newSentCode(s.Random)
	if err != nil {
		return until, err
	}
	ev, err := s.newEvents(by.Origin, numberCodeSent)
	if err != nil {
		return until, err
	}
	now := s.Now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		t, err := s.checkedNumber(tx, personID, number)
		if err != nil {
			return err
		}
		wait, err := s.sendCode(tx, numberCheck(personID, number, by), code, now, func(tx storage.Tx, code string) error {
			return s.textCode(tx, t, notify.SMSPhoneCode, number, code, now)
		})
		if err != nil {
			return err
		}
		if wait > 0 {
			return &TooSoonError{wait}
		}
		e := by.did(ev[0], personID, "")
		e.Partition = t.rec.partition()
		return s.Events.Append(tx, e)
	})
	return now.Add(sentCodeLife), err
}

// noPersonOf is ErrNoPerson for what is no id.
func noPersonOf(personID string) error {
	if !isID(personID) {
		return ErrNoPerson
	}
	return nil
}

// VerifyNumber takes the code that was sent to a number of a person (id), which is verified then. Errors: ErrNoPerson, ErrTextsOff, *StateError,
// *ValidationError, ErrWrongCode.
func (s *Service) VerifyNumber(ctx context.Context, personID, typed, code string, by Actor) error {
	number, ok := parsePhone(typed)
	if !ok || !isID(personID) {
		return cmpErr(noPersonOf(personID), &ValidationError{"number", "is not a telephone number with the code of its country"})
	}
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		_, err := s.checkedNumber(tx, personID, number)
		return err
	})
	if err != nil {
		return err
	}
	spend, err := s.checkCode(ctx, numberCheck(personID, number, by), code)
	if err == nil {
		_, err = s.UpdatePerson(ctx, personID, Edit{By: by, Verified: true}, func(tx storage.Tx, d *Details) error {
			if _, err := s.checkedNumber(tx, personID, number); err != nil {
				return err
			}
			if ok, err := spend(tx); err != nil || !ok {
				return errors.Join(err, errMismatch)
			}
			for i := range d.Profile.PhoneNumbers {
				if n := &d.Profile.PhoneNumbers[i]; n.is(number) {
					n.Verified = true
				}
			}
			return nil
		})
	}
	if errors.Is(err, errMismatch) {
		return ErrWrongCode
	}
	return err
}
