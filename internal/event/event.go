// Package event writes what happens to persons, clients and configuration, in the transaction of its cause: an answered
// operation has exactly one event, a failed one none.
package event

import (
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Type names a kind of event on the wire and in storage; Name is its descriptive name.
type Type struct{ Type, Name string }

// Event is one small operation. (identity service document, "Events API records")
type Event struct {
	ID        string    `cbor:"i"`
	Type      string    `cbor:"t"`
	Name      string    `cbor:"n"`
	Occurred  time.Time `cbor:"o"`
	PersonID  string    `cbor:"p,omitempty"` // the person it happened to
	Actor     string    `cbor:"a,omitempty"` // a person's id, or an API client's or client's id
	AgentUser string    `cbor:"u,omitempty"` // the actor's name
	ClientID  string    `cbor:"c,omitempty"`
	SessionID string    `cbor:"s,omitempty"`
	ClientIP  string    `cbor:"ip,omitempty"`
	UserAgent string    `cbor:"ua,omitempty"`
	Partition string    `cbor:"pt,omitempty"`
	Reason    string    `cbor:"r,omitempty"`
}

// Origin says from where a request came. The caller has already decided which proxies to believe.
type Origin struct{ ClientIP, UserAgent string }

// DefaultPartition is the partition of everybody while partitions are off.
const DefaultPartition = "default"

const maxText = 512 // characters of a user agent or reason that are kept

// Recorder makes and appends events. Its fields are set once.
type Recorder struct {
	Random io.Reader
	Now    func() time.Time
	// Retention is how long events are kept; TokenRetention those of tokens alone. 0: for ever.
	Retention, TokenRetention time.Duration
}

// New returns an event of this kind that occurs now, with an identifier that sorts by time (UUIDv7, RFC 9562). Call it before the transaction.
func (r *Recorder) New(kind Type, from Origin) (Event, error) {
	id, err := uuid.NewV7FromReader(r.Random)
	if err != nil {
		return Event{}, err
	}
	return Event{
		ID: id.String(), Type: kind.Type, Name: kind.Name, Occurred: r.Now(), Partition: DefaultPartition,
		ClientIP: from.ClientIP, UserAgent: Clean(from.UserAgent),
	}, nil
}

// Append writes e and its index entries in tx. Events without a person are not indexed.
func (r *Recorder) Append(tx storage.Tx, e Event) error {
	var expires time.Time
	keep := r.Retention
	if e.PersonID == "" && r.TokenRetention > 0 {
		keep = r.TokenRetention
	}
	if keep > 0 {
		expires = e.Occurred.Add(keep)
	}
	e.Reason = Clean(e.Reason)
	// Put, not Create: identifiers are random, and looking would be a read on the way of every writer.
	if err := events.Put(tx, e.ID, e, expires); err != nil {
		return err
	}
	if e.PersonID == "" {
		return nil
	}
	if err := byPerson.Put(tx, storage.Key(e.PersonID, e.ID), struct{}{}, expires); err != nil {
		return err
	}
	if e.Actor == "" {
		return nil
	}
	return byActor.Put(tx, storage.Key(e.Actor, e.ID), struct{}{}, expires)
}

// Clean makes text from outside fit for one line of a log or record: control characters become spaces, invalid UTF-8 a
// replacement character, and no more than 512 characters are kept.
func Clean(s string) string {
	out := make([]rune, 0, min(len(s), maxText))
	for _, c := range s {
		if len(out) == maxText {
			break
		}
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 {
			c = ' '
		}
		out = append(out, c)
	}
	return string(out)
}
