package stats

import (
	"encoding/binary"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	dues   = storage.NewTable[dueRecord]("tally_due")   // when, id -> what is not in the counters yet
	counts = storage.NewTable[countRecord]("tally")     // unit, partition, measure, dimension, bucket, value
	active = storage.NewTable[struct{}]("tally_active") // day, person, dimension, value: counted on that day
	lasts  = storage.NewTable[Last]("tally_last")       // measure, dimension, value: when it happened last
	never  = time.Time{}                                // those that are due are removed when they are counted
)

// dueRecord is something that has happened. It is written blindly, so those who write it never meet each other.
type dueRecord struct {
	Measure   string               `cbor:"m"`
	At        time.Time            `cbor:"t"`
	Count     int64                `cbor:"n,omitempty"` // 0: once
	Partition string               `cbor:"pt,omitempty"`
	Person    string               `cbor:"p,omitempty"`
	By        map[Dimension]string `cbor:"b,omitempty"`
	Reason    string               `cbor:"r,omitempty"` // of what has failed
	Address   string               `cbor:"a,omitempty"` // of the program that has called
}

// Last is the last occurrence of something.
type Last struct {
	At      time.Time `cbor:"t"`
	Reason  string    `cbor:"r,omitempty"` // of what has failed
	Address string    `cbor:"a,omitempty"` // of the program that has called
}

// countRecord is the number of occurrences in a bucket. The one without a value says how many values there are.
type countRecord struct {
	Count  int64 `cbor:"n,omitempty"`
	Values int   `cbor:"v,omitempty"`
}

// series identifies the counts of a counter, but for the time and the value.
type series struct {
	unit      Unit
	partition string // empty: all of them
	measure   string
	by        Dimension // empty: everything
}

// prefix is the beginning of the keys of a series.
func (s series) prefix() string {
	return string(storage.Prefix(string(s.unit), s.partition, s.measure, string(s.by)))
}

// bucket is the key of a bucket of a series, in front of the value.
func (s series) bucket(start time.Time) string {
	p := s.prefix()
	return string(binary.BigEndian.AppendUint64(append(make([]byte, 0, len(p)+8), p...), uint64(start.Unix()))) //nolint:gosec // after 1970
}

// startOf is the time in the key of a counter after its prefix, and valueOf what follows it.
func startOf(rest string) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64([]byte(rest[:8]))), 0).UTC() //nolint:gosec // from bucket
}

func valueOf(rest string) string { return rest[8:] }

// dueKey keeps what is due in the order of time.
func dueKey(at time.Time, id string) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))) + id //nolint:gosec // after 1970
}

// markKey says that a person counts on a day.
func markKey(day time.Time, person string, by Dimension, value string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(day.Unix()/86400))) + storage.Key(person, string(by), //nolint:gosec // until 2106 and far beyond
		value)
}

func dueAt(key []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(key[len(dues.Key("")):]))) //nolint:gosec // from dueKey
}
