package federation

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	kindLast     = "last" // cookie that remembers the provider that was used last; it opens nothing
	lastLife     = 400 * 24 * time.Hour
	providerSkew = 60 * time.Second // between our clock and a provider's
)

// The events of an opening.
const (
	evSucceeded = iota
	evSignedOut
	evCreated
	EvCoupled
	evActivated
)

func (s *Service) PrepareSession(r *http.Request, a *Answer) (o *front.SessionOpening, err error) {
	o = &front.SessionOpening{Now: s.now(), Old: proof.Hashed(s.jar.Get(r, session.CookieSession))}
	if o.Token, err = secret.NewToken(s.random, secret.Session); err != nil {
		return nil, err
	}
	if o.SessionID, err = secret.ID(s.random, 16); err != nil {
		return nil, err
	}
	if len(a.Identity.Held) > 0 {
		if o.Sealed, err = s.Seal("held", a.Key(), a.Identity.Held); err != nil {
			return nil, err
		}
	}
	o.Ev, err = s.person.NewEvents(s.origin(r), front.LoginSucceeded, front.SignedOut, person.EventCreated, IdentityCoupled, person.EventActivated)
	return o, err
}

// signIn opens a session for the person of an identity.
func (s *Service) signIn(w http.ResponseWriter, r *http.Request, a *Answer) error {
	o, err := s.PrepareSession(r, a)
	if err != nil {
		return err
	}
	n, err := s.PrepareNewcomer(a)
	if err != nil {
		return err
	}
	if err := s.registration.Ask(r.Context(), a, n); err != nil {
		return err
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		f, err := s.PersonOf(tx, a, n, o.Now)
		if err == nil && f.awakened {
			done := o.Ev[evActivated]
			done.PersonID, done.Actor, done.AgentUser, done.Reason = f.ID, f.ID, f.Person.Username, "signed in by "+a.Provider.Name
			f.Person, err = s.person.Activate(tx, f.ID, f.Person, done, o.Now)
		}
		if err != nil {
			return err
		}
		if a.Provider.Synchronise && !f.Created {
			if err := s.synchronise(tx, f, a.Provider, a.Identity, o.Now); err != nil {
				return err
			}
		}
		return s.Bind(tx, a, o, f)
	})
	if err != nil {
		return err
	}
	s.FinishSignIn(w, r, a, o)
	return nil
}

// Bind uses up the answer and opens the session, with its events.
func (s *Service) Bind(tx storage.Tx, a *Answer, o *front.SessionOpening, f *Match) error {
	if err := TakeAnswer(tx, a); err != nil {
		return err
	}
	id := a.Identity
	rec := session.Record{
		PersonID: f.ID, Epoch: f.Person.Epoch, AuthTime: o.Now, Opened: o.Now, Seen: o.Now, Level: id.Level, AMR: id.AMR, Provider: a.Provider.ID,
		Details: id.Details, NotAfter: id.NotAfter, SignedInFor: secret.Hash(a.Flow.Demand.Return), Held: true,
		Unproven: id.AuthTime.IsZero(),
	}
	rec.From(event.Origin{ClientIP: o.Ev[evSucceeded].ClientIP, UserAgent: o.Ev[evSucceeded].UserAgent})
	if !id.AuthTime.IsZero() && id.AuthTime.Before(o.Now) {
		rec.AuthTime = id.AuthTime
	}
	if len(rec.AMR) == 0 {
		rec.AMR = []string{"DEFAULT"}
	}
	o.Locale = f.Person.Locale
	var err error
	if rec.Again, err = session.MarkSignedIn(tx, f.ID, o.Now); err != nil {
		return err
	}
	sid, ended, err := s.session.Begin(tx, o.SessionID, o.Token, o.Old, rec)
	if err != nil {
		return err
	}
	if err := s.hold(tx, sid, a, o, rec); err != nil {
		return err
	}
	if err := s.tellOpened(tx, a, f, o.Now); err != nil {
		return err
	}
	si := &session.Current{ID: sid, Session: rec, Person: f.Person}
	happened := []event.Event{}
	if f.Created {
		happened = append(happened, si.OwnEvent(o.Ev[evCreated], "signed in by "+a.Provider.Name))
	}
	if f.Created || f.NewlyOne {
		happened = append(happened, si.OwnEvent(o.Ev[EvCoupled], "by "+a.Provider.Name))
	}
	if ended != nil {
		happened = append(happened, ended.OwnEvent(o.Ev[evSignedOut], "another person signed in"))
	}
	e := si.OwnEvent(o.Ev[evSucceeded], "signed in by "+a.Provider.Name)
	e.ClientID = a.Flow.Demand.Client.ID
	for _, e := range append(happened, e) {
		if err := s.events.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// TakeAnswer uses up the answer of a provider, or returns ErrUsed.
func TakeAnswer(tx storage.Tx, a *Answer) error {
	key := secret.Hash(a.Name)
	if rec, err := ProviderFlows.Get(tx, key); err != nil || rec.Identity == nil {
		if err == nil || errors.Is(err, storage.ErrNotFound) {
			err = ErrUsed
		}
		return err
	}
	return ProviderFlows.Delete(tx, key)
}

// hold keeps what the provider needs of the session, and the names by which it may end it.
func (s *Service) hold(tx storage.Tx, sessionID string, a *Answer, o *front.SessionOpening, rec session.Record) error {
	h := session.HeldRecord{Provider: a.Provider.ID, Identity: a.Key(), Sealed: o.Sealed}
	expires := s.session.Collect(rec)
	names := []string{subjectName(a.Identity.Issuer, a.Identity.Subject)}
	for _, n := range a.Identity.Sessions {
		name := sessionName(a.Identity.Issuer, n)
		h.Names, names = append(h.Names, name), append(names, name)
	}
	for _, n := range names {
		if err := sessionNames.Put(tx, storage.Key(a.Provider.ID, n, sessionID), struct{}{}, expires); err != nil {
			return err
		}
	}
	return session.HeldRecords.Put(tx, sessionID, h, expires)
}

func subjectName(issuer, subject string) string {
	return secret.Hash("subject\x00" + issuer + "\x00" + subject)
}

func sessionName(issuer, name string) string {
	return secret.Hash("session\x00" + issuer + "\x00" + name)
}

// FinishSignIn sets the cookies of a session that a provider opened.
func (s *Service) FinishSignIn(w http.ResponseWriter, r *http.Request, a *Answer, o *front.SessionOpening) {
	s.pages.Choose(w, r, o.Locale)
	s.jar.Set(w, session.CookieSession, o.Token, 0)
	s.jar.Set(w, kindLast, a.Provider.ID+"."+s.lastMAC(a.Provider.ID), lastLife)
}

func (s *Service) lastMAC(id string) string {
	return base64.RawURLEncoding.EncodeToString(secret.MAC(s.keyring.Derive("gatehouse last provider v1"), id)[:16])
}

// LastUsed is the provider that this browser signed in with last, or "".
func (s *Service) LastUsed(r *http.Request) string {
	v := s.jar.Get(r, kindLast)
	i := strings.LastIndexByte(v, '.')
	if i < 0 || !hmac.Equal([]byte(v[i+1:]), []byte(s.lastMAC(v[:i]))) {
		return ""
	}
	return v[:i]
}
