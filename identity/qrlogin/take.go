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
	token, err := secret.NewToken(s.deps.Random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	from := s.deps.Origin(x.Request.Request)
	ev, err := s.deps.Person.NewEvents(from, webflow.LoginSucceeded, webflow.SignedOut, webflow.SignedOut)
	if err != nil {
		return err
	}
	now, old := s.deps.Now(), challenge.Hashed(s.deps.Jar.Get(x.Request.Request, session.CookieSession))
	signedInFor := secret.Hash(x.flow.Demand.Return)
	var rec session.Record
	var who person.Record
	var taken bool
	err = s.deps.Store.Update(x.Context(), func(tx storage.Tx) error {
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
		sid, ended, err := s.deps.Session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		for i, y := range ended {
			if err := s.deps.Events.Append(tx, y.OwnEvent(ev[1+i], y.Reason)); err != nil {
				return err
			}
		}
		taken = true
		e := (&session.Current{ID: sid, Session: rec, Person: who}).OwnEvent(ev[0], "by phone")
		e.ClientID = code.Client
		return s.deps.Events.Append(tx, e)
	})
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, ErrOver): // another request of this browser was faster
		return x.Redirect(x.self)
	case err != nil:
		return err
	case !taken:
		s.deps.Jar.Clear(x.W, kindWaiting)
		s.deps.Front.Refuse(x.Request, denial.Refusal{Where: denial.SignIn, Reason: denial.PhoneRefused, By: "phone", ClientID: x.rec.Client},
			ErrPerson)
		x.rec = nil
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again", Problem: "problem.scan_over"})
	}
	s.deps.Front.Entered(x.Context(), denial.Entry{
		PersonID: rec.PersonID, Username: who.Username, ClientID: x.rec.Client, By: "phone",
		Provider: rec.Provider, Level: rec.Level,
	})
	s.deps.Jar.Clear(x.W, kindWaiting)
	s.deps.Session.SetNewCookie(x.W, token)
	s.deps.Pages.Choose(x.W, x.Request.Request, who.Locale)
	return s.deps.Front.Finish(x.Request, x.id, x.flow)
}

// sessionOf returns the session that an approved code opens, and its person. ErrPerson, ErrOff, ErrFactor: none, by
// now.
func (s *Service) sessionOf(tx storage.Tx, code *codeRecord, now time.Time) (rec session.Record, p person.Record, err error) {
	u, err := s.deps.Units(tx)
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
		if s.deps.Person.HasRole(&p) {
			return rec, p, ErrPerson
		}
	} else {
		from, err := s.deps.Session.Live(tx, code.Session, now)
		if errors.Is(err, storage.ErrNotFound) || err == nil && (from.PersonID != code.PersonID || from.Epoch != code.Epoch) {
			return rec, p, ErrPerson
		}
		if err != nil {
			return rec, p, err
		}
		rec = s.deps.Session.Inherit(&from, min(code.Level, w.level), now)
		if rec.Level < min(code.Level, w.level) {
			return rec, p, ErrFactor // the phone has lost what it had confirmed
		}
	}
	if w.id != "" {
		rec.Provider = w.id
	}
	return rec, p, nil
}
