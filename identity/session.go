package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	kindSession = "session" // cookie that opens a session
	kindDevice  = "device"  // cookie that recognises a browser; it opens nothing

	markEvery    = time.Minute          // the idle mark is written at most so often
	deviceLife   = 400 * 24 * time.Hour // the longest that browsers keep a cookie
	collectAfter = time.Hour            // how long after its end a record may be collected

	passwordLevel = 1
	provider      = "identity"
)

// signedIn is a live session with its person.
type signedIn struct {
	id      string
	session sessionRecord
	person  personRecord
}

func (si *signedIn) result() *login.Result {
	return &login.Result{
		Subject: si.session.PersonID, SessionID: si.id, AuthTime: si.session.AuthTime, Level: si.session.Level,
		AMR: si.session.AMR, References: si.session.references(), Provider: si.session.Provider, Details: si.session.Details,
	}
}

// Current returns the browser's sign-in, or nil when there is none, without any page.
func (s *Service) Current(r *http.Request) (*login.Result, error) {
	si, err := s.current(r)
	if err != nil || si == nil {
		return nil, err
	}
	return si.result(), nil
}

// current returns the live session that the request's cookie opens, or nil.
func (s *Service) current(r *http.Request) (si *signedIn, err error) {
	token := s.jar.Get(r, kindSession)
	if !secret.IsToken(secret.Session, token) {
		return nil, nil //nolint:nilnil // nobody is signed in
	}
	hash, now := secret.Hash(token), s.Now()
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		si, err = s.open(tx, hash, now)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // nobody is signed in
	}
	return si, err
}

// open returns the live session of a cookie and its person, or storage.ErrNotFound.
func (s *Service) open(tx storage.Tx, hash string, now time.Time) (*signedIn, error) {
	key, err := sessionKeys.Get(tx, hash)
	if err != nil {
		return nil, err
	}
	rec, err := s.live(tx, key.SessionID, now)
	if err != nil {
		return nil, err
	}
	p, err := persons.Get(tx, rec.PersonID)
	if err != nil {
		return nil, err
	}
	if rec.Cookie != hash || p.State != Active || p.Epoch != rec.Epoch {
		return nil, storage.ErrNotFound
	}
	return &signedIn{id: key.SessionID, session: rec, person: p}, nil
}

// live returns a session that has not ended by itself, or storage.ErrNotFound. The person's state and epoch are the caller's to check.
func (s *Service) live(tx storage.Tx, id string, now time.Time) (sessionRecord, error) {
	rec, err := sessions.Get(tx, id)
	if err != nil {
		return rec, err
	}
	g, err := globals.Get(tx, globalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return rec, err
	}
	if rec.Global != g.Epoch || !s.ends(rec).After(now) {
		return rec, storage.ErrNotFound
	}
	return rec, nil
}

// Session returns a live session, or storage.ErrNotFound when it has ended, has expired or never was. The caller compares its epoch with
// the person's.
func (s *Service) Session(tx storage.Tx, id string, now time.Time) (login.Session, error) {
	rec, err := s.live(tx, id, now)
	if err != nil {
		return login.Session{}, err
	}
	si := signedIn{id: id, session: rec}
	return login.Session{Result: *si.result(), Epoch: rec.Epoch, Ends: s.ends(rec), Seen: rec.Seen}, nil
}

// ends returns when a session ends at the latest, were it used no more. It follows the configuration of today.
func (s *Service) ends(rec sessionRecord) time.Time {
	at := s.latest(rec)
	if idle := rec.Seen.Add(s.cfg.Session.Idle); idle.Before(at) && !s.remembers(rec) {
		at = idle
	}
	return at
}

// latest returns when a session ends however much it is used.
func (s *Service) latest(rec sessionRecord) time.Time {
	at := rec.opened().Add(s.cfg.Session.Absolute)
	if s.remembers(rec) {
		at = rec.opened().Add(s.cfg.Session.Remember)
	}
	if !rec.NotAfter.IsZero() && rec.NotAfter.Before(at) { // SAML core 2.7.2: SessionNotOnOrAfter
		return rec.NotAfter
	}
	return at
}

func (s *Service) remembers(rec sessionRecord) bool {
	return rec.Remembered && s.offersRemember()
}

// offersRemember tells whether a person can ask to stay signed in.
func (s *Service) offersRemember() bool { return s.cfg.Session.Remember > 0 }

// opened is when the lifetimes of a session begin.
func (r *sessionRecord) opened() time.Time {
	if r.Opened.IsZero() {
		return r.AuthTime
	}
	return r.Opened
}

// collect returns when the records of a session may be collected.
func (s *Service) collect(rec sessionRecord) time.Time {
	return rec.opened().Add(max(s.cfg.Session.Absolute, s.cfg.Session.Remember) + collectAfter)
}

