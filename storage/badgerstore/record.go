package badgerstore

import (
	"math"
	"time"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// Stored keys start with one byte that tells records from internal keys, so callers can use every key, even the empty
// one.
const (
	recordSpace = 'r'
	metaSpace   = 'm'
)

// counterKey holds the number of the last commit; each commit writes it together with its records.
var counterKey = []byte{metaSpace, 's', 'e', 'q'}

// timeToLive returns Badger's expiry in seconds since 1970: the record's own, rounded up, plus the margin. Badger
// collects by the machine's clock, so the margin covers a clock that runs ahead.
func timeToLive(stored []byte, margin time.Duration) uint64 {
	us := engine.RecordExpiry(stored)
	if us == 0 {
		return 0
	}
	sec := us/1e6 + 1 + int64(margin/time.Second)
	return uint64(min(max(sec, 1), math.MaxInt64))
}
