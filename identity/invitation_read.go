package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/storage"
)

// invited is an invitation as the browser that has its link sees it.
type invited struct {
	token string // of the link
	id    string // of the person
	rec   personRecord
	prof  profileRecord
	inv   invitationRecord
	units *config.Units
	csrf  string // of the forms of its pages in this browser
}

// readInvitation returns the invitation of a link, or errNoLink when it is no good any more.
func (s *Service) readInvitation(tx storage.Tx, token string, now time.Time) (*invited, error) {
	link, err := s.readLink(tx, linkInvitation, token, now)
	if err != nil {
		return nil, err
	}
	x := &invited{token: token, id: link.PersonID}
	if x.units, err = s.Units(tx); err != nil {
		return nil, err
	}
	if x.rec, err = persons.Get(tx, x.id); err == nil {
		x.inv, err = invitations.Get(tx, x.id)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && (x.rec.State != Invited || !x.units.Features.AcceptingInvitationEnabled) {
		return nil, errNoLink
	}
	if err != nil {
		return nil, err
	}
	x.prof, err = readProfile(tx, x.id, &x.rec)
	return x, err
}

// invitationWay is a way in which an invited person shows that they are meant.
type invitationWay struct {
	name string
	on   func(*config.InvitationVerificationRequired) bool
	// can tells whether the person can do it.
	can func(s *Service, x *invited) bool
	// check returns errMismatch for a wrong answer, otherwise what uses a code up; that is false when another request was faster.
	check func(ctx context.Context, s *Service, x *invited, browser, answer string) (spend func(storage.Tx) (bool, error), err error)
}

// The ways, as their names stand in forms and messages.
var invitationWays = []*invitationWay{
	{
		name: "birthdate",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaBirthdateEnabled },
		can:  func(_ *Service, x *invited) bool { return x.prof.Profile.DateOfBirth != "" },
		check: func(_ context.Context, _ *Service, x *invited, _, answer string) (func(storage.Tx) (bool, error), error) {
			known := x.prof.Profile.DateOfBirth
			if known == "" || subtle.ConstantTimeCompare([]byte(known), []byte(strings.TrimSpace(answer))) != 1 {
				return nil, errMismatch
			}
			return nil, nil //nolint:nilnil // there is nothing to use up
		},
	},
	{
		name: "sms",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaSMSEnabled },
		can: func(s *Service, x *invited) bool {
			number, _ := x.number()
			return s.sendsTexts(x.units) && number != ""
		},
		check: func(ctx context.Context, s *Service, x *invited, browser, answer string) (func(storage.Tx) (bool, error), error) {
			return s.checkCode(ctx, x.textedTo(browser), answer)
		},
	},
	{
		name: "code",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaExternallyDeliveredCodeEnabled },
		can:  func(*Service, *invited) bool { return true }, // it may be on its way
		check: func(ctx context.Context, s *Service, x *invited, _, answer string) (func(storage.Tx) (bool, error), error) {
			return s.checkDeliveredCode(ctx, deliveredInvitation, x.id, answer)
		},
	},
}

// invitationDelivery are the terms of codes for invited persons.
func invitationDelivery(_ storage.Tx, _ string, rec *personRecord, u *config.Units) (deliveredTerms, error) {
	switch f := &u.Features; {
	case !f.AcceptingInvitationEnabled || !f.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled:
		return deliveredTerms{}, ErrCodesOff
	case rec.State != Invited:
		return deliveredTerms{}, &StateError{rec.State}
	default:
		return deliveredTerms{Life: invitationLife, Every: ofSeconds(f.PersonActivation.ExternallyDeliveredCode.ResendCodeMinimumPeriod)}, nil
	}
}

// required tells whether the person has to show that they are meant.
func (x *invited) required() bool {
	for _, way := range invitationWays {
		if way.on(&x.units.Features.InvitationVerificationRequired) {
			return true
		}
	}
	return false
}

// ways are those that are switched on and that the person can take.
func (s *Service) invitationWays(x *invited) (out []*invitationWay) {
	for _, way := range invitationWays {
		if way.on(&x.units.Features.InvitationVerificationRequired) && way.can(s, x) {
			out = append(out, way)
		}
	}
	return out
}

func findWay(ways []*invitationWay, name string) *invitationWay {
	for _, way := range ways {
		if way.name == name {
			return way
		}
	}
	return nil
}

// shown tells whether the invitation may be accepted in this browser (hash of its cookie).
func (x *invited) shown(browser string) bool {
	switch {
	case !x.required():
		return true
	case browser == "" || x.inv.Browser != browser:
		return false
	}
	return !x.inv.Skipped || x.units.Features.AllowSignUpWithoutInvitationValidation
}

// locked tells whether no more answers are taken of this browser.
func (x *invited) locked(browser string) bool {
	return x.inv.Tries >= invitationTries && !x.shown(browser)
}

// tryInvitation counts an answer before it is looked at, and writes down that the browser has shown what it had to. errLocked: no more answers are
// taken. errMismatch: the answer is wrong.
func (s *Service) tryInvitation(ctx context.Context, by Actor, token, browser string, way *invitationWay, answer string) error {
	ev, err := s.newEvents(by.Origin, invitationRefused, invitationLocked)
	if err != nil {
		return err
	}
	now := s.Now()
	var x *invited
	err = s.Store.Update(ctx, func(tx storage.Tx) (err error) {
		if x, err = s.readInvitation(tx, token, now); err != nil {
			return err
		}
		if x.inv.Tries >= invitationTries {
			return errLocked
		}
		if findWay(s.invitationWays(x), way.name) == nil { // switched off meanwhile
			return errMismatch
		}
		x.inv.Tries++
		return putInvitation(tx, x)
	})
	if err != nil {
		return err
	}
	spend, err := way.check(ctx, s, x, browser, answer)
	if err != nil && !errors.Is(err, errMismatch) {
		return err
	}
	wrong, failed := err != nil, false
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		after, err := s.readInvitation(tx, token, now)
		if err != nil {
			return err
		}
		failed = wrong
		if !failed && spend != nil {
			ok, err := spend(tx)
			if err != nil {
				return err
			}
			failed = !ok
		}
		if failed {
			happened := ev[:1]
			if x.inv.Tries >= invitationTries { // this one was the last
				happened = ev
			}
			return s.appendInvited(tx, after, by, way.name, happened...)
		}
		after.inv.Browser, after.inv.Skipped = browser, false
		if way.name == "sms" {
			_, after.inv.Number = x.number()
		}
		return putInvitation(tx, after)
	})
	if err == nil && failed {
		err = errMismatch
	}
	return err
}

// skipInvitation writes down that the browser goes on without, where that is allowed; otherwise errMismatch.
func (s *Service) skipInvitation(ctx context.Context, token, browser string) error {
	now := s.Now()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		x, err := s.readInvitation(tx, token, now)
		if err != nil {
			return err
		}
		if !x.units.Features.AllowSignUpWithoutInvitationValidation {
			return errMismatch
		}
		x.inv.Browser, x.inv.Skipped = browser, true
		return putInvitation(tx, x)
	})
}

func putInvitation(tx storage.Tx, x *invited) error {
	return invitations.Put(tx, x.id, x.inv, x.inv.ExpiresAt.Add(collectAfter))
}
