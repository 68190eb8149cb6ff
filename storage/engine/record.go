package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gatehouse-id/gatehouse/storage"
)

// RecordHead is the length of what stands before the value: a record is stored as checksum (8 bytes), expiry (8 bytes,
// microseconds since 1970, 0: never) and value. The checksum covers the key too, so a value that ends up under another
// key counts as damaged.
const RecordHead = 16

// EncodeRecord returns the stored form of a record.
func EncodeRecord(key, value []byte, expires time.Time) []byte {
	b := make([]byte, RecordHead+len(value))
	if !expires.IsZero() {
		binary.BigEndian.PutUint64(b[8:], uint64(expiryMicros(expires)))
	}
	copy(b[RecordHead:], value)
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

// CheckRecord returns an error unless stored is what was written under key.
func CheckRecord(key, stored []byte) error {
	if len(stored) < RecordHead {
		return fmt.Errorf("%w: it has %d bytes, fewer than its head", storage.ErrCorrupt, len(stored))
	}
	if binary.BigEndian.Uint64(stored) != recordSum(key, stored) {
		return fmt.Errorf("%w: its checksum does not match", storage.ErrCorrupt)
	}
	return nil
}

// RecordExpiry returns microseconds since 1970, or 0 for never.
func RecordExpiry(stored []byte) int64 {
	return int64(binary.BigEndian.Uint64(stored[8:]))
}

// Expires is RecordExpiry as a time. The zero time: never.
func Expires(stored []byte) time.Time {
	us := RecordExpiry(stored)
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// Expired reports whether a record can be collected.
func Expired(stored []byte, now time.Time) bool {
	us := RecordExpiry(stored)
	return us != 0 && us < now.UnixMicro()
}
