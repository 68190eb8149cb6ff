package actiontoken

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ownLinks tells whether persons make action tokens on a page that sign them in elsewhere.
func ownLinks(f *config.Features) bool {
	return f.LoginEnabled && f.ActionToken.Login.Enabled && f.ActionToken.Login.UIGenerationEnabled
}

// GivesLinks tells whether a sign-in may be carried to another device: one at a provider may not, since that says how long it lasts and whom it is for.
func GivesLinks(r *session.Record, u *config.Units) bool {
	return ownLinks(&u.Features) && (r.Provider == session.LocalProvider || r.Provider == "")
}

// maker returns the session in which the person has made a token on a page, or nil for any other token. When the session is over: ErrNoActionToken.
func (s *Service) maker(tx storage.Tx, id, person string, epoch int64, now time.Time) (*session.Record, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // nobody's
	}
	rec, err := s.session.Live(tx, id, now)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (rec.PersonID != person || rec.Epoch != epoch) {
		err = ErrNoActionToken
	}
	return &rec, err
}

// heir returns a session of the same person on another device, no better than this one: it has what this one was raised to only as long as that lasts, is no
// sign-in of its own, and ends no later than this one would.
func (s *Service) heir(from *session.Record, level int, now time.Time) session.Record {
	begun := from.StartedAt()
	if from.Passkey == "" && slices.Contains(begun.AMR, session.PasskeyWord) { // nobody has kept by which, so it could not go with that
		begun.Level = session.PasswordLevel
	}
	rec := session.Record{
		PersonID: from.PersonID, Epoch: from.Epoch, AuthTime: from.AuthTime, Unproven: from.Unproven, Opened: now, Seen: now, NotAfter: s.session.Latest(*from), Provider: session.LocalProvider,
		Passkey: from.Passkey, Base: &session.BaseRecord{Level: min(begun.Level, level), AMR: []string{session.Word}},
	}
	for _, x := range from.Raised {
		if x.Level = min(x.Level, level); x.Level > session.PasswordLevel { // also what the sign-in has reached itself: that may fall
			rec.Raised = append(rec.Raised, x)
		}
	}
	rec.SettleLevel()
	return rec
}
