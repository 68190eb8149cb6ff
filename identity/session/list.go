package session

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Live is a live session of a person.
type Live struct {
	ID  string
	Rec Record
}

// OpenSessions returns the live sessions of a person, the one used last first.
func (s *Service) OpenSessions(tx storage.Tx, personID string, epoch int64, now time.Time) (out []Live, err error) {
	for e, err := range recordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := s.Live(tx, id, now)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if rec.PersonID == personID && rec.Epoch == epoch {
			out = append(out, Live{id, rec})
		}
	}
	slices.SortStableFunc(out, func(a, b Live) int { return b.Rec.Seen.Compare(a.Rec.Seen) })
	return out, nil
}
