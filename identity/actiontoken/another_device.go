package actiontoken

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// offersLinks reports whether people can make links on a page that sign them in on another device.
func offersLinks(f *settings.Features) bool {
	return f.LoginEnabled && f.ActionToken.Login.Enabled && f.ActionToken.Login.UIGenerationEnabled
}

// GivesLinks reports whether a sign-in can be carried over to another device. A sign-in by a provider cannot, since the
// provider decides how long it lasts.
func GivesLinks(r *session.Record, u *settings.Units) bool {
	return offersLinks(&u.Features) && (r.Provider == session.LocalProvider || r.Provider == "")
}

// readMaker returns the session in which the person has made a token on a page, nil for any other token.
// ErrNoToken: the session has ended.
func (s *Service) readMaker(tx storage.Tx, id, person string, epoch int64, now time.Time) (*session.Record, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // an API client has made it
	}
	rec, err := s.deps.Session.Live(tx, id, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.PersonID != person || rec.Epoch != epoch) {
		err = ErrNoToken
	}
	return &rec, err
}
