package enrol

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// invitation is an invitation as the browser that has its link sees it.
type invitation struct {
	token string // of the link
	id    string // of the person
	rec   person.Record
	prof  person.ProfileRecord
	inv   invitationRecord
	units *config.Units
	csrf  string // of the forms of its pages in this browser
}

// readInvitation returns the invitation of a link, or proof.ErrNoLink when it is no good any more.
func (s *Service) readInvitation(tx storage.Tx, token string, now time.Time) (*invitation, error) {
	link, err := s.proof.ReadLink(tx, LinkInvitation, token, now)
	if err != nil {
		return nil, err
	}
	x := &invitation{token: token, id: link.PersonID}
	if x.units, err = s.units(tx); err != nil {
		return nil, err
	}
	if x.rec, err = person.Records.Get(tx, x.id); err == nil {
		x.inv, err = invitations.Get(tx, x.id)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && (x.rec.State != person.Invited || !x.units.Features.AcceptingInvitationEnabled) {
		return nil, proof.ErrNoLink
	}
	if err != nil {
		return nil, err
	}
	x.prof, err = person.ReadProfile(tx, x.id, &x.rec)
	return x, err
}

// invitationWay is a way in which an invited person shows that they are meant.
type invitationWay struct {
	name string
	on   func(*config.InvitationVerificationRequired) bool
	// can tells whether the person can do it.
	can func(s *Service, x *invitation) bool
	// check returns person.ErrMismatch for a wrong answer, otherwise what uses a code up; that is false when another request was faster.
	check func(ctx context.Context, s *Service, x *invitation, browser, answer string) (spend func(storage.Tx) (bool, error), err error)
}

// The ways, as their names stand in forms and messages.
var invitationWays = []*invitationWay{
	{
		name: "birthdate",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaBirthdateEnabled },
		can:  func(_ *Service, x *invitation) bool { return x.prof.Profile.DateOfBirth != "" },
		check: func(_ context.Context, _ *Service, x *invitation, _, answer string) (func(storage.Tx) (bool, error), error) {
			known := x.prof.Profile.DateOfBirth
			if known == "" || subtle.ConstantTimeCompare([]byte(known), []byte(strings.TrimSpace(answer))) != 1 {
				return nil, person.ErrMismatch
			}
			return nil, nil //nolint:nilnil // there is nothing to use up
		},
	},
	{
		name: "sms",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaSMSEnabled },
		can: func(s *Service, x *invitation) bool {
			number, _ := x.number()
			return s.person.SendsTexts(x.units) && number != ""
		},
		check: func(ctx context.Context, s *Service, x *invitation, browser, answer string) (func(storage.Tx) (bool, error), error) {
			return s.proof.CheckCode(ctx, x.textedTo(browser), answer)
		},
	},
	{
		name: "code",
		on:   func(v *config.InvitationVerificationRequired) bool { return v.ViaExternallyDeliveredCodeEnabled },
		can:  func(*Service, *invitation) bool { return true }, // it may be on its way
		check: func(ctx context.Context, s *Service, x *invitation, _, answer string) (func(storage.Tx) (bool, error), error) {
			return s.proof.CheckDeliveredCode(ctx, proof.DeliveredInvitation, x.id, answer)
		},
	},
}

// InvitationDelivery are the terms of codes for invited persons.
func InvitationDelivery(_ storage.Tx, _ string, rec *person.Record, u *config.Units) (proof.DeliveredTerms, error) {
	switch f := &u.Features; {
	case !f.AcceptingInvitationEnabled || !f.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled:
		return proof.DeliveredTerms{}, proof.ErrCodesOff
	case rec.State != person.Invited:
		return proof.DeliveredTerms{}, &person.StateError{State: rec.State}
	default:
		return proof.DeliveredTerms{Life: invitationLife, Every: ofSeconds(f.PersonActivation.ExternallyDeliveredCode.ResendCodeMinimumPeriod)}, nil
	}
}

// required tells whether the person has to show that they are meant.
func (x *invitation) required() bool {
	for _, way := range invitationWays {
		if way.on(&x.units.Features.InvitationVerificationRequired) {
			return true
		}
	}
	return false
}

// ways are those that are switched on and that the person can take.
func (s *Service) invitationWays(x *invitation) (out []*invitationWay) {
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
func (x *invitation) shown(browser string) bool {
	switch {
	case !x.required():
		return true
	case browser == "" || x.inv.Browser != browser:
		return false
	}
	return !x.inv.Skipped || x.units.Features.AllowSignUpWithoutInvitationValidation
}

// locked tells whether no more answers are taken of this browser.
func (x *invitation) locked(browser string) bool {
	return x.inv.Tries >= invitationTries && !x.shown(browser)
}

// tryInvitation counts an answer before it is looked at, and writes down that the browser has shown what it had to. errLocked: no more answers are
// taken. person.ErrMismatch: the answer is wrong.
func (s *Service) tryInvitation(ctx context.Context, by event.Actor, token, browser string, way *invitationWay, answer string) error {
	ev, err := s.person.NewEvents(by.Origin, invitationRefused, invitationLocked)
	if err != nil {
		return err
	}
	now := s.now()
	var x *invitation
	err = s.store.Update(ctx, func(tx storage.Tx) (err error) {
		if x, err = s.readInvitation(tx, token, now); err != nil {
			return err
		}
		if x.inv.Tries >= invitationTries {
			return errLocked
		}
		if findWay(s.invitationWays(x), way.name) == nil { // switched off meanwhile
			return person.ErrMismatch
		}
		x.inv.Tries++
		return putInvitation(tx, x)
	})
	if err != nil {
		return err
	}
	spend, err := way.check(ctx, s, x, browser, answer)
	if err != nil && !errors.Is(err, person.ErrMismatch) {
		return err
	}
	wrong, failed := err != nil, false
	err = s.store.Update(ctx, func(tx storage.Tx) error {
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
		err = person.ErrMismatch
	}
	return err
}

// skipInvitation writes down that the browser goes on without, where that is allowed; otherwise person.ErrMismatch.
func (s *Service) skipInvitation(ctx context.Context, token, browser string) error {
	now := s.now()
	return s.store.Update(ctx, func(tx storage.Tx) error {
		x, err := s.readInvitation(tx, token, now)
		if err != nil {
			return err
		}
		if !x.units.Features.AllowSignUpWithoutInvitationValidation {
			return person.ErrMismatch
		}
		x.inv.Browser, x.inv.Skipped = browser, true
		return putInvitation(tx, x)
	})
}

func putInvitation(tx storage.Tx, x *invitation) error {
	return invitations.Put(tx, x.id, x.inv, x.inv.ExpiresAt.Add(session.CollectAfter))
}
