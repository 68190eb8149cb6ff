package mfa

import (
	"context"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// deliveredMethod is a code that is delivered outside Gatehouse: by letter, by telephone, at a desk.
var deliveredMethod = Method{
	Name: session.MethodDelivered, given: true, request: requestCode,
	Level: func(u *settings.Units) int {
		if !codesEnabled(u) {
			return 0
		}
		return u.StepUp.AuthenticationMethods.ExternallyDeliveredCodeAuthenticationLevel
	},
	has: func(storage.Tx, *session.Current, *Record) (bool, error) { return true, nil },
	check: func(ctx context.Context, s *Service, a *response) (spender, error) {
		spend, err := s.deps.Proof.CheckDeliveredCode(ctx, challenge.DeliveredStepUp, a.signIn.Session.PersonID, a.code)
		if err != nil {
			return nil, err
		}
		return func(tx storage.Tx, _ *Record) (bool, error) { return spend(tx) }, nil
	},
}

// codesEnabled reports whether people step up with delivered codes.
func codesEnabled(u *settings.Units) bool { return u.Features.ExternallyDeliveredCodeStepUp.Enabled }

// StepUpDelivery returns the terms of delivered codes for step-ups.
func StepUpDelivery(_ storage.Tx, _ string, rec *person.Record, u *settings.Units) (challenge.DeliveredTerms, error) {
	switch {
	case !codesEnabled(u):
		return challenge.DeliveredTerms{}, challenge.ErrCodesOff
	case rec.State != person.Active:
		return challenge.DeliveredTerms{}, &person.StateError{State: rec.State}
	}
	return challenge.DeliveredTerms{Life: time.Duration(u.Features.ExternallyDeliveredCodeStepUp.ExpirationTime) * time.Second}, nil
}

const (
	// codeRequestEvery is the interval at which a person can request a code: a stolen password must not be enough to
	// keep those who deliver codes busy.
	codeRequestEvery = 10 * time.Minute
	codeRequestMost  = 1
)

// requestCode tells the administrators, by an event, that a person is waiting for a code.
func requestCode(s *Service, q *webflow.Request, x *stepUp, m *Method) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), deliveredCodeRequested)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	var wait time.Duration
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		wait = 0
		key := storage.Key("code-asked", q.SignIn.Session.PersonID)
		last, err := s.deps.Proof.ReadFailures(tx, challenge.Counter{Key: key, Limit: codeRequestMost}, now)
		if err != nil {
			return err
		}
		if wait = last.Until.Sub(now); wait > 0 {
			return nil
		}
		rec := challenge.FailureRecord{Failures: codeRequestMost, First: now, Until: now.Add(codeRequestEvery)}
		if err := challenge.FailureRecords.Put(tx, key, rec, s.deps.Proof.CollectAt(rec)); err != nil {
			return err
		}
		e := q.SignIn.OwnEvent(ev[0], string(challenge.DeliveredStepUp))
		e.ClientID = x.flow.Demand.Client.ID
		return s.deps.Events.Append(tx, e)
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		in := web.StepUp{Problem: "problem.asked", Wait: webflow.RetryAfter(q.W, wait)}
		return s.stepUpPage(q, x, m, http.StatusTooManyRequests, in)
	}
	return q.Redirect(methodURL(x.id, m) + "&asked=1")
}
