package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// stepUpTries is how many wrong answers in a row a person has before the first wait. A password that is right does not set them back: who has
// stolen it would try without end.
const stepUpTries = 5

// counter is what the tries of all methods are held against. A method that is weaker than another one of the person gives back its own try alone: whoever
// has that one would try the other without end.
func (st *standing) counter(person string, m *stepUpMethod) counter {
	return counter{storage.Key("step-up", person), stepUpTries, m.level(st.units) >= st.reach()}
}

// tryStepUp counts an answer, looks at it and raises the session. wait is how long no answer is taken; errMismatch: it is wrong.
func (s *Service) tryStepUp(w http.ResponseWriter, r *http.Request, f flowRecord, m *stepUpMethod, t *stepUpTry) (wait time.Duration, err error) {
	ctx, from := r.Context(), s.Origin(r)
	a := account{id: t.si.session.PersonID, person: t.si.person}
	at, err := s.countTry(ctx, a, t.si.person.Username, whence{address: from.ClientIP, device: hashed(s.device(r))},
		t.counter)
	if err != nil {
		return 0, err
	}
	if at.wait > 0 {
		s.Log.Info("step-up not taken: too many tries", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		return at.wait, nil
	}
	spend, err := m.check(ctx, s, t)
	if err == nil {
		err = s.raise(w, r, raising{si: t.si, method: m, passkey: t.passkey, attempt: &at, client: f.Demand.Client.ID, spend: spend})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.Log.Info("step-up refused", zap.String("person_id", a.id), zap.String("method", m.name), zap.String("client_ip", from.ClientIP))
		return 0, cmpErr(s.stepUpRefused(ctx, r, f, m, t.si, at), errMismatch)
	case err != nil:
		s.notEvaluated(ctx, at)
	}
	return 0, err
}

// cmpErr returns the first error there is.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// stepUpRefused writes the events of a wrong answer.
func (s *Service) stepUpRefused(ctx context.Context, r *http.Request, f flowRecord, m *stepUpMethod, si *signedIn, at attempt) error {
	ev, err := s.newEvents(s.Origin(r), stepUpFailed, loginThrottled)
	if err != nil {
		return err
	}
	if !at.exhausted {
		ev = ev[:1]
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		for _, e := range ev {
			e = si.own(e, m.name)
			e.ClientID = f.Demand.Client.ID
			if err := s.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// raising is what raises a session.
type raising struct {
	si      *signedIn
	method  *stepUpMethod
	passkey string   // id of the passkey that it is. Empty: it is none
	attempt *attempt // given back. nil: nothing was counted
	client  string
	// setUp says that the method is one that the person has made just now. That shows nothing of who they are: it is no sign-in, and auth_time stays.
	setUp bool
	// spend is as stepUpMethod says. It may write more.
	spend func(tx storage.Tx, own *stepUpRecord) (bool, error)
}

// raise gives the browser's session the level of a method, under a new cookie. errMismatch: what was checked holds no more.
func (s *Service) raise(w http.ResponseWriter, r *http.Request, up raising) error {
	token, err := secret.NewToken(s.Random, secret.Session)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(s.Origin(r), stepUpSucceeded)
	if err != nil {
		return err
	}
	now, old := s.Now(), hashed(s.jar.Get(r, kindSession))
	var rec sessionRecord
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		open, err := s.open(tx, old, now)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && open.id != up.si.id) {
			return errMismatch // signed out meanwhile
		}
		if err != nil {
			return err
		}
		if err := s.spend(tx, open, up); err != nil {
			return err
		}
		u, err := s.Units(tx)
		if err != nil {
			return err
		}
		rec = open.session
		rec.Opened, rec.Seen = rec.opened(), now // the session ends when it would have ended
		if !up.setUp {
			rec.AuthTime, rec.Unproven = now, false
		}
		rec.raise(up.method.name, up.passkey, up.method.level(u))
		if up.attempt != nil {
			if err := s.giveBack(tx, *up.attempt, true, now); err != nil {
				return err
			}
		}
		if _, _, err := s.begin(tx, open.id, token, old, rec); err != nil {
			return err
		}
		e := open.own(ev[0], up.method.name)
		e.ClientID = up.client
		return s.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.setSession(w, token, rec, now)
	return nil
}

// setSession sets the new cookie of a session that goes on.
func (s *Service) setSession(w http.ResponseWriter, token string, rec sessionRecord, now time.Time) {
	var life time.Duration
	if rec.Remembered {
		life = max(s.ends(rec).Sub(now), time.Second)
	}
	s.jar.Set(w, kindSession, token, life)
}

// spend uses up what was checked and remembers the method as the one that the person likes.
func (s *Service) spend(tx storage.Tx, open *signedIn, up raising) error {
	own, err := readStepUp(tx, open.session.PersonID)
	if err != nil {
		return err
	}
	ok, err := up.spend(tx, &own)
	if err == nil && !ok {
		err = errMismatch
	}
	if err != nil {
		return err
	}
	if up.method != &recoveryMethod && !(own.Fixed && own.Preferred != "") {
		own.Preferred = up.method.name
	}
	return putStepUp(tx, open.session.PersonID, own)
}
