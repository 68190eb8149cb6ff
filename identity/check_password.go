package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CheckPassword signs a person in for a client that has asked for the password itself: without a browser, so without a session. It shares
// the throttle of the sign-in page and costs the same whoever exists. login.ErrBadCredentials, *login.ThrottledError, secret.ErrBusy, and a
// *login.Refusal while passwords sign nobody in.
func (s *Service) CheckPassword(ctx context.Context, clientID, username, password string, from event.Origin) (*login.Session, error) {
	if err := s.passwordTaken(ctx); err != nil {
		return nil, err
	}
	switch u, err := s.configured(ctx); {
	case err != nil:
		return nil, err
	case u.RequiredLevel(clientID) > passwordLevel: // nobody can be stepped up without a page
		return nil, &login.Refusal{Code: "access_denied", Reason: "the application needs a higher authentication level than a password"}
	}
	username = strings.TrimSpace(username)
	a, err := s.lookUp(ctx, username)
	if err != nil {
		return nil, err
	}
	at, err := s.countTry(ctx, a, username, whence{address: from.ClientIP}) // there is no browser that could be known
	if err != nil {
		return nil, err
	}
	if at.wait > 0 {
		s.Log.Info("sign-in not taken: too many tries", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
		return nil, &login.ThrottledError{Wait: at.wait}
	}
	fresh, err := s.verify(ctx, a, password)
	if err == nil {
		var si *login.Session
		if si, err = s.passed(ctx, clientID, a, at, fresh, from); err == nil {
			return si, nil
		}
	}
	if !errors.Is(err, errMismatch) {
		s.notEvaluated(ctx, at)
		return nil, err
	}
	s.Log.Info("sign-in refused", zap.String("person_id", a.id), zap.String("client_ip", from.ClientIP))
	if err := s.failed(ctx, clientID, a, at, from); err != nil {
		return nil, err
	}
	return nil, login.ErrBadCredentials
}

// passed writes what a good password leaves behind, when what was verified still holds.
func (s *Service) passed(ctx context.Context, clientID string, a account, at attempt, fresh string, from event.Origin) (*login.Session, error) {
	ev, err := s.newEvents(from, loginSucceeded)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	si := &login.Session{Result: login.Result{
		Subject: a.id, AuthTime: now, Level: passwordLevel, AMR: []string{"DEFAULT"}, Provider: provider,
	}, Seen: now}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := a.unchanged(tx)
		if err != nil {
			return err
		}
		si.Epoch = p.Epoch
		if fresh != "" {
			if err := passwords.Put(tx, a.id, passwordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.giveBack(tx, at, true, now); err != nil {
			return err
		}
		e := ev[0]
		e.PersonID, e.Actor, e.AgentUser, e.ClientID = a.id, a.id, p.Username, clientID
		return s.Events.Append(tx, e)
	})
	if err != nil {
		return nil, err
	}
	return si, nil
}
