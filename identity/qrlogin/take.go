package qrlogin

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// take signs in the browser that has shown a code which a phone has approved. The code is used up.
func (s *Service) take(x *waiting) error {
	token, err := secret.NewToken(s.random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return err
	}
	from := s.origin(x.Request.Request)
	ev, err := s.person.NewEvents(from, webflow.LoginSucceeded, webflow.SignedOut, webflow.SignedOut)
	if err != nil {
		return err
	}
	now, old, signedInFor := s.now(), challenge.Hashed(s.jar.Get(x.Request.Request, session.CookieSession)), secret.Hash(x.flow.Demand.Return)
	var rec session.Record
	var who person.Record
	var taken bool
	err = s.store.Update(x.Context(), func(tx storage.Tx) error {
		code, err := codes.Get(tx, x.id)
		if err != nil {
			return err
		}
		if code.Token != x.rec.Token || code.State != stateApproved {
			return ErrOver
		}
		if err := codeKeys.Delete(tx, code.Token); err != nil {
			return err
		}
		if err := codes.Delete(tx, x.id); err != nil {
			return err
		}
		taken = false
		if rec, who, err = s.sessionOf(tx, &code, now); errors.Is(err, ErrPerson) || errors.Is(err, ErrOff) || errors.Is(err, ErrFactor) {
			return nil // the code is used up all the same
		}
		if err != nil {
			return err
		}
		rec.SignedInFor = signedInFor
		rec.From(from)
		if rec.Again, err = session.MarkSignedIn(tx, rec.PersonID, now); err != nil {
			return err
		}
		sid, ended, err := s.session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		for i, y := range ended {
			if err := s.events.Append(tx, y.OwnEvent(ev[1+i], y.Reason)); err != nil {
				return err
			}
		}
		taken = true
		e := (&session.Current{ID: sid, Session: rec, Person: who}).OwnEvent(ev[0], "by phone")
		e.ClientID = code.Client
		return s.events.Append(tx, e)
	})
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, ErrOver): // another request of this browser was faster
		return x.Redirect(x.self)
	case err != nil:
		return err
	case !taken:
		s.jar.Clear(x.W, kindWaiting)
		s.front.Refuse(x.Request, denial.Refusal{Where: denial.SignIn, Reason: denial.PhoneRefused, By: "phone", ClientID: x.rec.Client},
			ErrPerson)
		x.rec = nil
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again", Problem: "problem.scan_over"})
	}
	s.front.Entered(x.Context(), denial.Entry{
		PersonID: rec.PersonID, Username: who.Username, ClientID: x.rec.Client, By: "phone",
		Provider: rec.Provider, Level: rec.Level,
	})
	s.jar.Clear(x.W, kindWaiting)
	s.session.SetNewCookie(x.W, token)
	s.pages.Choose(x.W, x.Request.Request, who.Locale)
	return s.front.Finish(x.Request, x.id, x.flow)
}

// sessionOf returns the session that an approved code opens, and its person. ErrPerson, ErrOff, ErrFactor: none, by
// now.
func (s *Service) sessionOf(tx storage.Tx, code *codeRecord, now time.Time) (rec session.Record, p person.Record, err error) {
	u, err := s.units(tx)
	if err != nil {
		return rec, p, err
	}
	w := s.wayOf(u, code.Method)
	if w == nil {
		return rec, p, ErrOff
	}
	p, err = person.Records.Get(tx, code.PersonID)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (p.State != person.Active || p.Epoch != code.Epoch) {
		return rec, p, ErrPerson
	}
	if err != nil {
		return rec, p, err
	}
	rec = session.Record{
		PersonID: code.PersonID, Epoch: code.Epoch, AuthTime: code.Approved, Opened: now, Seen: now, Level: min(code.Level, w.level),
		AMR: []string{session.AMRCustom}, Provider: session.LocalProvider, Vouched: true,
	}
	if code.Session == "" {
		if s.person.HasRole(&p) {
			return rec, p, ErrPerson
		}
	} else {
		from, err := s.session.Live(tx, code.Session, now)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (from.PersonID != code.PersonID || from.Epoch != code.Epoch) {
			return rec, p, ErrPerson
		}
		if err != nil {
			return rec, p, err
		}
		rec = s.session.Inherit(&from, min(code.Level, w.level), now)
		if rec.Level < min(code.Level, w.level) {
			return rec, p, ErrFactor // the phone has lost what it had confirmed
		}
	}
	if w.id != "" {
		rec.Provider = w.id
	}
	return rec, p, nil
}
