package session

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Locales are the languages that a person has chosen.
func (si *Current) Locales() []string {
	if si.Person.Locale == "" {
		return nil
	}
	return []string{si.Person.Locale}
}

// Matches tells whether the session has one of the names, where names are given.
func (h *HeldRecord) Matches(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(h.Names, func(n string) bool { return slices.Contains(names, n) })
}

const (
	CookieSession = "session" // cookie that opens a session
	CookieDevice  = "device"  // cookie that recognises a browser; it opens nothing

	markEvery    = time.Minute          // the idle mark is written at most so often
	DeviceLife   = 400 * 24 * time.Hour // the longest that browsers keep a cookie
	CollectAfter = time.Hour            // how long after its end a record may be collected

	PasswordLevel = 1
	LocalProvider = "identity"
)

// Current is a live session with its person.
type Current struct {
	ID      string
	Session Record
	Person  person.Record
}

func (si *Current) Result() *login.Result {
	return &login.Result{
		Subject: si.Session.PersonID, SessionID: si.ID, AuthTime: si.Session.AuthTime, Level: si.Session.Level,
		AMR: si.Session.AMR, References: si.Session.references(), Provider: si.Session.Provider, Details: si.Session.Details,
	}
}

// CurrentOf returns the browser's sign-in, or nil when there is none, without any page.
func (s *Service) CurrentOf(r *http.Request) (*login.Result, error) {
	si, err := s.Read(r)
	if err != nil || si == nil {
		return nil, err
	}
	return si.Result(), nil
}

// Read returns the live session that the request's cookie opens, or nil.
func (s *Service) Read(r *http.Request) (si *Current, err error) {
	now := s.now()
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		si, err = s.ReadIn(tx, r, now)
		return err
	})
	return si, err
}

// ReadIn is Read within a transaction.
func (s *Service) ReadIn(tx storage.Tx, r *http.Request, now time.Time) (*Current, error) {
	token := s.jar.Get(r, CookieSession)
	if !secret.IsToken(secret.Session, token) {
		return nil, nil //nolint:nilnil // the browser is not signed in
	}
	si, err := s.Open(tx, secret.Hash(token), now)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // the browser is not signed in
	}
	return si, err
}

// Open returns the live session of a cookie and its person, or storage.ErrNotFound.
func (s *Service) Open(tx storage.Tx, hash string, now time.Time) (*Current, error) {
	key, err := keyRecords.Get(tx, hash)
	if err != nil {
		return nil, err
	}
	rec, err := s.Live(tx, key.SessionID, now)
	if err != nil {
		return nil, err
	}
	p, err := person.Records.Get(tx, rec.PersonID)
	if err != nil {
		return nil, err
	}
	if rec.Cookie != hash || p.State != person.Active || p.Epoch != rec.Epoch {
		return nil, storage.ErrNotFound
	}
	return &Current{ID: key.SessionID, Session: rec, Person: p}, nil
}

// Live returns a session that has not ended by itself, or storage.ErrNotFound. The person's state and epoch are the caller's to check.
func (s *Service) Live(tx storage.Tx, id string, now time.Time) (Record, error) {
	rec, err := Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	g, err := Globals.Get(tx, GlobalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return rec, err
	}
	if rec.Global != g.Epoch || !s.ends(rec).After(now) {
		return rec, storage.ErrNotFound
	}
	return rec, nil
}

// Get returns a live session, or storage.ErrNotFound when it has ended, has expired or never was. The caller compares its epoch with
// the person's.
func (s *Service) Get(tx storage.Tx, id string, now time.Time) (login.Session, error) {
	rec, err := s.Live(tx, id, now)
	if err != nil {
		return login.Session{}, err
	}
	si := Current{ID: id, Session: rec}
	return login.Session{Result: *si.Result(), Epoch: rec.Epoch, Ends: s.ends(rec), Seen: rec.Seen}, nil
}

// ends returns when a session ends at the latest, were it used no more. It follows the configuration of today.
func (s *Service) ends(rec Record) time.Time {
	at := s.Latest(rec)
	if idle := rec.Seen.Add(s.cfg.Idle); idle.Before(at) && !s.remembers(rec) {
		at = idle
	}
	return at
}

