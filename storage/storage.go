// Package storage keeps records in byte order of their keys, behind real transactions.
//
// Store and Tx are the whole contract between Gatehouse and its engines; storagetest is that contract as a test
// suite, which every engine passes. Rules such as "a code is spent once" stand above this package, written once.
// Why a sorted key-value store: docs/adr/0001-sorted-kv-storage.md.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// MaxValue is the longest value in bytes that every engine accepts; a longer one is ErrTooLarge.
const MaxValue = 512 << 10

// MaxKey is the longest key in bytes that every engine accepts; a longer one is ErrTooLarge.
const MaxKey = 1 << 10

var (
	// ErrNotFound says that no record has the key. The transaction goes on.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists says that Create met a record of that key. The transaction goes on.
	ErrExists = errors.New("storage: exists already")
	// ErrTooLarge says that a key, a value or a whole transaction is larger than the engine takes. Nothing was written.
	ErrTooLarge = errors.New("storage: too large")
	// ErrReadOnly says that a View tried to write.
	ErrReadOnly = errors.New("storage: write in a read-only transaction")
	// ErrCorrupt says that a record exists but is damaged: its value cannot be recovered.
	ErrCorrupt = errors.New("storage: record is damaged")
	// ErrFull says that free space is below the watermark. Nothing was written; reads go on.
	ErrFull = errors.New("storage: free space is below the watermark")
	// ErrLost says that what was answered is not there any more, since a database without it has taken the place of the
	// one that had it. Nothing is answered until an operator has accepted that. It is an ErrUnavailable too.
	ErrLost = fmt.Errorf("%w: acknowledged writes were lost", ErrUnavailable)
	// ErrNewer says that a newer version has written what this one would misread. It is left as it is.
	ErrNewer = errors.New("a newer version of Gatehouse has written this storage: use that version")
	// ErrUnavailable says that the store cannot answer: closed, or poisoned by a commit whose outcome is unknown.
	ErrUnavailable = errors.New("storage: unavailable")
)

// Store keeps records in byte order of their keys. It is safe for concurrent use, by several processes where the
// engine says so.
type Store interface {
	// View runs fn on one consistent snapshot of what was durable when it began. It never waits for a disk sync. fn may
	// run several times here too.
	View(ctx context.Context, fn func(Tx) error) error
	// Update runs fn in a serializable transaction, scans and absent keys included: all or nothing, and durable when
	// it returns nil. fn may run several times, so it touches only tx. When fn returns an error nothing of it is
	// kept and Update returns that error, once everything that fn could have read is durable. An error that is
	// neither fn's own nor one of ErrTooLarge, ErrFull means: the outcome is unknown. A panic in fn
	// is raised again in the caller and nothing of fn is kept.
	Update(ctx context.Context, fn func(Tx) error) error
	// Close waits for the transactions under way and releases the engine. Later calls answer ErrUnavailable.
	Close() error
}

// Tx is a transaction. It is valid until the function it was given to returns and is not safe for concurrent use.
// Keys and values handed in are copied by the engine, or must not be changed until the transaction ends; values
// handed out belong to the caller.
type Tx interface {
	// Get returns the value of key, or ErrNotFound; the transaction goes on.
	Get(key []byte) ([]byte, error)
	// GetMany returns the values in the order of the keys, nil for those not found. It takes one round trip, as one Get
	// does.
	GetMany(keys ...[]byte) ([][]byte, error)
	// Create writes a record that must not exist yet, or returns ErrExists; the transaction goes on. Uniqueness is a
	// key.
	Create(key, value []byte, expires time.Time) error
	// Put writes a record and replaces the old one, its expiry too.
	Put(key, value []byte, expires time.Time) error
	// Delete removes a record. It is not an error if there is no such record.
	Delete(key []byte) error
	// Scan yields the records of r as they were at its start. Get, Put, Create and Delete are allowed while ranging and
	// do not change what it yields; breaking out is fine. After an error it yields nothing more.
	Scan(r Range) iter.Seq2[Record, error]
}

// The expires argument of Create and Put is for collection: a record is never gone before it, and soon after. The zero
// time means never collected. Whether a token is valid is decided from the record's own time and the injected clock.

// Range says what Scan yields.
type Range struct {
	// Prefix that every key has. Empty: all keys.
	Prefix []byte
	// After is the exclusive start: ascending, only keys greater than it; descending, only keys less than it. nil: from
	// the end of the range.
	After []byte
	// Descending turns the order round.
	Descending bool
	// Limit is the largest number of records. 0: no limit.
	Limit int
}

// Record is a record that Scan yields.
type Record struct {
	Key, Value []byte
	// Expires is the expiry of the record as written, to the microsecond. The zero time: never collected.
	Expires time.Time
}

// Backuper is a Store that can copy one consistent snapshot of itself while it serves.
type Backuper interface {
	// Backup writes every record of one snapshot to w. The stream says at its end that it is whole.
	Backup(ctx context.Context, w io.Writer) error
}

// Checker is a Store that knows whether it can take writes.
type Checker interface {
	// Check returns nil when the store is open and writable, otherwise ErrFull or ErrUnavailable with the reason.
	Check(ctx context.Context) error
}

// Shared is a Store that several processes can use at the same time.
type Shared interface {
	// Clock returns the time of the store, which is the same for all processes.
	Clock(ctx context.Context) (time.Time, error)
}

// IsFailure reports whether err means "we cannot tell" or "not now" rather than a verdict: any error except
// ErrNotFound, ErrExists and ErrTooLarge.
func IsFailure(err error) bool {
	return err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrExists) && !errors.Is(err, ErrTooLarge)
}
