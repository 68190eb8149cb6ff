package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CheckPassword signs a person in for a client that has asked for the password itself: without a browser, so without a
// session. It shares the throttle of the sign-in page and costs the same for unknown people. authn.ErrBadCredentials,
// *authn.ThrottledError, secret.ErrBusy, authn.ErrSecondFactor for a person who has set one up, and a *authn.Refusal
// while passwords sign no one in.
func (s *Service) CheckPassword(ctx context.Context, clientID, username, password string, from audit.Origin) (*authn.Session, error) {
	return s.checkPassword(ctx, clientID, username, password, from, false)
}

// CheckPasswordOnly is CheckPassword for a client to which the password is enough, whatever the person has set up.
func (s *Service) CheckPasswordOnly(ctx context.Context, clientID, username, password string, from audit.Origin) (*authn.Session, error) {
	return s.checkPassword(ctx, clientID, username, password, from, true)
}

// checkPassword is CheckPassword. enough says that the password is enough for everyone.
func (s *Service) checkPassword(ctx context.Context, clientID, username, password string, from audit.Origin,
	enough bool,
) (*authn.Session, error) {
	lacks := s.StepUp.HasSecondFactor
	if enough {
		lacks = func(storage.Tx, *session.Current) (bool, error) { return false, nil }
	}
	u, err := s.Person.Settings(ctx)
	if err == nil {
		err = refusePasswords(u)
	}
	if err != nil {
		return nil, err
	}
	if !u.SignsInBy(clientID, settings.ProtocolOpenID) {
		return nil, refuseProtocol()
	}
	if u.RequiredLevel(clientID) > session.PasswordLevel { // a step-up needs a page
		return nil, &authn.Refusal{Code: "access_denied", Reason: "the application needs a higher authentication level than a password"}
	}
	if !enough && s.secondFactor(u, clientID, "") == authn.SecondFactorAlways {
		return nil, &authn.Refusal{Code: "access_denied", Reason: "the application needs a second step, which takes a page"}
	}
	if u.RequiredAssurance(clientID) > 0 {
		return nil, &authn.Refusal{Code: "access_denied", Reason: "the application needs to know who people are, which takes a page"}
	}
	var si *authn.Session
	err = s.tryPassword(ctx, passwordTry{
		client: clientID, username: strings.TrimSpace(username), password: password, origin: from,
		verify: func(ctx context.Context, a person.Holder) (string, error) { return s.Person.Verify(ctx, a, password) },
		accept: func(ctx context.Context, v verdict) (err error) {
			si, err = s.signInByPassword(ctx, clientID, v, from, lacks)
			return err
		},
	})
	if errors.Is(err, person.ErrPlanted) {
		return nil, &authn.Refusal{Code: "access_denied", Reason: "the password was set for the person, and has to be renewed"}
	}
	if err != nil {
		return nil, err
	}
	return si, nil
}

// refusePasswords returns a *authn.Refusal while a password signs no one in without a page.
func refusePasswords(u *settings.Units) error {
	if u.Features.LoginEnabled && u.PasswordLogin() {
		return nil
	}
	return &authn.Refusal{Code: "access_denied", Reason: "signing in is switched off"}
}

// passwordTry is a password that a client has been given, and what to do with it.
type passwordTry struct {
	client             string
	username, password string
	origin             audit.Origin
	many               bool // the client sends the passwords of many people from one address

	verify func(context.Context, person.Holder) (fresh string, err error)
	// accept writes what a right password leads to. person.ErrMismatch: what was verified no longer holds.
	// person.ErrPlanted: the password is not the person's.
	accept func(context.Context, verdict) error
}

// verdict is a right password.
type verdict struct {
	account person.Holder
	attempt challenge.Attempt
	fresh   string // hash of the password at the present cost. Empty: the stored one is at that cost
}

