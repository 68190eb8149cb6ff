package actiontoken

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

// offersLinks tells whether people can make links on a page that sign them in on another device.
func offersLinks(f *config.Features) bool {
	return f.LoginEnabled && f.ActionToken.Login.Enabled && f.ActionToken.Login.UIGenerationEnabled
}

// GivesLinks tells whether a sign-in can be carried over to another device. A sign-in by a provider cannot, since the
// provider decides how long it lasts.
func GivesLinks(r *session.Record, u *config.Units) bool {
	return offersLinks(&u.Features) && (r.Provider == session.LocalProvider || r.Provider == "")
}

// readMaker returns the session in which the person has made a token on a page, nil for any other token.
// ErrNoToken: the session has ended.
func (s *Service) readMaker(tx storage.Tx, id, person string, epoch int64, now time.Time) (*session.Record, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // an API client has made it
	}
	rec, err := s.session.Live(tx, id, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.PersonID != person || rec.Epoch != epoch) {
		err = ErrNoToken
	}
	return &rec, err
}

// inherit returns a session of the same person on another device that is no better than from: it keeps raised levels
// only as long as from does, does not count as a sign-in of its own, and ends no later than from would.
func (s *Service) inherit(from *session.Record, level int, now time.Time) session.Record {
	begun := from.Start()
	if from.Passkey == "" && slices.Contains(begun.AMR, session.AMRPasskey) { // an old record: without the passkey the level could not fall with its removal
		begun.Level = session.PasswordLevel
	}
	rec := session.Record{
		PersonID: from.PersonID, Epoch: from.Epoch, AuthTime: from.AuthTime, Unproven: from.Unproven, Opened: now, Seen: now,
		NotAfter: s.session.Latest(*from), Provider: session.LocalProvider, Passkey: from.Passkey,
		Base: &session.BaseRecord{Level: min(begun.Level, level), AMR: []string{session.AMRCustom}},
	}
	for _, x := range from.Raised {
		if x.Level = min(x.Level, level); x.Level > session.PasswordLevel { // even at or below the base level, which can fall
			rec.Raised = append(rec.Raised, x)
		}
	}
	rec.SettleLevel()
	return rec
}
