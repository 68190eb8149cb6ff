package stepup

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// deliveredMethod is a code that is delivered outside Gatehouse: by letter, by telephone, at a desk.
var deliveredMethod = Method{
	Name: session.MethodDelivered, given: true, request: requestCode,
	Level: func(u *config.Units) int {
		if !codesEnabled(u) {
			return 0
		}
		return u.StepUp.AuthenticationMethods.ExternallyDeliveredCodeAuthenticationLevel
	},
	has: func(storage.Tx, *session.Current, *Record) (bool, error) { return true, nil },
	check: func(ctx context.Context, s *Service, a *answer) (spender, error) {
		spend, err := s.proof.CheckDeliveredCode(ctx, proof.DeliveredStepUp, a.signIn.Session.PersonID, a.code)
		if err != nil {
			return nil, err
		}
		return func(tx storage.Tx, _ *Record) (bool, error) { return spend(tx) }, nil
	},
}

// codesEnabled tells whether people step up with delivered codes.
func codesEnabled(u *config.Units) bool { return u.Features.ExternallyDeliveredCodeStepUp.Enabled }

// StepUpDelivery returns the terms of delivered codes for step-ups.
func StepUpDelivery(_ storage.Tx, _ string, rec *person.Record, u *config.Units) (proof.DeliveredTerms, error) {
	switch {
	case !codesEnabled(u):
		return proof.DeliveredTerms{}, proof.ErrCodesOff
	case rec.State != person.Active:
		return proof.DeliveredTerms{}, &person.StateError{State: rec.State}
	}
	return proof.DeliveredTerms{Life: time.Duration(u.Features.ExternallyDeliveredCodeStepUp.ExpirationTime) * time.Second}, nil
}

const (
	// codeRequestEvery is how often a person can request a code: a stolen password must not be enough to keep those who
	// deliver codes busy.
	codeRequestEvery = 10 * time.Minute
	codeRequestMost  = 1
)

// requestCode tells the administrators, by an event, that a person is waiting for a code.
func requestCode(s *Service, q *front.Request, x *stepUp, m *Method) error {
	ev, err := s.person.NewEvents(s.origin(q.Request), deliveredCodeRequested)
	if err != nil {
		return err
	}
	now := s.now()
	var wait time.Duration
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
		wait = 0
		key := storage.Key("code-asked", q.SignIn.Session.PersonID)
		last, err := s.proof.ReadFailures(tx, proof.Counter{Key: key, Limit: codeRequestMost}, now)
		if err != nil {
			return err
		}
		if wait = last.Until.Sub(now); wait > 0 {
			return nil
		}
		rec := proof.FailureRecord{Failures: codeRequestMost, First: now, Until: now.Add(codeRequestEvery)}
		if err := proof.FailureRecords.Put(tx, key, rec, s.proof.CollectAt(rec)); err != nil {
			return err
		}
		e := q.SignIn.OwnEvent(ev[0], string(proof.DeliveredStepUp))
		e.ClientID = x.flow.Demand.Client.ID
		return s.events.Append(tx, e)
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		in := page.StepUp{Problem: "problem.asked", Wait: front.RetryAfter(q.W, wait)}
		return s.stepUpPage(q, x, m, http.StatusTooManyRequests, in)
	}
	return q.Redirect(methodURL(x.id, m) + "&asked=1")
}
