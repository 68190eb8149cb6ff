// Package sitesession stores the browser sessions of protected sites: it opens one for a one-time code, looks it up
// with each request, and ends it.
package sitesession

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	limit      = 31 * 24 * time.Hour // of a session at a site, however long the issuer's session lasts
	touchEvery = time.Minute         // how often the use of a site keeps the issuer's session from going idle
)

// answersKept is the maximum size of the cached answers in bytes: those of some 4,000 sessions.
const answersKept = 8 << 20

// Sessions are the sessions at the sites of one configuration. They are safe for concurrent use.
type Sessions struct {
	deps    Deps
	answers *depcache.Cache[*sessionResponse]
}

// Deps are the dependencies of the sessions. All are required.
type Deps struct {
	Store    storage.Store
	Devices  *dbsc.Guard
	Tokens   *token.Ledger
	Subjects Subjects
	Log      *zap.Logger
	Now      func() time.Time
}

// Subjects reads the issuer's sessions.
type Subjects interface {
	// Session returns a live session, or storage.ErrNotFound when it has ended, has expired or never was.
	Session(tx storage.Tx, id string, now time.Time) (authn.Session, error)
	// Touch marks a session as used now. It writes at most once a minute.
	Touch(ctx context.Context, id string) error
}

// New returns the sessions of a store. Several can share one.
func New(deps Deps) *Sessions {
	return &Sessions{deps: deps, answers: depcache.New(deps.Store, answersKept, (*sessionResponse).weigh)}
}

// Create stores a session under the hash of its cookie.
func (s *Sessions) Create(tx storage.Tx, hash, origin string, si token.SignIn, epochs token.Epochs, now time.Time) error {
	rec := sessionRecord{SignIn: si, Epochs: epochs, Origin: origin, CreatedAt: now, ExpiresAt: now.Add(limit)}
	if err := sessionindex.Note(tx, sessionindex.Site, origin, si.SessionID, rec.ExpiresAt); err != nil {
		return err
	}
	return sessions.Create(tx, hash, rec, rec.ExpiresAt)
}

// Drop ends a session.
func (s *Sessions) Drop(tx storage.Tx, hash string) error { return sessions.Delete(tx, hash) }

// Close ends a session of a site and returns the issuer's, or "" if the site has no such session.
func (s *Sessions) Close(tx storage.Tx, hash, origin string) (session string, err error) {
	rec, found, err := sessions.Find(tx, hash)
	if err != nil || !found || rec.Origin != origin {
		return "", err
	}
	return rec.SessionID, sessions.Delete(tx, hash)
}

// Former returns the person whose session a site's cookie was, though it may have ended since, or "". It vouches for
// nothing that happens now.
func (s *Sessions) Former(tx storage.Tx, origin, text string) (personID string, err error) {
	if !secret.IsToken(secret.SiteSession, text) {
		return "", nil
	}
	rec, found, err := sessions.Find(tx, secret.Hash(text))
	if err != nil || !found || rec.Origin != origin {
		return "", err
	}
	return rec.Subject, nil
}

// sessionResponse is the response for a cookie; who is nil: nothing.
type sessionResponse struct {
	who    *token.Introspection
	origin string
	seen   time.Time // when the issuer's session was marked as used
	device dbsc.Device
}

// aboutCookie is the only kind of question.
const aboutCookie = 0

// Find returns the person of a site's cookie, and for a session that is bound to a device of its second cookie too
// (package dbsc). An unknown, expired or signed-out cookie is inactive; an error is a failure, not a verdict. Using the
// site counts as using the issuer's session.
func (s *Sessions) Find(ctx context.Context, origin, text, second string) (*token.Introspection, error) {
	a, _, err := s.find(ctx, origin, text)
	if err != nil || a.who == nil || !s.deps.Devices.Admits(a.device, second, s.deps.Now().UTC()) {
		return &token.Introspection{}, err
	}
	who := *a.who
	return &who, ctx.Err()
}

// Observe is Find for a request that has passed: its second cookie can have ended since. It returns what the answer
// rests on, and is to be asked again before a session that is in use goes idle, not only once it has ended.
func (s *Sessions) Observe(ctx context.Context, origin, text string) (*token.Introspection, recheck.Basis, error) {
	a, basis, err := s.find(ctx, origin, text)
	if err != nil || a.who == nil {
		return &token.Introspection{}, basis, err
	}
	who := *a.who
	if left := basis.Until.Sub(s.deps.Now().UTC()); left > 2*touchEvery {
		basis.Until = basis.Until.Add(-left / 4)
	}
	return &who, basis, ctx.Err()
}

// find returns the answer about a cookie at a site, never nil without an error.
func (s *Sessions) find(ctx context.Context, origin, text string) (*sessionResponse, recheck.Basis, error) {
	if !secret.IsToken(secret.SiteSession, text) {
		return new(sessionResponse), recheck.Basis{}, nil
	}
	now, question := s.deps.Now().UTC(), depcache.KeyOf(aboutCookie, text)
	a, basis, ok := s.answers.FindBasis(question, now)
	if !ok {
		var err error
		a, basis, err = s.answers.Look(ctx, question, now, func(tx storage.Tx) (*sessionResponse, time.Time, error) {
			return s.read(tx, secret.Hash(text), now)
		})
		if err != nil {
			return nil, basis, oauth.StorageError(err)
		}
	}
	if a.who == nil || a.origin != origin {
		return new(sessionResponse), basis, ctx.Err()
	}
	if now.Sub(a.seen) >= touchEvery {
		if err := s.deps.Subjects.Touch(ctx, a.who.SessionID); err != nil {
			// The session is still valid.
			s.deps.Log.Warn("session not marked as used", zap.String("session_id", a.who.SessionID), zap.Error(err))
		}
	}
	return a, basis, ctx.Err()
}

// read returns the answer, and until when it stands if no record changes.
func (s *Sessions) read(tx storage.Tx, hash string, now time.Time) (a *sessionResponse, until time.Time, err error) {
	a = new(sessionResponse)
	rec, found, err := sessions.Find(tx, hash)
	if err != nil || !found || !rec.ExpiresAt.After(now) {
		return a, until, err
	}
	st, good, err := s.deps.Tokens.CheckStanding(tx, "", rec.Subject)
	if err != nil || !good {
		return a, until, err
	}
	if st.Epochs.Global, err = s.deps.Tokens.EpochIn(tx); err != nil || st.Epochs != rec.Epochs {
		return a, until, err
	}
	session, err := s.deps.Subjects.Session(tx, rec.SessionID, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && session.Epoch != st.Subject.Epoch {
		return a, until, nil
	}
	if err != nil {
		return a, until, err
	}
	until = rec.ExpiresAt
	if session.Ends.Before(until) {
		until = session.Ends
	}
	until = st.Subject.AssuredUntil(until, now)
	// A higher level that the session has reached since counts here too.
	who := &token.Introspection{
		Active: true, Subject: rec.Subject, TokenType: "session", IssuedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt, AuthTime: session.AuthTime,
		Level: session.Level, AMR: session.AMR, SessionID: rec.SessionID, Person: &st.Subject, Provider: session.Provider,
		DeviceBound: len(rec.DeviceKey) > 0,
	}
	return &sessionResponse{who, rec.Origin, session.Seen, dbsc.Device{Subject: hash, Key: rec.DeviceKey}}, until, nil
}

func (a *sessionResponse) weigh() int {
	if a.who == nil {
		return 0
	}
	return len(a.origin) + len(a.device.Key) + a.who.Weigh()
}
