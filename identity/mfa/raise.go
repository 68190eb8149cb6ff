package mfa

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// triesBeforeWait is the number of wrong answers in a row before the first wait. A right password does not reset the
// count: otherwise a stolen one would give tries without end.
const triesBeforeWait = 5

// counter returns the counter of the attempts of all methods. Success with a method that is weaker than another one of
// the person resets only its own attempt; otherwise it could be used to retry a stronger one forever.
func (st *Standing) counter(personID string, m *Method) challenge.Counter {
	return challenge.Counter{Key: storage.Key("step-up", personID), Limit: triesBeforeWait, Clears: m.Level(st.Units) >= st.reach()}
}

// beginAttempt counts an attempt by a method.
func (s *Service) beginAttempt(q *webflow.Request, x *stepUp, m *Method) (challenge.Attempt, error) {
	personID, from := q.SignIn.Session.PersonID, s.deps.Origin(q.Request)
	origin := challenge.Source{Address: from.ClientIP, Device: challenge.Hashed(s.deps.Session.DeviceToken(q.Request))}
	return s.deps.Proof.BeginAttempt(q.Context(), person.Holder{ID: personID, Person: q.SignIn.Person}, q.SignIn.Person.Username, origin,
		x.standing.counter(personID, m))
}

// tryAnswer counts an answer, verifies it and raises the session. It returns how long no answer is accepted, and
// person.ErrMismatch for a wrong answer.
func (s *Service) tryAnswer(q *webflow.Request, a *response) (wait time.Duration, err error) {
	ctx := q.Context()
	at, err := s.beginAttempt(q, a.stepUp, a.method)
	if err != nil {
		return 0, err
	}
	if at.Wait > 0 {
		s.deps.Front.Refuse(q, denial.Refusal{
			Where: denial.StepUp, Reason: denial.Throttled, By: a.method.Name,
			ClientID: a.stepUp.flow.Demand.Client.ID,
		}, nil)
		return at.Wait, nil
	}
	spend, err := a.method.check(ctx, s, a)
	if err == nil {
		err = s.raise(q, gain{
			method: a.method, passkey: a.passkey, attempt: &at, client: a.stepUp.flow.Demand.Client.ID,
			back: a.stepUp.flow.Demand.Return, spend: spend,
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		why := denial.Refusal{Where: denial.StepUp, Reason: denial.WrongCode, By: a.method.Name, ClientID: a.stepUp.flow.Demand.Client.ID}
		if a.method == &passkeyMethod {
			why.Reason = denial.PasskeyRefused
		}
		s.deps.Front.Refuse(q, why, err)
		return 0, cmp.Or(s.recordFailure(ctx, a, at), person.ErrMismatch)
	case err != nil:
		s.deps.Proof.NotEvaluated(ctx, at)
	}
	return 0, err
}

// recordFailure writes the events of a wrong answer.
func (s *Service) recordFailure(ctx context.Context, a *response, at challenge.Attempt) error {
	ev, err := s.deps.Person.NewEvents(a.from, stepUpFailed, challenge.LoginThrottled)
	if err != nil {
		return err
	}
	if !at.Exhausted {
		ev = ev[:1]
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		for _, e := range ev {
			e = a.signIn.OwnEvent(e, a.method.Name)
			e.ClientID, e.Ref = a.stepUp.flow.Demand.Client.ID, denial.RefOf(ctx)
			if err := s.deps.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// gain is the proof that raises a session.
type gain struct {
	method  *Method
	passkey string             // id of the passkey that was used. Empty: none was
	attempt *challenge.Attempt // to undo. nil: none was counted
	client  string
	back    string // Return of the demand that the method was used for
	// setUp says that the person has just set up the method. That proves nothing about who they are, so it is no sign-in
	// and auth_time stays.
	setUp bool
	spend spender // it may write more
}

// raise gives the session of the request the level of a method, under a new cookie. person.ErrMismatch: what was
// verified is no longer valid.
func (s *Service) raise(q *webflow.Request, g gain) error {
	token, err := secret.NewToken(s.deps.Random, secret.Session)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpSucceeded)
	if err != nil {
		return err
	}
	now, old := s.deps.Now(), challenge.Hashed(s.deps.Jar.Get(q.Request, session.CookieSession))
	var rec session.Record
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		open, err := s.deps.Session.Open(tx, old, now)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && open.ID != q.SignIn.ID) {
			return person.ErrMismatch // signed out meanwhile
		}
		if err != nil {
			return err
		}
		if err := spendAnswer(tx, open, g, now); err != nil {
			return err
		}
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		rec = open.Session
		rec.Opened, rec.Seen = rec.OpenedAt(), now // the session ends when it would have ended
		var used time.Time
		if g.setUp {
			if err := s.deps.Session.FactorChanged(tx, rec.PersonID); err != nil {
				return err
			}
		} else {
			used, rec.AuthTime, rec.Unproven, rec.RaisedFor = now, now, false, secret.Hash(g.back)
		}
		rec.Raise(g.method.Name, g.passkey, g.method.Level(u), used)
		if g.attempt != nil {
			if err := s.deps.Proof.Undo(tx, *g.attempt, true, now); err != nil {
				return err
			}
		}
		if _, _, err := s.deps.Session.Begin(tx, open.ID, token, old, rec); err != nil {
			return err
		}
		e := open.OwnEvent(ev[0], g.method.Name)
		e.ClientID = g.client
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	if !g.setUp {
		s.deps.Front.Raised(q, denial.Entry{ClientID: g.client, By: g.method.Name, Level: rec.Level})
	}
	s.deps.Session.SetCookie(q.W, token, rec, now)
	return nil
}

// use notes when a method was used that has no record of its own.
func (r *Record) use(m *Method, now time.Time) {
	if m != &pushMethod && m != &smsMethod && m != &emailMethod {
		return
	}
	if r.Used == nil {
		r.Used = map[string]time.Time{}
	}
	r.Used[m.Name] = now
}

// spendAnswer spends what was verified, and remembers the method as the one that the person used last.
func spendAnswer(tx storage.Tx, open *session.Current, g gain, now time.Time) error {
	own, err := readRecord(tx, open.Session.PersonID)
	if err != nil {
		return err
	}
	ok, err := g.spend(tx, &own)
	if err == nil && !ok {
		err = person.ErrMismatch
	}
	if err != nil {
		return err
	}
	if g.method != &recoveryMethod && !(own.Fixed && own.Preferred != "") {
		own.Preferred = g.method.Name
	}
	if !g.setUp {
		own.use(g.method, now)
	}
	return putRecord(tx, open.Session.PersonID, own)
}
