package session

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// exchange returns what lets browsers bind their sessions to a device.
func (s *Service) exchange() *dbsc.Exchange {
	return &dbsc.Exchange{
		Guard: s.deps.Devices, Store: s.deps.Store, Sessions: s, Origin: s.deps.Issuer, Jar: s.deps.Jar, Session: CookieSession,
		Offered: s.cfg.DeviceBound && s.deps.Jar.CrossesSites(), Noted: s.noted, Now: s.deps.Now,
	}
}

// BindsDevices reports whether new sessions are bound to devices.
func (s *Service) BindsDevices() bool { return s.cfg.DeviceBound }

// CountDevicesBy sets what counts the steps of binding sessions to devices.
func (s *Service) CountDevicesBy(noted func(dbsc.Outcome)) { s.noted = noted }

// ServeDevice serves the paths of package dbsc.
func (s *Service) ServeDevice(w http.ResponseWriter, r *http.Request) {
	s.exchange().Serve(w, dbsc.Request{Request: r, Token: s.deps.Jar.Get(r, CookieSession)})
}

// IsBound reports whether the session counts on the device of its browser alone.
func (r *Record) IsBound() bool { return len(r.DeviceKey) > 0 }

// deviceOf returns the device of a session.
func deviceOf(id string, rec *Record) dbsc.Device {
	return dbsc.Device{Subject: id, Key: rec.DeviceKey}
}

// Find implements dbsc.Sessions.
func (s *Service) Find(tx storage.Tx, token string, now time.Time) (dbsc.Device, error) {
	if !secret.IsToken(secret.Session, token) {
		return dbsc.Device{}, storage.ErrNotFound
	}
	c, err := s.Open(tx, secret.Hash(token), now)
	if err != nil {
		return dbsc.Device{}, err
	}
	return deviceOf(c.ID, &c.Session), nil
}

// Binder implements dbsc.Sessions.
func (s *Service) Binder(q dbsc.Request) (func(tx storage.Tx, key []byte, now time.Time) error, error) {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), deviceBound)
	if err != nil {
		return nil, err
	}
	hash := secret.Hash(q.Token)
	return func(tx storage.Tx, key []byte, now time.Time) error {
		c, err := s.Open(tx, hash, now)
		if err != nil {
			return err
		}
		c.Session.DeviceKey = key
		if err := Records.Put(tx, c.ID, c.Session, s.Collect(c.Session)); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, c.OwnEvent(ev[0], ""))
	}, nil
}

// admits reports whether a session counts in a request: one that is bound needs its second cookie.
func (s *Service) admits(r *http.Request, c *Current, now time.Time) bool {
	return s.deps.Devices.Admits(deviceOf(c.ID, &c.Session), s.deps.Jar.Get(r, dbsc.Cookie), now)
}

// offerDevice lets the browser that gets the cookie of a session bind it to its device.
func (s *Service) offerDevice(w http.ResponseWriter, token string) {
	if err := s.exchange().Offer(w.Header(), token); err != nil {
		s.deps.Log.Warn("session not offered to be bound to its device", zap.Error(err))
	}
}

// ForgetSecond takes away the second cookie of a session that does not count any more, so a browser that has its key
// asks for another one before its next request.
func (s *Service) ForgetSecond(w http.ResponseWriter, r *http.Request) {
	if s.deps.Jar.Get(r, dbsc.Cookie) != "" {
		s.deps.Jar.Clear(w, dbsc.Cookie)
	}
}

// ClearCookies takes the cookies of a session that has ended away.
func (s *Service) ClearCookies(w http.ResponseWriter, r *http.Request) {
	s.deps.Jar.Clear(w, CookieSession)
	s.ForgetSecond(w, r)
}
