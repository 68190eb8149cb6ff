package sitesession

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Cookie is the kind of the cookie of a session at a site. (package cookie)
const Cookie = "site"

// Devices returns how the browsers of a site bind their sessions to a device. offered: new ones too
func (s *Sessions) Devices(origin string, offered bool, noted func(dbsc.Outcome)) *dbsc.Exchange {
	return &dbsc.Exchange{
		Guard: s.deps.Devices, Store: s.deps.Store, Sessions: atSite{s, origin}, Origin: origin, Jar: cookie.For(origin), Session: Cookie,
		Offered: offered, Noted: noted, Now: s.deps.Now,
	}
}

// atSite are the sessions of one site, for package dbsc.
type atSite struct {
	sessions *Sessions
	origin   string
}

func (a atSite) Find(tx storage.Tx, token string, now time.Time) (dbsc.Device, error) {
	if !secret.IsToken(secret.SiteSession, token) {
		return dbsc.Device{}, storage.ErrNotFound
	}
	got, _, err := a.sessions.read(tx, secret.Hash(token), now)
	if err == nil && (got.who == nil || got.origin != a.origin) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return dbsc.Device{}, err
	}
	return got.device, nil
}

func (atSite) Binder(q dbsc.Request) (func(tx storage.Tx, key []byte, now time.Time) error, error) {
	hash := secret.Hash(q.Token)
	return func(tx storage.Tx, key []byte, _ time.Time) error {
		rec, err := sessions.Get(tx, hash)
		if err != nil {
			return err
		}
		rec.DeviceKey = key
		return sessions.Put(tx, hash, rec, rec.ExpiresAt)
	}, nil
}