// tryPassword counts an attempt and checks the password. authn.ErrBadCredentials, *authn.ThrottledError,
// person.ErrPlanted.
func (s *Service) tryPassword(ctx context.Context, t passwordTry) error {
	// What follows from an attempt must not depend on whether the client waits.
	gone := ctx.Done()
	ctx, cancel := ratelimit.Outlast(ctx)
	defer cancel()
	ctx = secret.AskedBy(ctx, secret.LineOf(t.origin.ClientIP), gone)
	a, err := s.Person.LookUp(ctx, t.username)
	if err != nil {
		return err
	}
	at, err := s.Proof.BeginAttempt(ctx, a, t.username, challenge.Source{Address: t.origin.ClientIP, Many: t.many})
	if err != nil {
		return err
	}
	why := denial.Refusal{Where: denial.SignIn, Reason: denial.WrongPassword, By: "api", ClientID: t.client}
	if at.Wait == 0 {
		if err := s.Proof.Seek(ctx, &a, &at,
			challenge.Unknown{Username: t.username, Password: t.password, Client: t.client, From: t.origin}); err != nil {
			s.Proof.NotEvaluated(ctx, at)
			return err
		}
	}
	if at.Wait > 0 {
		why.Reason = denial.Throttled
		s.refuseAccount(ctx, why, a, t.origin, nil)
		return &authn.ThrottledError{Wait: at.Wait}
	}
	fresh, err := t.verify(ctx, a)
	if err == nil {
		err = t.accept(ctx, verdict{a, at, fresh})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, person.ErrPlanted):
		why.Reason = denial.PlantedPassword
		s.refuseAccount(ctx, why, a, t.origin, err)
		s.Proof.NotEvaluated(ctx, at)
		return err
	case errors.As(err, new(*person.StateError)), errors.As(err, new(*MissingError)), errors.Is(err, authn.ErrSecondFactor):
		return err // the password is right, and accept has written so
	case !errors.Is(err, person.ErrMismatch):
		s.Proof.NotEvaluated(ctx, at)
		return err
	}
	s.refuseAccount(ctx, why, a, t.origin, err)
	if err := s.Proof.Failed(ctx, t.client, a, at, t.origin); err != nil {
		return err
	}
	return authn.ErrBadCredentials
}

// refuseAccount records why an account is refused.
func (s *Service) refuseAccount(ctx context.Context, why denial.Refusal, a person.Holder, from audit.Origin, cause error) {
	s.refused.Refuse(ctx, s.log, challenge.About(why, a), cause, zap.String("client_ip", from.ClientIP))
}

// confirm writes that the password was right: the hash at the present cost, and that the attempt does not count.
// person.ErrPlanted: it is not the person's.
func (s *Service) confirm(tx storage.Tx, v verdict, p *person.Record, pw person.PasswordRecord, now time.Time) error {
	if pw.SetBy != "" && s.Person.HasRole(p) {
		return person.ErrPlanted
	}
	if err := v.account.Rehash(tx, pw, v.fresh); err != nil {
		return err
	}
	return s.Proof.Undo(tx, v.attempt, true, now)
}

// signInByPassword returns a sign-in without a session. authn.ErrSecondFactor: the password is right, but not enough.
func (s *Service) signInByPassword(ctx context.Context, clientID string, v verdict, from audit.Origin,
	lacks func(storage.Tx, *session.Current) (bool, error),
) (*authn.Session, error) {
	ev, err := s.Person.NewEvents(from, webflow.LoginSucceeded, challenge.LoginFailed)
	if err != nil {
		return nil, err
	}
	now := s.now()
	si := &authn.Session{Result: authn.Result{
		Subject: v.account.ID, AuthTime: now, Level: session.PasswordLevel, AMR: []string{"DEFAULT"}, Provider: session.LocalProvider,
	}, Seen: now}
	var more bool
	var username string
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := v.account.Unchanged(tx)
		if err != nil {
			return err
		}
		si.Epoch, si.Vouched, username = p.Epoch, pw.SetBy != "", p.Username
		if err := s.confirm(tx, v, &p, pw, now); err != nil {
			return err
		}
		if more, err = lacks(tx, &session.Current{Session: session.Record{PersonID: v.account.ID}, Person: p}); err != nil {
			return err
		}
		e := ev[0]
		if more {
			e = ev[1]
			e.Reason, e.Ref = "the password alone is not enough", denial.RefOf(ctx)
		}
		e.PersonID, e.Actor, e.AgentUser, e.ClientID, e.Provider = v.account.ID, v.account.ID, p.Username, clientID, session.LocalProvider
		return s.events.Append(tx, e)
	})
	switch {
	case err != nil:
	case more:
		s.refuseAccount(ctx, denial.Refusal{Where: denial.SignIn, Reason: denial.SecondFactorNeeded, By: "api", ClientID: clientID},
			v.account, from, nil)
		err = authn.ErrSecondFactor
	default:
		s.refused.Entered(ctx, s.log,
			denial.Entry{
				PersonID: v.account.ID, Username: username, ClientID: clientID, By: "api",
				Provider: session.LocalProvider, Level: si.Level,
			})
	}
	return si, err
}
