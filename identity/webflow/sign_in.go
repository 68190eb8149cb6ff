package webflow

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// AdmitNew opens the first session of a person. prove returns the person, in the transaction.
func (s *Service) AdmitNew(w http.ResponseWriter, r *http.Request, f FlowRecord, personID, why string,
	prove func(storage.Tx, time.Time) (person.Record, error),
) error {
	device := s.deps.Session.DeviceToken(r)
	if device == "" {
		var err error
		if device, err = s.NewID(); err != nil {
			return err
		}
	}
	return s.Admit(w, r, f, Identification{
		Person: personID, Level: session.PasswordLevel, AMR: "DEFAULT", Reason: why, Device: device, From: s.deps.Origin(r),
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) {
			rec, err := prove(tx, now)
			if err != nil {
				return rec, err
			}
			return rec, s.deps.Proof.RememberDevice(tx, personID, rec.Epoch, challenge.Hashed(device), now)
		},
	})
}

// View is a page of a sign-in, in the languages and with the application of its demand.
func (s *Service) View(d authn.Demand, template string, status int, data any) web.View {
	return web.View{
		Template: template, Status: status, Locales: d.Locales, Mobile: d.View == "mobile", Client: d.Client,
		Fragment: d.Fragment, Data: data,
	}
}

// Username fills in the form: what the person has typed, or else what the client knows.
func (f *FlowRecord) Username() string { return cmp.Or(f.Typed, strings.TrimSpace(f.Demand.Hint)) }

// Succeed opens the session of a person whose password was right, if what was verified still holds.
func (s *Service) Succeed(w http.ResponseWriter, r *http.Request, f FlowRecord, remember bool, p challenge.RightPassword) error {
	if p.Device == "" {
		var err error
		if p.Device, err = s.NewID(); err != nil {
			return err
		}
	}
	return s.Admit(w, r, f, Identification{
		Person: p.Account.ID, Level: session.PasswordLevel, AMR: "DEFAULT", Remember: remember, Device: p.Device, From: p.From,
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) { return s.deps.Proof.Confirm(tx, p, now) },
	})
}

// Identification is a proof of who the person is.
type Identification struct {
	Person   string
	Level    int
	AMR      string
	Passkey  string // id of the passkey that was used. Empty: none
	Vouched  bool   // as in session.Record
	Reason   string // of the event
	Remember bool
	Device   string
	From     audit.Origin
	// Prove writes what the proof changes and returns the person. person.ErrMismatch: the proof no longer holds.
	Prove func(tx storage.Tx, now time.Time) (person.Record, error)
}

// Admit opens the session and sets its cookies.
func (s *Service) Admit(w http.ResponseWriter, r *http.Request, f FlowRecord, who Identification) error {
	token, err := secret.NewToken(s.deps.Random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(who.From, LoginSucceeded, SignedOut, SignedOut)
	if err != nil {
		return err
	}
	now, old := s.deps.Now(), challenge.Hashed(s.deps.Jar.Get(r, session.CookieSession))
	rec := session.Record{
		PersonID: who.Person, AuthTime: now, Seen: now, Level: who.Level, AMR: []string{who.AMR}, Passkey: who.Passkey,
		Provider:   session.LocalProvider,
		Remembered: who.Remember && s.deps.Session.OffersRemember(), SignedInFor: secret.Hash(f.Demand.Return), Vouched: who.Vouched,
	}
	rec.From(who.From)
	var locale, username string
	err = s.deps.Store.Update(r.Context(), func(tx storage.Tx) error {
		p, err := who.Prove(tx, now)
		if err == nil {
			err = s.vouch(tx, &rec, &p)
		}
		if err != nil {
			return err
		}
		rec.Epoch, locale, username = p.Epoch, p.Locale, p.Username
		if rec.Again, err = session.MarkSignedIn(tx, who.Person, now); err != nil {
			return err
		}
		sessionID, ended, err := s.deps.Session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		for i, x := range ended {
			if err := s.deps.Events.Append(tx, x.OwnEvent(ev[1+i], x.Reason)); err != nil {
				return err
			}
		}
		e := (&session.Current{ID: sessionID, Session: rec, Person: p}).OwnEvent(ev[0], who.Reason)
		e.ClientID = f.Demand.Client.ID
		return s.deps.Events.Append(tx, e)
	})
	if errors.Is(err, person.ErrPlanted) {
		return PlantedPassword(person.DefaultReturn)
	}
	if err != nil {
		return err
	}
	entry := denial.Entry{
		PersonID: who.Person, Username: username, ClientID: f.Demand.Client.ID, By: "password",
		Provider: rec.Provider, Level: rec.Level,
	}
	switch {
	case who.Passkey != "":
		entry.By = "passkey"
	case who.Reason != "":
		entry.By = "new_password"
	}
	s.Entered(r.Context(), entry)
	s.deps.Session.SetCookies(w, rec, token, who.Device)
	s.deps.Pages.Choose(w, r, locale)
	return nil
}

// vouch marks a session that rests on a password that an untrusted actor has set. person.ErrPlanted: the person has a
// role in the admin console.
func (s *Service) vouch(tx storage.Tx, rec *session.Record, p *person.Record) error {
	if rec.Passkey == "" && !rec.Vouched {
		pw, _, err := person.Passwords.Find(tx, rec.PersonID)
		if err != nil {
			return err
		}
		rec.Vouched = pw.SetBy != ""
	}
	if rec.Vouched && s.deps.Person.HasRole(p) {
		return person.ErrPlanted
	}
	return nil
}

// PlantedPassword answers a password that an untrusted actor has set, of a person with a role in the admin console.
func PlantedPassword(again string) error {
	return &Answer{Status: http.StatusForbidden, Key: "error.planted_password", Again: again, Cause: person.ErrPlanted}
}

// RetryAfter says in the answer how long no attempt is allowed, and returns the seconds. (RFC 6585 4)
func RetryAfter(w http.ResponseWriter, wait time.Duration) int {
	return ratelimit.RetryAfter(w, wait)
}
