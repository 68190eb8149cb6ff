package identity

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	kindLast     = "last" // cookie that remembers the provider that was used last; it opens nothing
	lastLife     = 400 * 24 * time.Hour
	providerSkew = 60 * time.Second // between our clock and a provider's
)

// opening is what a sign-in by a provider needs before its transaction.
type opening struct {
	now              time.Time
	token, sessionID string
	old              string // hash of the browser's session cookie
	sealed           []byte
	locale           string // that the person prefers
	ev               []event.Event
}

// The events of an opening.
const (
	evSucceeded = iota
	evSignedOut
	evCreated
	evCoupled
	evActivated
)

func (s *Service) prepare(r *http.Request, a *answered) (o *opening, err error) {
	o = &opening{now: s.Now(), old: hashed(s.jar.Get(r, kindSession))}
	if o.token, err = secret.NewToken(s.Random, secret.Session); err != nil {
		return nil, err
	}
	if o.sessionID, err = secret.ID(s.Random, 16); err != nil {
		return nil, err
	}
	if len(a.identity.Held) > 0 {
		if o.sealed, err = s.seal("held", a.key(), a.identity.Held); err != nil {
			return nil, err
		}
	}
	o.ev, err = s.newEvents(s.Origin(r), loginSucceeded, signedOut, personCreated, identityCoupled, personActivated)
	return o, err
}

// enter opens a session for the person of an identity.
func (s *Service) enter(w http.ResponseWriter, r *http.Request, a *answered) error {
	o, err := s.prepare(r, a)
	if err != nil {
		return err
	}
	n, err := s.prepareNewcomer(a)
	if err != nil {
		return err
	}
	if err := s.registration.ask(r.Context(), a, n); err != nil {
		return err
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		f, err := s.personOf(tx, a, n, o.now)
		if err == nil && f.awakened {
			done := o.ev[evActivated]
			done.PersonID, done.Actor, done.AgentUser, done.Reason = f.id, f.id, f.person.Username, "signed in by "+a.provider.Name
			f.person, err = s.activate(tx, f.id, f.person, done, o.now)
		}
		if err != nil {
			return err
		}
		if a.provider.Synchronise && !f.created {
			if err := s.synchronise(tx, f, a.provider, a.identity, o.now); err != nil {
				return err
			}
		}
		return s.bind(tx, a, o, f)
	})
	if err != nil {
		return err
	}
	s.entered(w, r, a, o)
	return nil
}

// bind uses up the answer and opens the session, with its events.
func (s *Service) bind(tx storage.Tx, a *answered, o *opening, f *found) error {
	if err := takeAnswer(tx, a); err != nil {
		return err
	}
	id := a.identity
	rec := sessionRecord{
		PersonID: f.id, Epoch: f.person.Epoch, AuthTime: o.now, Opened: o.now, Seen: o.now, Level: id.Level, AMR: id.AMR, Provider: a.provider.ID,
		Details: id.Details, NotAfter: id.NotAfter, SignedInFor: secret.Hash(a.flow.Demand.Return), Held: true,
		Unproven: id.AuthTime.IsZero(),
	}
	rec.from(event.Origin{ClientIP: o.ev[evSucceeded].ClientIP, UserAgent: o.ev[evSucceeded].UserAgent})
	if !id.AuthTime.IsZero() && id.AuthTime.Before(o.now) {
		rec.AuthTime = id.AuthTime
	}
	if len(rec.AMR) == 0 {
		rec.AMR = []string{"DEFAULT"}
	}
	o.locale = f.person.Locale
	var err error
	if rec.Again, err = signsIn(tx, f.id, o.now); err != nil {
		return err
	}
	sid, ended, err := s.begin(tx, o.sessionID, o.token, o.old, rec)
	if err != nil {
		return err
	}
	if err := s.hold(tx, sid, a, o, rec); err != nil {
		return err
	}
	if err := s.tellOpened(tx, a, f, o.now); err != nil {
		return err
	}
	si := &signedIn{id: sid, session: rec, person: f.person}
	happened := []event.Event{}
	if f.created {
		happened = append(happened, si.own(o.ev[evCreated], "signed in by "+a.provider.Name))
	}
	if f.created || f.newlyOne {
		happened = append(happened, si.own(o.ev[evCoupled], "by "+a.provider.Name))
	}
	if ended != nil {
		happened = append(happened, ended.own(o.ev[evSignedOut], "another person signed in"))
	}
	e := si.own(o.ev[evSucceeded], "signed in by "+a.provider.Name)
	e.ClientID = a.flow.Demand.Client.ID
	for _, e := range append(happened, e) {
		if err := s.Events.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// takeAnswer uses up the answer of a provider, or returns errUsed.
func takeAnswer(tx storage.Tx, a *answered) error {
	key := secret.Hash(a.name)
	if rec, err := providerFlows.Get(tx, key); err != nil || rec.Identity == nil {
		if err == nil || errors.Is(err, storage.ErrNotFound) {
			err = errUsed
		}
		return err
	}
	return providerFlows.Delete(tx, key)
}

// hold keeps what the provider needs of the session, and the names by which it may end it.
func (s *Service) hold(tx storage.Tx, sessionID string, a *answered, o *opening, rec sessionRecord) error {
	h := heldRecord{Provider: a.provider.ID, Identity: a.key(), Sealed: o.sealed}
	expires := s.collect(rec)
	names := []string{subjectName(a.identity.Issuer, a.identity.Subject)}
	for _, n := range a.identity.Sessions {
		name := sessionName(a.identity.Issuer, n)
		h.Names, names = append(h.Names, name), append(names, name)
	}
	for _, n := range names {
		if err := sessionNames.Put(tx, storage.Key(a.provider.ID, n, sessionID), struct{}{}, expires); err != nil {
			return err
		}
	}
	return held.Put(tx, sessionID, h, expires)
}

func subjectName(issuer, subject string) string {
	return secret.Hash("subject\x00" + issuer + "\x00" + subject)
}

func sessionName(issuer, name string) string {
	return secret.Hash("session\x00" + issuer + "\x00" + name)
}

// entered sets the cookies of a session that a provider opened.
func (s *Service) entered(w http.ResponseWriter, r *http.Request, a *answered, o *opening) {
	s.Pages.Choose(w, r, o.locale)
	s.jar.Set(w, kindSession, o.token, 0)
	s.jar.Set(w, kindLast, a.provider.ID+"."+s.lastMAC(a.provider.ID), lastLife)
}

func (s *Service) lastMAC(id string) string {
	return base64.RawURLEncoding.EncodeToString(secret.MAC(s.Keyring.Derive("gatehouse last provider v1"), id)[:16])
}

// lastUsed is the provider that this browser signed in with last, or "".
func (s *Service) lastUsed(r *http.Request) string {
	v := s.jar.Get(r, kindLast)
	i := strings.LastIndexByte(v, '.')
	if i < 0 || !hmac.Equal([]byte(v[i+1:]), []byte(s.lastMAC(v[:i]))) {
		return ""
	}
	return v[:i]
}
