package front

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// AdmitNew opens the session of a person whom prove, in the transaction, lets in for the first time.
func (s *Service) AdmitNew(w http.ResponseWriter, r *http.Request, f FlowRecord, personID, why string, prove func(storage.Tx, time.Time) (person.Record, error)) error {
	device := s.session.DeviceToken(r)
	if device == "" {
		var err error
		if device, err = s.NewID(); err != nil {
			return err
		}
	}
	return s.Admit(w, r, f, Identification{
		Person: personID, Level: session.PasswordLevel, AMR: "DEFAULT", Reason: why, Device: device, From: s.origin(r),
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) {
			rec, err := prove(tx, now)
			if err != nil {
				return rec, err
			}
			return rec, proof.RememberDevice(tx, personID, rec.Epoch, proof.Hashed(device), now)
		},
	})
}

// SessionOpening is what a sign-in by a provider needs before its transaction.
type SessionOpening struct {
	Now              time.Time
	Token, SessionID string
	Old              string // hash of the browser's session cookie
	Sealed           []byte
	Locale           string // that the person prefers
	Ev               []event.Event
}

func (s *Service) View(d login.Demand, template string, status int, data any) page.View {
	return page.View{Template: template, Status: status, Locales: d.Locales, Mobile: d.View == "mobile", Client: d.Client, Data: data}
}

// Username is what the form begins with: what was typed, or else what the client knows.
func (f *FlowRecord) Username() string { return cmp.Or(f.Typed, strings.TrimSpace(f.Demand.Hint)) }

// Succeed opens the session of a person whose password was right, when what was verified still holds.
func (s *Service) Succeed(w http.ResponseWriter, r *http.Request, f FlowRecord, remember bool, p proof.Verified) error {
	if p.Device == "" {
		var err error
		if p.Device, err = s.NewID(); err != nil {
			return err
		}
	}
	return s.Admit(w, r, f, Identification{
		Person: p.Account.ID, Level: session.PasswordLevel, AMR: "DEFAULT", Remember: remember, Device: p.Device, From: p.From,
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) { return s.proof.Confirm(tx, p, now) },
	})
}

// Identification is who a person has shown to be, and how.
type Identification struct {
	Person   string
	Level    int
	AMR      string
	Passkey  string // id of the passkey that it is by. Empty: by none
	Reason   string // of the event
	Remember bool
	Device   string
	From     event.Origin
	// prove writes what the proof leaves behind and returns the person, or person.ErrMismatch when it holds no more.
	Prove func(tx storage.Tx, now time.Time) (person.Record, error)
}

// Admit opens the session and sets its cookies.
func (s *Service) Admit(w http.ResponseWriter, r *http.Request, f FlowRecord, who Identification) error {
	token, err := secret.NewToken(s.random, secret.Session)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(who.From, LoginSucceeded, SignedOut)
	if err != nil {
		return err
	}
	now, old := s.now(), proof.Hashed(s.jar.Get(r, session.CookieSession))
	rec := session.Record{
		PersonID: who.Person, AuthTime: now, Seen: now, Level: who.Level, AMR: []string{who.AMR}, Passkey: who.Passkey, Provider: session.LocalProvider,
		Remembered: who.Remember && s.session.OffersRemember(), SignedInFor: secret.Hash(f.Demand.Return),
	}
	rec.From(who.From)
	var locale string
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		person, err := who.Prove(tx, now)
		if err != nil {
			return err
		}
		rec.Epoch, locale = person.Epoch, person.Locale
		if rec.Again, err = session.MarkSignedIn(tx, who.Person, now); err != nil {
			return err
		}
		sessionID, ended, err := s.session.Begin(tx, id, token, old, rec)
		if err != nil {
			return err
		}
		if ended != nil {
			if err := s.events.Append(tx, ended.OwnEvent(ev[1], "another person signed in")); err != nil {
				return err
			}
		}
		e := (&session.Current{ID: sessionID, Session: rec, Person: person}).OwnEvent(ev[0], who.Reason)
		e.ClientID = f.Demand.Client.ID
		return s.events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.session.SetCookies(w, rec, token, who.Device)
	s.pages.Choose(w, r, locale)
	return nil
}

// Redirect sends the browser on after a form: 303, so that what was posted is not posted again. (RFC 9110 15.4.4)
func (s *Service) Redirect(w http.ResponseWriter, r *http.Request, to string) {
	if to = page.LocalPath(to); to == "" {
		to = person.DefaultReturn
	}
	s.LeaveTo(w, r, to)
}

// RetryAfter says in the answer how long no try is taken, and returns the seconds. (RFC 6585 4)
func RetryAfter(w http.ResponseWriter, wait time.Duration) int {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// LeaveTo is Redirect to a place that is known to be good, of ours or elsewhere.
func (s *Service) LeaveTo(w http.ResponseWriter, _ *http.Request, to string) {
	page.Redirect(w, to)
}
