package invitation

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// invitationWay is a way in which an invited person proves to be the right one.
type invitationWay struct {
	name string // in forms and messages
	on   func(*settings.InvitationVerificationRequired) bool
	// can reports whether it is possible for the person.
	can func(s *Service, x *invitation) bool
	// check returns person.ErrMismatch for a wrong answer, otherwise what uses up a code. spend is false when another
	// request was faster.
	check func(ctx context.Context, s *Service, x *invitation, answer string) (spend func(storage.Tx) (bool, error), err error)
}

func (w *invitationWay) url() string {
	return invitationCheckPath + "?" + url.Values{"way": {w.name}}.Encode()
}

var allWays = []*invitationWay{
	{
		name: "birthdate",
		on:   func(v *settings.InvitationVerificationRequired) bool { return v.ViaBirthdateEnabled },
		can:  func(_ *Service, x *invitation) bool { return x.prof.Profile.DateOfBirth != "" },
		check: func(_ context.Context, _ *Service, x *invitation, answer string) (func(storage.Tx) (bool, error), error) {
			known := x.prof.Profile.DateOfBirth
			if known == "" || subtle.ConstantTimeCompare([]byte(known), []byte(strings.TrimSpace(answer))) != 1 {
				return nil, person.ErrMismatch
			}
			return nil, nil //nolint:nilnil // there is nothing to use up
		},
	},
	{
		name: "sms",
		on:   func(v *settings.InvitationVerificationRequired) bool { return v.ViaSMSEnabled },
		can: func(s *Service, x *invitation) bool {
			number, _ := x.number()
			return s.deps.Person.SendsTexts(x.units) && number != ""
		},
		check: func(ctx context.Context, s *Service, x *invitation, answer string) (func(storage.Tx) (bool, error), error) {
			return s.deps.Proof.CheckCode(ctx, x.smsPurpose(x.browser), answer)
		},
	},
	{
		name: "code",
		on:   func(v *settings.InvitationVerificationRequired) bool { return v.ViaExternallyDeliveredCodeEnabled },
		can:  func(*Service, *invitation) bool { return true }, // the code can be on its way
		check: func(ctx context.Context, s *Service, x *invitation, answer string) (func(storage.Tx) (bool, error), error) {
			return s.deps.Proof.CheckDeliveredCode(ctx, challenge.DeliveredInvitation, x.id, answer)
		},
	},
}

// invitationTerms are the terms of delivered codes for invited persons.
func invitationTerms(_ storage.Tx, _ string, rec *person.Record, u *settings.Units) (challenge.DeliveredTerms, error) {
	switch f := &u.Features; {
	case !f.AcceptingInvitationEnabled || !f.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled:
		return challenge.DeliveredTerms{}, challenge.ErrCodesOff
	case rec.State != person.Invited:
		return challenge.DeliveredTerms{}, &person.StateError{State: rec.State}
	default:
		every := time.Duration(f.PersonActivation.ExternallyDeliveredCode.ResendCodeMinimumPeriod) * time.Second
		return challenge.DeliveredTerms{Life: invitationLife, Every: every}, nil
	}
}

// needsCheck reports whether the invitation can be accepted only after a check.
func (x *invitation) needsCheck() bool {
	for _, way := range allWays {
		if way.on(&x.units.Features.InvitationVerificationRequired) {
			return true
		}
	}
	return false
}

// waysOf returns the ways that are switched on and possible for the person.
func (s *Service) waysOf(x *invitation) (out []*invitationWay) {
	for _, way := range allWays {
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

// isChecked reports whether the invitation can be accepted in a browser (hash of its cookie).
func (x *invitation) isChecked(browser string) bool {
	switch {
	case !x.needsCheck():
		return true
	case browser == "" || x.inv.Browser != browser:
		return false
	}
	return !x.inv.Skipped || x.units.Features.AllowSignUpWithoutInvitationValidation
}

// isLocked reports whether no more answers are accepted from a browser.
func (x *invitation) isLocked(browser string) bool {
	return x.inv.Tries >= invitationTries && !x.isChecked(browser)
}

// checkAnswer counts an answer, then checks it, and stores that the browser has passed. errLocked: no more answers are
// accepted. person.ErrMismatch: the answer is wrong.
func (s *Service) checkAnswer(ctx context.Context, x *invitation, by audit.Actor, way *invitationWay, answer string) error {
	ev, err := s.deps.Person.NewEvents(by.Origin, invitationFailed, invitationLocked)
	if err != nil {
		return err
	}
	now, token, browser := s.deps.Now(), x.token, x.browser
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) (err error) {
		if x, err = s.readInvitation(tx, token, now); err != nil {
			return err
		}
		if x.inv.Tries >= invitationTries {
			return errLocked
		}
		if findWay(s.waysOf(x), way.name) == nil { // switched off meanwhile
			return person.ErrMismatch
		}
		x.inv.Tries++
		return putInvitation(tx, x)
	})
	if err != nil {
		return err
	}
	x.browser = browser
	spend, err := way.check(ctx, s, x, answer)
	wrong := errors.Is(err, person.ErrMismatch)
	if err != nil && !wrong {
		return err
	}
	failed := false
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
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
			if x.inv.Tries >= invitationTries { // this was the last one
				happened = ev
			}
			return s.appendEvents(tx, after.id, &after.rec, by, way.name, happened...)
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

// skipCheck stores that a browser continues without a check. person.ErrMismatch: that is not allowed.
func (s *Service) skipCheck(ctx context.Context, token, browser string) error {
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
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
