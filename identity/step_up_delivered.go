package identity

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// deliveredMethod is a code that somebody else brings to the person: by letter, by telephone, at a desk.
var deliveredMethod = stepUpMethod{
	name: methodDelivered, given: true, ask: askDelivered,
	level: func(u *config.Units) int {
		if !codesOn(u) {
			return 0
		}
		return u.StepUp.AuthenticationMethods.ExternallyDeliveredCodeAuthenticationLevel
	},
	has: func(storage.Tx, *signedIn, *stepUpRecord) (bool, error) { return true, nil },
	check: func(ctx context.Context, s *Service, t *stepUpTry) (func(storage.Tx, *stepUpRecord) (bool, error), error) {
		spend, err := s.checkDeliveredCode(ctx, deliveredStepUp, t.si.session.PersonID, t.code)
		if err != nil {
			return nil, err
		}
		return func(tx storage.Tx, _ *stepUpRecord) (bool, error) { return spend(tx) }, nil
	},
}

// codesOn tells whether persons step up by delivered codes: by the switch or by its deprecated one.
func codesOn(u *config.Units) bool {
	return u.Features.ExternallyDeliveredCodeStepUp.Enabled || u.Features.StepUpExternallyDeliveredCodeEnabled
}

// stepUpDelivery are the terms of codes for step-ups.
func stepUpDelivery(_ storage.Tx, _ string, rec *personRecord, u *config.Units) (deliveredTerms, error) {
	switch {
	case !codesOn(u):
		return deliveredTerms{}, ErrCodesOff
	case rec.State != Active:
		return deliveredTerms{}, &StateError{rec.State}
	}
	return deliveredTerms{Life: time.Duration(u.Features.ExternallyDeliveredCodeStepUp.ExpirationTime) * time.Second}, nil
}

const (
	askedEvery = 10 * time.Minute // of one person: whoever knows the password must not ring the bell of those who deliver
	askedFirst = 1
)

// askDelivered tells whoever keeps the persons, by an event, that a person waits for a code.
func askDelivered(s *Service, w http.ResponseWriter, r *http.Request, x steppingUp, m *stepUpMethod) {
	ev, err := s.newEvents(s.Origin(r), deliveredCodeAsked)
	now := s.Now()
	var wait time.Duration
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			wait = 0
			key := storage.Key("code-asked", x.si.session.PersonID)
			last, err := s.readFailures(tx, counter{key: key, limit: askedFirst}, now)
			if err != nil {
				return err
			}
			if wait = last.Until.Sub(now); wait > 0 {
				return nil
			}
			rec := failureRecord{Failures: askedFirst, First: now, Until: now.Add(askedEvery)}
			if err := failures.Put(tx, key, rec, s.forgets(rec)); err != nil {
				return err
			}
			e := x.si.own(ev[0], string(deliveredStepUp))
			e.ClientID = x.flow.Demand.Client.ID
			return s.Events.Append(tx, e)
		})
	}
	switch {
	case err != nil:
		s.fail(w, r, err, stepUpURL(x.id))
	case wait > 0:
		in := page.StepUp{Problem: "problem.asked", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, stepUpURL(x.id)+"&method="+m.name+"&asked=1")
	}
}
