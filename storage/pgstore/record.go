package pgstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// A row has the parts of the stored form of package engine: the value (v), the expiry (x, NULL: never) and the checksum
// (c), which covers all of them and the key.

// epoch2000 is the epoch of the database's timestamps, in microseconds since 1970.
const epoch2000 = 946684800 * 1_000_000

// sayable returns an expiry that the database can keep: one after the year 9999 is never.
func sayable(expires time.Time) time.Time {
	switch year := expires.UTC().Year(); {
	case year > 9999:
		return time.Time{}
	case year < 1:
		return time.Unix(0, 0)
	}
	return expires
}

// expiryColumn returns the binary form of x.
func expiryColumn(stored []byte) []byte {
	us := engine.RecordExpiry(stored)
	if us == 0 {
		return nil
	}
	return int8Of(us - epoch2000)
}

// storedOf puts the columns v, x and c of a row together again and checks them.
func storedOf(key, v, x, c []byte) ([]byte, error) {
	if len(c) != 8 || x != nil && len(x) != 8 {
		return nil, fmt.Errorf("%w: a column is missing", storage.ErrCorrupt)
	}
	b := make([]byte, engine.RecordHead, engine.RecordHead+len(v))
	copy(b, c)
	if x != nil {
		binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(x)+epoch2000)
	}
	b = append(b, v...)
	return b, engine.CheckRecord(key, b)
}
