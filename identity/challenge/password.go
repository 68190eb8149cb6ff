package challenge

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TypedPassword is a password that was entered to sign in.
type TypedPassword struct {
	Username, Password string
	Client             string // id of the application that asked for the sign-in, for events
	// Activates says that the right password of a person who must be activated first is a *person.InactiveError.
	Activates bool
}

// ProvePassword counts the attempt and checks the password. The caller decides what a right one opens. An
// *authn.ThrottledError says how long no attempt is accepted. person.ErrMismatch is every refusal of the person, except
// that the right password of a person who is blocked is a *person.StateError, and the one that an untrusted actor has
// set for a person with a role in the admin console is person.ErrPlanted. All are logged here.
func (s *Service) ProvePassword(r *http.Request, c TypedPassword) (p RightPassword, err error) {
	ctx, from := r.Context(), s.deps.Origin(r)
	why := denial.Refusal{Where: denial.SignIn, Reason: denial.WrongPassword, By: "password", ClientID: c.Client}
	a, err := s.deps.Person.LookUp(ctx, c.Username)
	if err != nil {
		return p, err
	}
	device := s.deps.Session.DeviceToken(r)
	at, err := s.BeginAttempt(ctx, a, c.Username, Source{Address: from.ClientIP, Device: Hashed(device)})
	if err != nil {
		return p, err
	}
	if at.Wait == 0 {
		if err := s.Seek(ctx, &a, &at, Unknown{c.Username, c.Password, c.Client, from, device}); err != nil {
			s.NotEvaluated(ctx, at)
			return p, err
		}
	}
	if at.Wait > 0 {
		why.Reason = denial.Throttled
		s.refuse(ctx, why, a, from, nil)
		return p, &authn.ThrottledError{Wait: at.Wait}
	}
	fresh, err := s.deps.Person.Compare(ctx, s.deps.Hasher, a, c.Password)
	if err == nil && a.Person.State != person.Active {
		why.Reason = ReasonOf(a.Person.State)
	}
	switch {
	case err != nil || a.Person.State == person.Active:
	case a.Person.State == person.Blocked:
		err = &person.StateError{State: a.Person.State}
	case c.Activates:
		err = s.deps.Person.OfInactive(ctx, a)
	default:
		err = person.ErrMismatch
	}
	switch {
	case err == nil && a.SetBy != "" && s.deps.Person.HasRole(&a.Person):
		why.Reason = denial.PlantedPassword
		s.refuse(ctx, why, a, from, nil)
		return p, cmp.Or(s.refused(ctx, c.Client, a, at, from, "the password was set by "+a.SetBy), person.ErrPlanted)
	case errors.As(err, new(*person.StateError)):
		s.refuse(ctx, why, a, from, nil)
		return p, cmp.Or(s.refused(ctx, c.Client, a, at, from, "the account is blocked"), err)
	case errors.Is(err, person.ErrMismatch):
		s.refuse(ctx, why, a, from, err)
		if err := s.Failed(ctx, c.Client, a, at, from); err != nil {
			return p, err
		}
		return p, person.ErrMismatch
	case err != nil:
		s.NotEvaluated(ctx, at)
		return p, err
	}
	return RightPassword{Account: a, attempt: at, fresh: fresh, Device: device, From: from}, nil
}

// refuse records why an account is refused. An unknown name is not kept.
func (s *Service) refuse(ctx context.Context, why denial.Refusal, a person.Holder, from audit.Origin, cause error) {
	s.deps.Refusals.Refuse(ctx, s.deps.Log, About(why, a), cause, zap.String("client_ip", from.ClientIP))
}

// About completes a refusal by the account that it is about, which can be unknown.
func About(why denial.Refusal, a person.Holder) denial.Refusal {
	why.PersonID, why.Username = a.ID, a.Person.Username
	if a.ID == "" && why.Reason != denial.Throttled {
		why.Reason = denial.UnknownName
	}
	if why.Partition = a.Person.PartitionName(); why.Partition == audit.DefaultPartition {
		why.Partition = ""
	}
	return why
}

// ReasonOf is why a person in this state does not sign in, although the password is right.
func ReasonOf(state person.State) denial.Reason {
	if state == person.Inactive {
		return denial.PersonInactive
	}
	return denial.PersonBlocked
}

// NotEvaluated takes back an attempt whose password could not be checked. One that another server has refused stays
// counted: it was a guess there, whatever failed afterwards.
func (s *Service) NotEvaluated(ctx context.Context, at Attempt) {
	if at.Refused {
		return
	}
	now := s.deps.Now()
	if err := s.deps.Store.Update(ctx, func(tx storage.Tx) error { return s.Undo(tx, at, false, now) }); err != nil {
		s.deps.Log.Error("attempt not taken back", zap.Error(err))
	}
}

// refused writes the event of a right password that does not sign the person in, and takes back the attempt: it was no
// guess.
func (s *Service) refused(ctx context.Context, clientID string, a person.Holder, at Attempt, from audit.Origin, why string) error {
	ev, err := s.deps.Person.NewEvents(from, LoginFailed)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.Undo(tx, at, false, now); err != nil {
			return err
		}
		e := ev[0]
		e.PersonID, e.ClientID, e.Provider, e.Reason, e.Ref = a.ID, clientID, at.provider(), why, denial.RefOf(ctx)
		return s.deps.Events.Append(tx, e)
	})
}

// Failed writes the events of a refused sign-in.
func (s *Service) Failed(ctx context.Context, clientID string, a person.Holder, at Attempt, from audit.Origin) error {
	ev, err := s.deps.Person.NewEvents(from, LoginFailed, LoginThrottled)
	if err != nil {
		return err
	}
	if !at.Exhausted {
		ev = ev[:1]
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if at.Exhausted {
			if err := s.deps.Person.TellBlocked(tx, a, now); err != nil {
				return err
			}
		}
		for _, e := range ev {
			e.PersonID, e.ClientID, e.Provider, e.Ref = a.ID, clientID, at.provider(), denial.RefOf(ctx)
			if err := s.deps.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// RightPassword is a password that was right.
type RightPassword struct {
	Account person.Holder
	attempt Attempt
	fresh   string // hash at today's cost. Empty: it has that cost
	Device  string
	From    audit.Origin
}

// Confirm stores what follows from a right password and returns the person, or person.ErrMismatch if the person has
// changed since.
func (s *Service) Confirm(tx storage.Tx, p RightPassword, now time.Time) (person.Record, error) {
	rec, pw, err := p.Account.Unchanged(tx)
	if err != nil {
		return rec, err
	}
	if err := p.Account.Rehash(tx, pw, p.fresh); err != nil {
		return rec, err
	}
	if err := s.Undo(tx, p.attempt, true, now); err != nil {
		return rec, err
	}
	return rec, s.RememberDevice(tx, p.Account.ID, rec.Epoch, Hashed(p.Device), now)
}
