package event

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Newest returns the time of the newest event of the default partition, zero without events. A clock that has been set
// back shows in it.
func Newest(tx storage.Tx) (newest time.Time, err error) {
	for _, c := range []Chain{{Partition: DefaultPartition}, {Partition: DefaultPartition, Brief: true}} {
		next, found, err := nexts.Find(tx, c.key())
		if err != nil {
			return newest, err
		}
		if !found || next < 2 {
			continue
		}
		e, found, err := events.Find(tx, c.at(next-1))
		if err != nil {
			return newest, err
		}
		if found && e.Occurred.After(newest) {
			newest = e.Occurred
		}
	}
	return newest, nil
}