// Latest returns when a session ends however much it is used.
func (s *Service) Latest(rec Record) time.Time {
	at := rec.OpenedAt().Add(s.cfg.Absolute)
	if s.remembers(rec) {
		at = rec.OpenedAt().Add(s.cfg.Remember)
	}
	if !rec.NotAfter.IsZero() && rec.NotAfter.Before(at) { // SAML core 2.7.2: SessionNotOnOrAfter
		return rec.NotAfter
	}
	return at
}

func (s *Service) remembers(rec Record) bool {
	return rec.Remembered && s.OffersRemember()
}

// OffersRemember tells whether a person can ask to stay signed in.
func (s *Service) OffersRemember() bool { return s.cfg.Remember > 0 }

// OpenedAt is when the lifetimes of a session begin.
func (r *Record) OpenedAt() time.Time {
	if r.Opened.IsZero() {
		return r.AuthTime
	}
	return r.Opened
}

// Collect returns when the records of a session may be collected.
func (s *Service) Collect(rec Record) time.Time {
	return rec.OpenedAt().Add(max(s.cfg.Absolute, s.cfg.Remember) + CollectAfter)
}

// Touch marks a session as used now, at most once a minute.
func (s *Service) Touch(ctx context.Context, id string) error { return s.mark(ctx, id, nil) }

// mark is Touch, and keeps from where the session was used. nil: that is not known.
func (s *Service) mark(ctx context.Context, id string, from *event.Origin) error {
	now := s.now()
	due := func(tx storage.Tx) (Record, bool, error) {
		rec, err := s.Live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			return rec, false, nil
		}
		return rec, err == nil && (now.Sub(rec.Seen) >= markEvery || rec.Address == "" && from != nil), err
	}
	var write bool
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		_, write, err = due(tx)
		return err
	})
	if err != nil || !write {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error {
		rec, ok, err := due(tx)
		if err != nil || !ok {
			return err
		}
		rec.Seen = now
		if from != nil {
			rec.From(*from)
		}
		return Records.Put(tx, id, rec, s.Collect(rec))
	})
}

// Use is Touch for a request that goes on even when the mark cannot be written.
func (s *Service) Use(r *http.Request, si *Current) {
	if s.now().Sub(si.Session.Seen) < markEvery && si.Session.Address != "" {
		return
	}
	from := s.origin(r)
	if err := s.mark(r.Context(), si.ID, &from); err != nil {
		s.log.Error("idle mark not written", zap.String("session_id", si.ID), zap.Error(err))
	}
}

// Begin opens a session for the person in tx. token is the new cookie, old the hash of the browser's cookie before, id the id of a new
// session. The same person in the same browser goes on in the same session under a new cookie, so that what hangs on it lives on;
// another person's session in this browser ends.
func (s *Service) Begin(tx storage.Tx, id, token, old string, rec Record) (sessionID string, ended *Current, err error) {
	g, err := Globals.Get(tx, GlobalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	rec.Global, rec.Cookie, sessionID = g.Epoch, secret.Hash(token), id
	u, err := s.units(tx)
	if err != nil {
		return "", nil, err
	}
	if !u.Features.LoginEnabled {
		return "", nil, ErrClosed
	}
	before, err := s.Open(tx, old, rec.Seen)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	if err == nil {
		if err := keyRecords.Delete(tx, old); err != nil {
			return "", nil, err
		}
		if before.Session.PersonID == rec.PersonID {
			sessionID = before.ID
			if before.Session.Held && !rec.Held {
				if err := HeldRecords.Delete(tx, sessionID); err != nil {
					return "", nil, err
				}
			}
		} else {
			ended = before
			if err := s.End(tx, before.ID, before.Session); err != nil {
				return "", nil, err
			}
		}
	}
	if err := Records.Put(tx, sessionID, rec, s.Collect(rec)); err != nil {
		return "", nil, err
	}
	if err := recordsOf.Put(tx, storage.Key(rec.PersonID, sessionID), struct{}{}, s.Collect(rec)); err != nil {
		return "", nil, err
	}
	return sessionID, ended, keyRecords.Create(tx, rec.Cookie, keyRecord{SessionID: sessionID}, s.Collect(rec))
}

// Renew gives a session another cookie: whoever has the one before is out.
func (s *Service) Renew(tx storage.Tx, id, token string) (Record, error) {
	rec, err := Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
		return rec, err
	}
	rec.Cookie = secret.Hash(token)
	if err := Records.Put(tx, id, rec, s.Collect(rec)); err != nil {
		return rec, err
	}
	return rec, keyRecords.Create(tx, rec.Cookie, keyRecord{SessionID: id}, s.Collect(rec))
}

