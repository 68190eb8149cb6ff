package backup

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	made   = storage.NewTable[record]("backup_made")         // id, which ascends with time
	plans  = storage.NewTable[planRecord]("backup_schedule") // the one schedule
	trials = storage.NewTable[record]("backup_tested")       // the last test of whether a backup can be restored
)

// planRecord is a schedule, and what has become of it.
type planRecord struct {
	Every   Every        `cbor:"1,keyasint"`
	Weekday time.Weekday `cbor:"2,keyasint,omitempty"`
	Hour    int          `cbor:"3,keyasint,omitempty"`
	Keep    int          `cbor:"4,keyasint"`
	Next    time.Time    `cbor:"5,keyasint"`
	Last    time.Time    `cbor:"6,keyasint"`
	Problem string       `cbor:"7,keyasint,omitempty"`
}

// record is a backup that was made, or is being made.
type record struct {
	State   State     `cbor:"1,keyasint"`
	File    string    `cbor:"2,keyasint,omitempty"`
	Host    string    `cbor:"3,keyasint,omitempty"` // that writes it. Empty: a command does
	By      string    `cbor:"4,keyasint,omitempty"`
	Bytes   int64     `cbor:"5,keyasint,omitempty"`
	Records int64     `cbor:"6,keyasint,omitempty"`
	Began   time.Time `cbor:"7,keyasint"`
	Seen    time.Time `cbor:"8,keyasint"` // when it was known to go on, or to have ended
	Problem string    `cbor:"9,keyasint,omitempty"`
}

// goesOn reports whether it is being made.
func (r *record) goesOn(now time.Time) bool { return r.State == Running && now.Sub(r.Seen) < silent }
