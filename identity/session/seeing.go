package session

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// See writes whose account a live session looks at, nil for its own, and returns what was written before. It returns
// storage.ErrNotFound for a session that has ended.
func (s *Service) See(tx storage.Tx, id string, whose *SeeingRecord, now time.Time) (before *SeeingRecord, err error) {
	rec, err := s.Live(tx, id, now)
	if err != nil {
		return nil, err
	}
	before, rec.Seeing = rec.Seeing, whose
	return before, Records.Put(tx, id, rec, s.Collect(rec))
}
