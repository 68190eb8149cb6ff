package stepup

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// deliveredMethod is a code that somebody else brings to the person: by letter, by telephone, at a desk.
var deliveredMethod = Method{
	Name: session.MethodDelivered, given: true, ask: askDelivered,
	Level: func(u *config.Units) int {
		if !codesOn(u) {
			return 0
		}
		return u.StepUp.AuthenticationMethods.ExternallyDeliveredCodeAuthenticationLevel
	},
	has: func(storage.Tx, *session.Current, *Record) (bool, error) { return true, nil },
	check: func(ctx context.Context, s *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
		spend, err := s.proof.CheckDeliveredCode(ctx, proof.DeliveredStepUp, t.si.Session.PersonID, t.code)
		if err != nil {
			return nil, err
		}
		return func(tx storage.Tx, _ *Record) (bool, error) { return spend(tx) }, nil
	},
}

// codesOn tells whether persons step up by delivered codes: by the switch or by its deprecated one.
func codesOn(u *config.Units) bool {
	return u.Features.ExternallyDeliveredCodeStepUp.Enabled || u.Features.StepUpExternallyDeliveredCodeEnabled
}

// StepUpDelivery are the terms of codes for step-ups.
func StepUpDelivery(_ storage.Tx, _ string, rec *person.Record, u *config.Units) (proof.DeliveredTerms, error) {
	switch {
	case !codesOn(u):
		return proof.DeliveredTerms{}, proof.ErrCodesOff
	case rec.State != person.Active:
		return proof.DeliveredTerms{}, &person.StateError{State: rec.State}
	}
	return proof.DeliveredTerms{Life: time.Duration(u.Features.ExternallyDeliveredCodeStepUp.ExpirationTime) * time.Second}, nil
}

const (
	askedEvery = 10 * time.Minute // of one person: whoever knows the password must not ring the bell of those who deliver
	askedFirst = 1
)

// askDelivered tells whoever keeps the persons, by an event, that a person waits for a code.
func askDelivered(s *Service, w http.ResponseWriter, r *http.Request, x request, m *Method) {
	ev, err := s.person.NewEvents(s.origin(r), deliveredCodeAsked)
	now := s.now()
	var wait time.Duration
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			wait = 0
			key := storage.Key("code-asked", x.si.Session.PersonID)
			last, err := s.proof.ReadFailures(tx, proof.Counter{Key: key, Limit: askedFirst}, now)
			if err != nil {
				return err
			}
			if wait = last.Until.Sub(now); wait > 0 {
				return nil
			}
			rec := proof.FailureRecord{Failures: askedFirst, First: now, Until: now.Add(askedEvery)}
			if err := proof.FailureRecords.Put(tx, key, rec, s.proof.ClearFailures(rec)); err != nil {
				return err
			}
			e := x.si.OwnEvent(ev[0], string(proof.DeliveredStepUp))
			e.ClientID = x.flow.Demand.Client.ID
			return s.events.Append(tx, e)
		})
	}
	switch {
	case err != nil:
		s.front.Fail(w, r, err, URL(x.id))
	case wait > 0:
		in := page.StepUp{Problem: "problem.asked", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, URL(x.id)+"&method="+m.Name+"&asked=1")
	}
}
