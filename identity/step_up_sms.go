package identity

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// smsMethod is a code that comes by text message, to a number that is verified.
var smsMethod = stepUpMethod{
	name: methodSMS, setUp: securityPath + "/sms",
	needs: func(s *Service) bool { return s.SMS != nil },
	level: func(u *config.Units) int {
		if !u.Features.SMSEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.SMSAuthenticationLevel
	},
	has: func(tx storage.Tx, si *signedIn, own *stepUpRecord) (bool, error) {
		if own.NoSMS {
			return false, nil
		}
		to, err := stepUpNumber(tx, si)
		return to != "", err
	},
	remove:  func(own *stepUpRecord) { own.NoSMS = true },
	address: stepUpNumber, mask: maskPhone,
	send: func(s *Service, tx storage.Tx, si *signedIn, code string, now time.Time) error {
		t, err := stepUpOwner(tx, si)
		if err != nil {
			return err
		}
		return s.textCode(tx, t, notify.SMSStepUpCode, textNumber(t.profile), code, now)
	},
	check: checkStepUpCode,
}

// stepUpNumber returns where a person reads text messages, or "".
func stepUpNumber(tx storage.Tx, si *signedIn) (string, error) {
	t, err := stepUpOwner(tx, si)
	if err != nil {
		return "", err
	}
	return textNumber(t.profile), nil
}

func (s *Service) smsSection(tx storage.Tx, si *signedIn, st *standing) (*page.SecuritySection, error) {
	if s.SMS == nil || smsMethod.level(st.units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	if pick(st.has, smsMethod.name) == nil {
		return &page.SecuritySection{Key: smsMethod.name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: smsMethod.setUp}}}, nil
	}
	to, err := stepUpNumber(tx, si)
	return &page.SecuritySection{
		Key: smsMethod.name, State: "on", Fill: []any{"to", maskPhone(to)}, Actions: []page.SecurityAction{{Label: "security.remove", URL: removeURL(&smsMethod)}},
	}, err
}

// newNumber returns the number that a session waits for a code at, or "".
func newNumber(tx storage.Tx, session string, now time.Time) (string, error) {
	rec, err := smsSetUps.Get(tx, session)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.ExpiresAt.After(now) {
		return "", nil
	}
	return rec.Number, err
}

// numberCode is what the code is good for that shows a number to be the person's own.
func numberCode(si *signedIn, number string) codeFor {
	return codeFor{Purpose: "step-up number", Subject: si.id, Bound: si.id, To: number, Limit: si.session.PersonID}
}
