package session

import (
	"slices"
	"time"
)

// Inherit returns a session of the same person on another device that is no better than from: it keeps raised levels
// only as long as from does, does not count as a sign-in of its own, and ends no later than from would.
func (s *Service) Inherit(from *Record, level int, now time.Time) Record {
	begun := from.Start()
	if from.Passkey == "" && slices.Contains(begun.AMR,
		AMRPasskey) { // an old record: without the passkey the level could not fall with its removal
		begun.Level = PasswordLevel
	}
	rec := Record{
		PersonID: from.PersonID, Epoch: from.Epoch, AuthTime: from.AuthTime, Unproven: from.Unproven, Opened: now, Seen: now,
		NotAfter: s.Latest(*from), Provider: LocalProvider, Passkey: from.Passkey, Vouched: from.Vouched,
		Base: &BaseRecord{Level: min(begun.Level, level), AMR: []string{AMRCustom}},
	}
	for _, x := range from.Raised {
		if x.Level = min(x.Level, level); x.Level > PasswordLevel { // even at or below the base level, which can fall
			rec.Raised = append(rec.Raised, x)
		}
	}
	rec.SettleLevel()
	return rec
}
