package badgerstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A record is stored as checksum (8 bytes), expiry (8 bytes, microseconds since 1970, 0: never) and value. The checksum
// covers the key too, so a value that ends up under another key counts as damaged.
const recordHead = 16

// Stored keys start with one byte that tells records from internal keys, so callers can use every key, even the empty
// one.
const (
	recordSpace = 'r'
	metaSpace   = 'm'
)

// counterKey holds the number of the last commit; each commit writes it together with its records.
var counterKey = []byte{metaSpace, 's', 'e', 'q'}

func encodeRecord(key, value []byte, expires time.Time) []byte {
	b := make([]byte, recordHead+len(value))
	if !expires.IsZero() {
		binary.BigEndian.PutUint64(b[8:], uint64(expiryMicros(expires)))
	}
	copy(b[recordHead:], value)
	binary.BigEndian.PutUint64(b, recordSum(key, b))
	return b
}

// expiryMicros never returns 0, which is "never".
func expiryMicros(t time.Time) int64 {
	if us := t.UnixMicro(); us != 0 {
		return us
	}
	return 1
}

func recordSum(key, stored []byte) uint64 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(key)))
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(n[:])
	_, _ = d.Write(key)
	_, _ = d.Write(stored[8:])
	return d.Sum64()
}

// checkRecord returns an error unless stored is what was written under key.
func checkRecord(key, stored []byte) error {
	if len(stored) < recordHead {
		return fmt.Errorf("%w: it has %d bytes, fewer than its head", storage.ErrCorrupt, len(stored))
	}
	if binary.BigEndian.Uint64(stored) != recordSum(key, stored) {
		return fmt.Errorf("%w: its checksum does not match", storage.ErrCorrupt)
	}
	return nil
}

// recordExpiry returns microseconds since 1970, or 0 for never.
func recordExpiry(stored []byte) int64 {
	return int64(binary.BigEndian.Uint64(stored[8:]))
}

// expires is recordExpiry as a time. The zero time: never.
func expires(stored []byte) time.Time {
	us := recordExpiry(stored)
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// expired tells whether a record can be collected.
func expired(stored []byte, now time.Time) bool {
	us := recordExpiry(stored)
	return us != 0 && us < now.UnixMicro()
}

// timeToLive returns Badger's expiry in seconds since 1970: the record's own, rounded up, plus the margin. Badger
// collects by the machine's clock, so the margin covers a clock that runs ahead.
func timeToLive(stored []byte, margin time.Duration) uint64 {
	us := recordExpiry(stored)
	if us == 0 {
		return 0
	}
	sec := us/1e6 + 1 + int64(margin/time.Second)
	return uint64(min(max(sec, 1), math.MaxInt64))
}
