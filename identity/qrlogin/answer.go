package qrlogin

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// scanned is a code that a phone has scanned.
type scanned struct {
	id   string // of the flow
	flow webflow.FlowRecord
	rec  codeRecord
	way  *way
}

// approver is the person who answers, or the app that does so for them.
type approver struct {
	personID string
	session  string // the person's on the phone. Empty: an app answers
	by       audit.Actor
	ceiling  int // of the level. 0: none
}

// read returns the code of a token, or ErrNoCode. ErrOff: phones sign no one in by it, or not any more.
func (s *Service) read(tx storage.Tx, u *settings.Units, hash string, now time.Time) (x scanned, err error) {
	if x.id, err = codeKeys.Get(tx, hash); err == nil {
		x.rec, err = codes.Get(tx, x.id)
	}
	if err == nil {
		x.flow, err = webflow.FlowRecords.Get(tx, x.id)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && (x.rec.Token != hash || !x.flow.ExpiresAt.After(now)) {
		return x, ErrNoCode
	}
	if err != nil {
		return x, err
	}
	if x.way = s.wayOf(u, x.rec.Method); x.way == nil {
		return x, ErrOff
	}
	return x, nil
}

// isNumber compares what was typed with the number next to the code.
func (x *scanned) isNumber(typed string) bool {
	return subtle.ConstantTimeCompare([]byte(strings.TrimSpace(typed)), []byte(x.rec.Number)) == 1
}

// answer approves or denies a code, once. right reports whether the number was: the caller has compared it before,
// since it never changes. ErrNumber: it was not, and left tries are left. ErrOver, ErrNoCode, ErrOff, ErrFactor,
// ErrPerson.
func (s *Service) answer(ctx context.Context, hash string, who approver, deny, right bool) (left int, err error) {
	ev, err := s.deps.Person.NewEvents(who.by.Origin, approved, denied)
	if err != nil {
		return 0, err
	}
	now := s.deps.Now()
	var verdict error // that what is written says
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		left, verdict = 0, nil
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		x, err := s.read(tx, u, hash, now)
		if err != nil {
			return err
		}
		if x.rec.state(now) != stateWaiting {
			return ErrOver
		}
		p, err := person.Records.Get(tx, who.personID)
		if errors.Is(err, storage.ErrNotFound) || err == nil && p.State != person.Active {
			return ErrPerson
		}
		if err != nil {
			return err
		}
		e, reason := ev[0], ""
		switch {
		case deny:
			e, reason, x.rec.State = ev[1], stateDenied, stateDenied
		case !right:
			verdict = ErrNumber
			if x.rec.Tries++; x.rec.Tries < x.way.tries() {
				left = x.way.tries() - x.rec.Tries
				return codes.Put(tx, x.id, x.rec, x.rec.Expires.Add(session.CollectAfter))
			}
			e, reason, x.rec.State = ev[1], "wrong number", stateWrong
		default:
			if err := s.approve(tx, &x, who, p, now); err != nil {
				return err
			}
		}
		if err := codes.Put(tx, x.id, x.rec, x.rec.Expires.Add(session.CollectAfter)); err != nil {
			return err
		}
		e = who.by.Fill(e, who.personID, reason)
		e.ClientID, e.Partition = x.rec.Client, p.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	if err == nil {
		err = verdict
	}
	if errors.Is(err, ErrNumber) {
		s.deps.Front.RefuseIn(ctx, denial.Refusal{Where: denial.SignIn, Reason: denial.PhoneRefused, By: "phone", PersonID: who.personID}, err)
	}
	return left, err
}

// approve writes down who is signed in by the code, and how well.
func (s *Service) approve(tx storage.Tx, x *scanned, who approver, p person.Record, now time.Time) error {
	x.rec.State, x.rec.PersonID, x.rec.Epoch, x.rec.Session, x.rec.Approved = stateApproved, who.personID, p.Epoch, who.session, now
	x.rec.Level = x.way.level
	if who.ceiling > 0 {
		x.rec.Level = min(x.rec.Level, who.ceiling)
	}
	if who.session == "" {
		return nil
	}
	on, err := s.deps.Session.Live(tx, who.session, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (on.PersonID != who.personID || on.Epoch != p.Epoch) {
		return ErrPerson
	}
	if err != nil {
		return err
	}
	if on.Provider != session.LocalProvider || x.lacks(&on) {
		return ErrFactor
	}
	return nil
}

// lacks reports whether the person has still to show something on the phone: the level of the sign-in, or the method
// that the settings name, since the code was made.
func (x *scanned) lacks(on *session.Record) bool {
	return on.Level < x.way.level || x.way.factor != "" && !on.RaisedSince(x.way.factor, x.rec.At)
}

// Waiting is a code that a browser shows, as an app shows it to the person who has scanned it.
type Waiting struct {
	ClientID  string    `json:"client_id,omitempty"`
	Client    string    `json:"client_name,omitempty"` // the application that asks for the sign-in
	Address   string    `json:"client_ip,omitempty"`   // of the browser that shows the code
	Agent     string    `json:"user_agent,omitempty"`  // of that browser
	At        time.Time `json:"at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Message is the message of the settings to the person, and StepUpMessage the one about the step-up.
	Message       string `json:"login_message,omitempty"`
	StepUpMessage string `json:"step_up_message,omitempty"`
	// StepUpType is the proof that the person has to give the app before it approves. Empty: nothing more than being
	// signed in
	StepUpType string `json:"step_up_type,omitempty"`
	Level      int    `json:"authentication_level"` // of the sign-in
	TriesLeft  int    `json:"attempts_left"`
}

// Look returns what a person has to see before an app approves a code. person.ErrNoPerson, ErrNoCode, ErrOff, ErrOver.
func (s *Service) Look(ctx context.Context, token, personID string, ceiling int) (out Waiting, err error) {
	hash, now := tokenHash(token), s.deps.Now()
	var x scanned
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		x, err = s.readForApp(tx, u, hash, personID, now)
		return err
	})
	if err != nil {
		return out, err
	}
	level := x.way.level
	if ceiling > 0 {
		level = min(level, ceiling)
	}
	return Waiting{
		ClientID: x.rec.Client, Client: x.rec.Name, Address: x.rec.Address, Agent: x.rec.Agent, At: x.rec.At, ExpiresAt: x.rec.Expires,
		Message: x.way.mobile.LoginMessage, StepUpMessage: x.way.mobile.StepUpMessage, StepUpType: x.way.mobile.StepUpType, Level: level,
		TriesLeft: x.way.tries() - x.rec.Tries,
	}, nil
}

// readForApp is read for a person who uses an app.
func (s *Service) readForApp(tx storage.Tx, u *settings.Units, hash, personID string, now time.Time) (x scanned, err error) {
	if _, err = person.Records.Get(tx, personID); errors.Is(err, storage.ErrNotFound) {
		return x, person.ErrNoPerson
	}
	if err == nil {
		x, err = s.read(tx, u, hash, now)
	}
	switch {
	case err != nil:
	case x.way.by == byBrowser:
		err = ErrOff
	case x.rec.state(now) != stateWaiting:
		err = ErrOver
	}
	return x, err
}

// AppAnswer is the answer of a person in an app.
type AppAnswer struct {
	Number string
	Deny   bool
	Factor string // what the person has shown the app, as mobile_login.step_up_type calls it
}

// AnswerFor answers for a person who uses an app, whose backend vouches for them. person.ErrNoPerson, ErrNumber,
// ErrNoCode, ErrOff, ErrOver, ErrFactor, ErrPerson.
func (s *Service) AnswerFor(ctx context.Context, token, personID string, in AppAnswer, ceiling int, by audit.Actor) error {
	hash, now := tokenHash(token), s.deps.Now()
	var x scanned
	err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		x, err = s.readForApp(tx, u, hash, personID, now)
		return err
	})
	switch {
	case err != nil:
		return err
	case !in.Deny && in.Factor != x.way.mobile.StepUpType:
		return ErrFactor
	}
	_, err = s.answer(ctx, hash, approver{personID: personID, by: by, ceiling: ceiling}, in.Deny, x.isNumber(in.Number))
	return err
}

// tokenHash returns the hash of a token, "" for what has not the form of one.
func tokenHash(token string) string {
	if !secret.IsToken(secret.PhoneCode, token) {
		return ""
	}
	return secret.Hash(token)
}
