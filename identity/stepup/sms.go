package stepup

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SMSMethod is a code that comes by text message, to a number that is verified.
var SMSMethod = Method{
	Name: session.MethodSMS, setUp: front.SecurityPath + "/sms",
	needs: func(s *Service) bool { return s.sms != nil },
	Level: func(u *config.Units) int {
		if !u.Features.SMSEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.SMSAuthenticationLevel
	},
	has: func(tx storage.Tx, si *session.Current, own *Record) (bool, error) {
		if own.NoSMS {
			return false, nil
		}
		to, err := stepUpNumber(tx, si)
		return to != "", err
	},
	remove:  func(own *Record) { own.NoSMS = true },
	address: stepUpNumber, mask: person.MaskPhone,
	send: func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error {
		t, err := stepUpOwner(tx, si)
		if err != nil {
			return err
		}
		return s.person.TextCode(tx, t, notify.SMSStepUpCode, person.TextNumber(t.Profile), code, now)
	},
	check: checkStepUpCode,
}

// stepUpNumber returns where a person reads text messages, or "".
func stepUpNumber(tx storage.Tx, si *session.Current) (string, error) {
	t, err := stepUpOwner(tx, si)
	if err != nil {
		return "", err
	}
	return person.TextNumber(t.Profile), nil
}

func (s *Service) smsSection(tx storage.Tx, si *session.Current, st *Standing) (*page.SecuritySection, error) {
	if s.sms == nil || SMSMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	if Pick(st.Has, SMSMethod.Name) == nil {
		return &page.SecuritySection{Key: SMSMethod.Name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: SMSMethod.setUp}}}, nil
	}
	to, err := stepUpNumber(tx, si)
	return &page.SecuritySection{
		Key: SMSMethod.Name, State: "on", Fill: []any{"to", person.MaskPhone(to)}, Actions: []page.SecurityAction{{Label: "security.remove", URL: removeURL(&SMSMethod)}},
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
func numberCode(si *session.Current, number string) proof.CodePurpose {
	return proof.CodePurpose{Purpose: "step-up number", Subject: si.ID, Bound: si.ID, To: number, Limit: si.Session.PersonID}
}
