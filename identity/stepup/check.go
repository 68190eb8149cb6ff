package stepup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// stepUpTries is how many wrong answers in a row a person has before the first wait. A password that is right does not set them back: who has
// stolen it would try without end.
const stepUpTries = 5

// counter is what the tries of all methods are held against. A method that is weaker than another one of the person gives back its own try alone: whoever
// has that one would try the other without end.
func (st *Standing) counter(person string, m *Method) proof.Counter {
	return proof.Counter{Key: storage.Key("step-up", person), Limit: stepUpTries, Clears: m.Level(st.Units) >= st.reach()}
}

// tryStepUp counts an answer, looks at it and raises the session. wait is how long no answer is taken; person.ErrMismatch: it is wrong.
func (s *Service) tryStepUp(w http.ResponseWriter, r *http.Request, f front.FlowRecord, m *Method, t *answer) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.origin(r)
	a := person.Holder{ID: t.si.Session.PersonID, Person: t.si.Person}
	at, err := s.proof.BeginAttempt(ctx, a, t.si.Person.Username, proof.Origin{Address: from.ClientIP, Device: proof.Hashed(s.session.DeviceToken(r))},
		t.counter)
	if err != nil {
		return 0, err
	}
	if at.Wait > 0 {
		s.log.Info("step-up not taken: too many tries", zap.String("person_id", a.ID), zap.String("client_ip", from.ClientIP))
		return at.Wait, nil
	}
	spend, err := m.check(ctx, s, t)
	if err == nil {
		err = s.raise(w, r, raise{si: t.si, method: m, passkey: t.passkey, attempt: &at, client: f.Demand.Client.ID, spend: spend})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.log.Info("step-up refused", zap.String("person_id", a.ID), zap.String("method", m.Name), zap.String("client_ip", from.ClientIP))
		return 0, cmp.Or(s.stepUpRefused(ctx, r, f, m, t.si, at), person.ErrMismatch)
	case err != nil:
		s.proof.NotEvaluated(ctx, at)
	}
	return 0, err
}

// stepUpRefused writes the events of a wrong answer.
func (s *Service) stepUpRefused(ctx context.Context, r *http.Request, f front.FlowRecord, m *Method, si *session.Current, at proof.Attempt) error {
	ev, err := s.person.NewEvents(s.origin(r), stepUpFailed, proof.LoginThrottled)
	if err != nil {
		return err
	}
	if !at.Exhausted {
		ev = ev[:1]
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		for _, e := range ev {
			e = si.OwnEvent(e, m.Name)
			e.ClientID = f.Demand.Client.ID
			if err := s.events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// raise is what raises a session.
type raise struct {
	si      *session.Current
	method  *Method
	passkey string         // id of the passkey that it is. Empty: it is none
	attempt *proof.Attempt // given back. nil: nothing was counted
	client  string
	// setUp says that the method is one that the person has made just now. That shows nothing of who they are: it is no sign-in, and auth_time stays.
	setUp bool
	// spend is as Method says. It may write more.
	spend func(tx storage.Tx, own *Record) (bool, error)
}

// raise gives the browser's session the level of a method, under a new cookie. person.ErrMismatch: what was checked holds no more.
func (s *Service) raise(w http.ResponseWriter, r *http.Request, up raise) error {
	token, err := secret.NewToken(s.random, secret.Session)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpSucceeded)
	if err != nil {
		return err
	}
	now, old := s.now(), proof.Hashed(s.jar.Get(r, session.CookieSession))
	var rec session.Record
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		open, err := s.session.Open(tx, old, now)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && open.ID != up.si.ID) {
			return person.ErrMismatch // signed out meanwhile
		}
		if err != nil {
			return err
		}
		if err := s.spend(tx, open, up); err != nil {
			return err
		}
		u, err := s.units(tx)
		if err != nil {
			return err
		}
		rec = open.Session
		rec.Opened, rec.Seen = rec.OpenedAt(), now // the session ends when it would have ended
		if !up.setUp {
			rec.AuthTime, rec.Unproven = now, false
		}
		rec.Raise(up.method.Name, up.passkey, up.method.Level(u))
		if up.attempt != nil {
			if err := s.proof.Undo(tx, *up.attempt, true, now); err != nil {
				return err
			}
		}
		if _, _, err := s.session.Begin(tx, open.ID, token, old, rec); err != nil {
			return err
		}
		e := open.OwnEvent(ev[0], up.method.Name)
		e.ClientID = up.client
		return s.events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.session.SetSession(w, token, rec, now)
	return nil
}

// spend uses up what was checked and remembers the method as the one that the person likes.
func (s *Service) spend(tx storage.Tx, open *session.Current, up raise) error {
	own, err := readStepUp(tx, open.Session.PersonID)
	if err != nil {
		return err
	}
	ok, err := up.spend(tx, &own)
	if err == nil && !ok {
		err = person.ErrMismatch
	}
	if err != nil {
		return err
	}
	if up.method != &recoveryMethod && !(own.Fixed && own.Preferred != "") {
		own.Preferred = up.method.Name
	}
	return putStepUp(tx, open.Session.PersonID, own)
}