// Touch marks a session as used now, at most once a minute.
func (s *Service) Touch(ctx context.Context, id string) error { return s.mark(ctx, id, nil) }

// mark is Touch, and keeps from where the session was used. nil: that is not known.
func (s *Service) mark(ctx context.Context, id string, from *event.Origin) error {
	now := s.Now()
	due := func(tx storage.Tx) (sessionRecord, bool, error) {
		rec, err := s.live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			return rec, false, nil
		}
		return rec, err == nil && (now.Sub(rec.Seen) >= markEvery || rec.Address == "" && from != nil), err
	}
	var write bool
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		_, write, err = due(tx)
		return err
	})
	if err != nil || !write {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, ok, err := due(tx)
		if err != nil || !ok {
			return err
		}
		rec.Seen = now
		if from != nil {
			rec.from(*from)
		}
		return sessions.Put(tx, id, rec, s.collect(rec))
	})
}

// touch is Touch for a request that goes on even when the mark cannot be written.
func (s *Service) touch(r *http.Request, si *signedIn) {
	if s.Now().Sub(si.session.Seen) < markEvery && si.session.Address != "" {
		return
	}
	from := s.Origin(r)
	if err := s.mark(r.Context(), si.id, &from); err != nil {
		s.Log.Error("idle mark not written", zap.String("session_id", si.id), zap.Error(err))
	}
}

// begin opens a session for the person in tx. token is the new cookie, old the hash of the browser's cookie before, id the id of a new
// session. The same person in the same browser goes on in the same session under a new cookie, so that what hangs on it lives on;
// another person's session in this browser ends.
func (s *Service) begin(tx storage.Tx, id, token, old string, rec sessionRecord) (sessionID string, ended *signedIn, err error) {
	g, err := globals.Get(tx, globalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	rec.Global, rec.Cookie, sessionID = g.Epoch, secret.Hash(token), id
	u, err := s.Units(tx)
	if err != nil {
		return "", nil, err
	}
	if !u.Features.LoginEnabled {
		return "", nil, errClosed
	}
	before, err := s.open(tx, old, rec.Seen)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	if err == nil {
		if err := sessionKeys.Delete(tx, old); err != nil {
			return "", nil, err
		}
		if before.session.PersonID == rec.PersonID {
			sessionID = before.id
			if before.session.Held && !rec.Held {
				if err := held.Delete(tx, sessionID); err != nil {
					return "", nil, err
				}
			}
		} else {
			ended = before
			if err := s.end(tx, before.id, before.session); err != nil {
				return "", nil, err
			}
		}
	}
	if err := sessions.Put(tx, sessionID, rec, s.collect(rec)); err != nil {
		return "", nil, err
	}
	if err := sessionsOf.Put(tx, storage.Key(rec.PersonID, sessionID), struct{}{}, s.collect(rec)); err != nil {
		return "", nil, err
	}
	return sessionID, ended, sessionKeys.Create(tx, rec.Cookie, sessionKeyRecord{SessionID: sessionID}, s.collect(rec))
}

// renew gives a session another cookie: whoever has the one before is out.
func (s *Service) renew(tx storage.Tx, id, token string) (sessionRecord, error) {
	rec, err := sessions.Get(tx, id)
	if err != nil {
		return rec, err
	}
	if err := sessionKeys.Delete(tx, rec.Cookie); err != nil {
		return rec, err
	}
	rec.Cookie = secret.Hash(token)
	if err := sessions.Put(tx, id, rec, s.collect(rec)); err != nil {
		return rec, err
	}
	return rec, sessionKeys.Create(tx, rec.Cookie, sessionKeyRecord{SessionID: id}, s.collect(rec))
}

// end removes a session and its cookie, and tells who wants to know.
func (s *Service) end(tx storage.Tx, id string, rec sessionRecord) error {
	if err := sessionKeys.Delete(tx, rec.Cookie); err != nil {
		return err
	}
	if err := sessions.Delete(tx, id); err != nil {
		return err
	}
	if err := sessionsOf.Delete(tx, storage.Key(rec.PersonID, id)); err != nil {
		return err
	}
	if rec.Held {
		if err := held.Delete(tx, id); err != nil {
			return err
		}
	}
	return s.watcher().SessionEnded(tx, rec.PersonID, id)
}

// Sessions returns the live sessions of a person, the oldest first.
func (s *Service) Sessions(tx storage.Tx, subject string, now time.Time) ([]login.Session, error) {
	p, err := persons.Get(tx, subject)
	if err != nil || p.State != Active {
		return nil, err
	}
	var out []login.Session
	for e, err := range sessionsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(subject)}) {
		if err != nil {
			return nil, err
		}
		si, err := s.Session(tx, storage.Parts(e.Key)[1], now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if si.Epoch == p.Epoch && si.Subject == subject {
			out = append(out, si)
		}
	}
	slices.SortStableFunc(out, func(a, b login.Session) int { return a.AuthTime.Compare(b.AuthTime) })
	return out, nil
}

