package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CheckPassword signs a person in for a client that has asked for the password itself: without a browser, so without a session. It shares
// the throttle of the sign-in page and costs the same whoever exists. login.ErrBadCredentials, *login.ThrottledError, secret.ErrBusy, and a
// *login.Refusal while passwords sign nobody in.
func (s *Service) CheckPassword(ctx context.Context, clientID, username, password string, from event.Origin) (*login.Session, error) {
	if err := s.Front.PasswordTaken(ctx); err != nil {
		return nil, err
	}
	switch u, err := s.Person.Settings(ctx); {
	case err != nil:
		return nil, err
	case u.RequiredLevel(clientID) > session.PasswordLevel: // nobody can be stepped up without a page
		return nil, &login.Refusal{Code: "access_denied", Reason: "the application needs a higher authentication level than a password"}
	}
	username = strings.TrimSpace(username)
	a, err := s.Person.LookUp(ctx, username)
	if err != nil {
		return nil, err
	}
	at, err := s.Proof.BeginAttempt(ctx, a, username, proof.Origin{Address: from.ClientIP}) // there is no browser that could be known
	if err != nil {
		return nil, err
	}
	if at.Wait > 0 {
		s.log.Info("sign-in not taken: too many tries", zap.String("person_id", a.ID), zap.String("client_ip", from.ClientIP))
		return nil, &login.ThrottledError{Wait: at.Wait}
	}
	fresh, err := s.Person.Verify(ctx, a, password)
	if err == nil {
		var si *login.Session
		if si, err = s.passed(ctx, clientID, a, at, fresh, from); err == nil {
			return si, nil
		}
	}
	if !errors.Is(err, person.ErrMismatch) {
		s.Proof.NotEvaluated(ctx, at)
		return nil, err
	}
	s.log.Info("sign-in refused", zap.String("person_id", a.ID), zap.String("client_ip", from.ClientIP))
	if err := s.Proof.Failed(ctx, clientID, a, at, from); err != nil {
		return nil, err
	}
	return nil, login.ErrBadCredentials
}

// passed writes what a good password leaves behind, when what was verified still holds.
func (s *Service) passed(ctx context.Context, clientID string, a person.Holder, at proof.Attempt, fresh string, from event.Origin) (*login.Session, error) {
	ev, err := s.Person.NewEvents(from, front.LoginSucceeded)
	if err != nil {
		return nil, err
	}
	now := s.now()
	si := &login.Session{Result: login.Result{
		Subject: a.ID, AuthTime: now, Level: session.PasswordLevel, AMR: []string{"DEFAULT"}, Provider: session.LocalProvider,
	}, Seen: now}
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := a.Unchanged(tx)
		if err != nil {
			return err
		}
		si.Epoch = p.Epoch
		if fresh != "" {
			if err := person.Passwords.Put(tx, a.ID, person.PasswordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.Proof.Undo(tx, at, true, now); err != nil {
			return err
		}
		e := ev[0]
		e.PersonID, e.Actor, e.AgentUser, e.ClientID = a.ID, a.ID, p.Username, clientID
		return s.events.Append(tx, e)
	})
	if err != nil {
		return nil, err
	}
	return si, nil
}
