package session

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Current is a live session with its person.
type Current struct {
	ID      string
	Session Record
	Person  person.Record
}

// Locales returns the languages that the person has chosen.
func (c *Current) Locales() []string { return c.Person.Locales() }

// Result returns the sign-in as applications see it.
func (c *Current) Result() *authn.Result {
	return &authn.Result{
		Subject: c.Session.PersonID, SessionID: c.ID, AuthTime: c.Session.AuthTime, Level: c.Session.Level,
		AMR: c.Session.AMR, References: c.Session.references(), Provider: c.Session.Provider, Details: c.Session.Details,
		Vouched: c.Session.Vouched,
	}
}

// OwnEvent completes an event that the person of the session has caused.
func (c *Current) OwnEvent(e audit.Event, reason string) audit.Event {
	by := audit.Actor{ID: c.Session.PersonID, Name: c.Person.Username, Session: c.ID}
	if e.Counts() != "" {
		e.Provider = c.Session.Provider
	}
	return by.Fill(e, c.Session.PersonID, reason)
}

// CurrentOf returns the browser's sign-in, or nil. It shows no page.
func (s *Service) CurrentOf(r *http.Request) (*authn.Result, error) {
	c, err := s.Read(r)
	if err != nil || c == nil {
		return nil, err
	}
	return c.Result(), nil
}

// Read returns the live session that the request's cookie opens, or nil.
func (s *Service) Read(r *http.Request) (c *Current, err error) {
	now := s.deps.Now()
	err = s.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		c, err = s.ReadIn(tx, r, now)
		return err
	})
	return c, err
}

// ReadIn is Read within a transaction.
func (s *Service) ReadIn(tx storage.Tx, r *http.Request, now time.Time) (*Current, error) {
	token := s.deps.Jar.Get(r, CookieSession)
	if !secret.IsToken(secret.Session, token) {
		return nil, nil //nolint:nilnil // the browser is not signed in
	}
	c, err := s.Open(tx, secret.Hash(token), now)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // the browser is not signed in
	}
	if err == nil && s.trusts != nil && !s.trusts(r, c.Session.Provider) {
		return nil, nil //nolint:nilnil // signed in, but not from here
	}
	if err == nil && !s.admits(r, c, now) {
		return nil, nil //nolint:nilnil // the cookie alone, without the device
	}
	return c, err
}

// Key is the record that ReadIn reads first, for those who read others along with it. nil: the browser is not signed
// in.
func (s *Service) Key(r *http.Request) []byte {
	token := s.deps.Jar.Get(r, CookieSession)
	if !secret.IsToken(secret.Session, token) {
		return nil
	}
	return keyRecords.Key(secret.Hash(token))
}

// TrustBy sets what reports whether a session of a provider is accepted from the sender of a request.
// (docs/decisions/providers.md#header-provider)
func (s *Service) TrustBy(trusts func(r *http.Request, provider string) bool) { s.trusts = trusts }

// CountBy sets what reports whether people can sign in by a provider. Sessions of others have ended.
// (docs/decisions/providers.md#providers-that-are-disabled)
func (s *Service) CountBy(signsIn func(tx storage.Tx, provider string) (bool, error)) {
	s.signsIn = signsIn
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
