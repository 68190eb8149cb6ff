package audit

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Newest returns the time of the newest event of the default partition, zero without events. A clock that has been set
// back shows in it.
func Newest(tx storage.Tx) (newest time.Time, err error) {
	for last, err := range nexts.Scan(tx, storage.Range{Prefix: storage.Prefix(DefaultPartition)}) {
		if err != nil {
			return newest, err
		}
		e, found, err := events.Find(tx, numbered(last.Key, last.Value-1))
		if err != nil {
			return newest, err
		}
		if found && e.Occurred.After(newest) {
			newest = e.Occurred
		}
	}
	return newest, nil
}

// Kept returns how many events there are that were not collected.
func Kept(tx storage.Tx) (n int64, err error) {
	for e, err := range nexts.Scan(tx, storage.Range{}) {
		if err != nil {
			return 0, err
		}
		c, _, err := chains.Find(tx, e.Key)
		if err != nil {
			return 0, err
		}
		n += int64(e.Value - 1 - c.CutEvent) //nolint:gosec // far below the limit
	}
	return n, nil
}
