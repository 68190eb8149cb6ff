package activation

import (
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

const activationReason = "by a delivered code"

// activationTerms are the terms of delivered codes that activate persons.
func activationTerms(_ storage.Tx, _ string, rec *person.Record, u *settings.Units) (challenge.DeliveredTerms, error) {
	a := &u.Features.PersonActivation
	switch {
	case !a.Enabled || a.Type != person.ActivationByCode:
		return challenge.DeliveredTerms{}, challenge.ErrCodesOff
	case rec.State != person.Inactive:
		return challenge.DeliveredTerms{}, &person.StateError{State: rec.State}
	}
	c := &a.ExternallyDeliveredCode
	return challenge.DeliveredTerms{
		Life:  time.Duration(a.ExpirationTime) * time.Second,
		After: time.Duration(c.UnavailabilityTime) * time.Second,
		Every: time.Duration(c.ResendCodeMinimumPeriod) * time.Second,
	}, nil
}

// activateByCode makes the person active and redirects: signed in, if the settings say that the first sign-in does
// both. person.ErrMismatch: the code is wrong or has ended.
func (s *Service) activateByCode(q *webflow.Request, x *activation, code string) error {
	personID, from := x.flow.Activating.PersonID, s.deps.Origin(q.Request)
	spend, err := s.deps.Proof.CheckDeliveredCode(q.Context(), challenge.DeliveredActivation, personID, code)
	if errors.Is(err, person.ErrMismatch) {
		return errors.Join(s.recordFailure(q, x), person.ErrMismatch)
	}
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(from, person.EventActivated)
	if err != nil {
		return err
	}
	done := audit.Actor{ID: personID, Name: x.person.Username, Origin: from}.Fill(ev[0], personID, activationReason)
	activate := func(tx storage.Tx, now time.Time) (person.Record, error) {
		if err := s.refreshActivation(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, errors.Join(err, person.ErrMismatch)
		}
		return s.deps.Person.Activate(tx, personID, x.person, done, now)
	}
	if x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled {
		if err := s.deps.Front.AdmitNew(q.W, q.Request, x.flow, personID, "", activate); err != nil {
			return err
		}
		return s.deps.Front.Finish(q, x.id, x.flow)
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		_, err := activate(tx, now)
		return err
	})
	if err != nil {
		return err
	}
	if to := afterActivation(x.units); to != "" {
		return q.LeaveTo(to)
	}
	return q.Redirect(activatedPath + "?" + url.Values{"flow": {x.id}}.Encode())
}

// recordFailure appends the event of a wrong code.
func (s *Service) recordFailure(q *webflow.Request, x *activation) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), activationFailed)
	if err != nil {
		return err
	}
	e := ev[0]
	e.PersonID, e.ClientID, e.Ref = x.flow.Activating.PersonID, x.flow.Demand.Client.ID, denial.RefOf(q.Context())
	e.Partition = x.person.PartitionName()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error { return s.deps.Events.Append(tx, e) })
}

// logRefusal logs a wrong code of an activation.
func (s *Service) logRefusal(q *webflow.Request, x *activation) {
	s.deps.Front.Refuse(q, denial.Refusal{Where: denial.Page, Reason: denial.WrongCode, PersonID: x.flow.Activating.PersonID}, nil)
}