// CloseSession ends a session of a person within tx, or returns storage.ErrNotFound when the person has none of this id.
func (s *Service) CloseSession(tx storage.Tx, subject, id string) error {
	rec, err := sessions.Get(tx, id)
	if err != nil {
		return err
	}
	if rec.PersonID != subject {
		return storage.ErrNotFound
	}
	return s.end(tx, id, rec)
}

// SignOut ends the browser's session, if it has one, and clears its cookie. It writes no answer. via is a path of ours that signs the browser
// out at the identity provider too and then leads to ret; "" when there is none to go to.
func (s *Service) SignOut(w http.ResponseWriter, r *http.Request, ret string) (via string, err error) {
	token := s.jar.Get(r, kindSession)
	if !secret.IsToken(secret.Session, token) {
		s.jar.Clear(w, kindSession)
		return "", nil
	}
	before, err := s.current(r)
	if err != nil {
		return "", err
	}
	if before != nil {
		if via, err = s.farewell(w, r, before, ret); err != nil { // the session ends whatever becomes of the provider's
			s.Log.Warn("no sign-out at the provider", zap.String("provider", before.session.Provider), zap.Error(err))
			via = ""
		}
	}
	ev, err := s.newEvents(s.Origin(r), signedOut)
	if err != nil {
		return "", err
	}
	hash, now := secret.Hash(token), s.Now()
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		si, err := s.open(tx, hash, now)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.end(tx, si.id, si.session); err != nil {
			return err
		}
		return s.Events.Append(tx, si.own(ev[0], ""))
	})
	if err != nil {
		return "", err
	}
	s.jar.Clear(w, kindSession)
	return via, nil
}

// own completes an event that the person of a session caused.
func (si *signedIn) own(e event.Event, reason string) event.Event {
	by := Actor{ID: si.session.PersonID, Name: si.person.Username, Session: si.id}
	return by.did(e, si.session.PersonID, reason)
}

// EndAllSessions ends every session there is, within tx. A restore of a backup calls it, so that what was ended since stays ended.
func EndAllSessions(tx storage.Tx) error {
	g, err := globals.Get(tx, globalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	g.Epoch++
	return globals.Put(tx, globalKey, g, time.Time{})
}

// forgottenSessions bounds how many sessions are taken away with their person. None is worth anything then: the others are collected in their time.
const forgottenSessions = 1000

// forgetSessions removes the sessions of a person with what was begun in them: they tell where the person was, and what a provider has said of them.
func (s *Service) forgetSessions(tx storage.Tx, person string) error {
	var ids []string
	for e, err := range sessionsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person), Limit: forgottenSessions}) {
		if err != nil {
			return err
		}
		ids = append(ids, storage.Parts(e.Key)[1])
	}
	for _, id := range ids {
		rec, err := sessions.Get(tx, id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err == nil && rec.PersonID == person {
			if err := sessionKeys.Delete(tx, rec.Cookie); err != nil {
				return err
			}
			if err := s.forgetSession(tx, id); err != nil {
				return err
			}
		}
		if err := sessionsOf.Delete(tx, storage.Key(person, id)); err != nil {
			return err
		}
	}
	return signedIns.Delete(tx, person)
}

// forgetSession removes a session, but for its keys, with what was begun in it.
func (s *Service) forgetSession(tx storage.Tx, id string) error {
	if err := sessions.Delete(tx, id); err != nil {
		return err
	}
	if err := held.Delete(tx, id); err != nil {
		return err
	}
	for _, h := range s.forgetHooks {
		if err := h(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// onForget adds a hook that forgets what was begun in a session whose person is removed. It is called in that transaction.
func (s *Service) onForget(h func(tx storage.Tx, session string) error) {
	s.forgetHooks = append(s.forgetHooks, h)
}

// keepSession lets one session of a person go on after a change of the password. It is a hook of that change.
func (s *Service) keepSession(tx storage.Tx, person, keep string, from, to int64) error {
	own, err := sessions.Get(tx, keep)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil || own.PersonID != person || own.Epoch != from {
		return err
	}
	own.Epoch = to
	return sessions.Put(tx, keep, own, s.collect(own))
}

// signsIn keeps that a person signs in, and tells whether they have before.
func signsIn(tx storage.Tx, personID string, now time.Time) (before bool, err error) {
	err = signedIns.Create(tx, personID, signedInRecord{First: now}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return true, nil
	}
	return false, err
}