// End removes a session and its cookie, and tells who wants to know.
func (s *Service) End(tx storage.Tx, id string, rec Record) error {
	if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
		return err
	}
	if err := Records.Delete(tx, id); err != nil {
		return err
	}
	if err := recordsOf.Delete(tx, storage.Key(rec.PersonID, id)); err != nil {
		return err
	}
	if rec.Held {
		if err := HeldRecords.Delete(tx, id); err != nil {
			return err
		}
	}
	return s.person.Watcher().SessionEnded(tx, rec.PersonID, id)
}

// List returns the live sessions of a person, the oldest first.
func (s *Service) List(tx storage.Tx, subject string, now time.Time) ([]login.Session, error) {
	p, err := person.Records.Get(tx, subject)
	if err != nil || p.State != person.Active {
		return nil, err
	}
	var out []login.Session
	for e, err := range recordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(subject)}) {
		if err != nil {
			return nil, err
		}
		si, err := s.Get(tx, storage.Parts(e.Key)[1], now)
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
	rec, err := Records.Get(tx, id)
	if err != nil {
		return err
	}
	if rec.PersonID != subject {
		return storage.ErrNotFound
	}
	return s.End(tx, id, rec)
}

// OwnEvent completes an event that the person of a session caused.
func (si *Current) OwnEvent(e event.Event, reason string) event.Event {
	by := event.Actor{ID: si.Session.PersonID, Name: si.Person.Username, Session: si.ID}
	return by.Fill(e, si.Session.PersonID, reason)
}

// EndAllSessions ends every session there is, within tx. A restore of a backup calls it, so that what was ended since stays ended.
func EndAllSessions(tx storage.Tx) error {
	g, err := Globals.Get(tx, GlobalKey)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	g.Epoch++
	return Globals.Put(tx, GlobalKey, g, time.Time{})
}

// forgottenSessions bounds how many sessions are taken away with their person. None is worth anything then: the others are collected in their time.
const forgottenSessions = 1000

// ForgetSessions removes the sessions of a person with what was begun in them: they tell where the person was, and what a provider has said of them.
func (s *Service) ForgetSessions(tx storage.Tx, person string) error {
	var ids []string
	for e, err := range recordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person), Limit: forgottenSessions}) {
		if err != nil {
			return err
		}
		ids = append(ids, storage.Parts(e.Key)[1])
	}
	for _, id := range ids {
		rec, err := Records.Get(tx, id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err == nil && rec.PersonID == person {
			if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
				return err
			}
			if err := s.forgetSession(tx, id); err != nil {
				return err
			}
		}
		if err := recordsOf.Delete(tx, storage.Key(person, id)); err != nil {
			return err
		}
	}
	return FirstSignIns.Delete(tx, person)
}

// forgetSession removes a session, but for its keys, with what was begun in it.
func (s *Service) forgetSession(tx storage.Tx, id string) error {
	if err := Records.Delete(tx, id); err != nil {
		return err
	}
	if err := HeldRecords.Delete(tx, id); err != nil {
		return err
	}
	for _, h := range s.forgetHooks {
		if err := h(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// OnForget adds a hook that forgets what was begun in a session whose person is removed. It is called in that transaction.
func (s *Service) OnForget(h func(tx storage.Tx, session string) error) {
	s.forgetHooks = append(s.forgetHooks, h)
}

// KeepSession lets one session of a person go on after a change of the password. It is a hook of that change.
func (s *Service) KeepSession(tx storage.Tx, person, keep string, from, to int64) error {
	own, err := Records.Get(tx, keep)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil || own.PersonID != person || own.Epoch != from {
		return err
	}
	own.Epoch = to
	return Records.Put(tx, keep, own, s.Collect(own))
}

// MarkSignedIn keeps that a person signs in, and tells whether they have before.
func MarkSignedIn(tx storage.Tx, personID string, now time.Time) (before bool, err error) {
	err = FirstSignIns.Create(tx, personID, FirstSignInRecord{First: now}, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return true, nil
	}
	return false, err
}

// SetSession sets the new cookie of a session that goes on.
func (s *Service) SetSession(w http.ResponseWriter, token string, rec Record, now time.Time) {
	var life time.Duration
	if rec.Remembered {
		life = max(s.ends(rec).Sub(now), time.Second)
	}
	s.jar.Set(w, CookieSession, token, life)
}
