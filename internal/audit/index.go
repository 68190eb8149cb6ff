package audit

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// next takes the number of the chain's next event. All appenders of a node read and write this record. In one process
// that costs a look into the writes that are not on disk yet. In return, numbers follow the order of commits: a reader
// that continues after a number of each lane cannot miss an event.
func (c Chain) next(tx storage.Tx) (uint64, error) {
	key := c.key()
	n, err := nexts.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) {
		n, err = 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("number an event: %w", err)
	}
	return n, nexts.Put(tx, key, n+1, never)
}

// The prefixes of index keys. An event with a person and an actor is in all three indexes.
func byPerson(person string) string      { return string(storage.Prefix("person", person)) }
func byActor(actor string) string        { return string(storage.Prefix("actor", actor)) }
func byBoth(person, actor string) string { return string(storage.Prefix("both", person, actor)) }

// addToIndexes writes the index entries of the event with this number.
func (r *record) addToIndexes(tx storage.Tx, entry Ref) (err error) {
	if r.PersonID != "" {
		if r.AsPerson, err = entry.put(tx, byPerson(r.PersonID)); err != nil {
			return err
		}
	}
	if r.Actor != "" {
		if r.AsActor, err = entry.put(tx, byActor(r.Actor)); err != nil {
			return err
		}
	}
	if r.PersonID != "" && r.Actor != "" {
		r.AsBoth, err = entry.put(tx, byBoth(r.PersonID, r.Actor))
	}
	return err
}

// put appends the entry to an index and returns its place.
func (e Ref) put(tx storage.Tx, key string) (uint64, error) {
	c, err := counts.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) {
		c, err = countRecord{Next: 1, Dense: 1}, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	place := c.Next
	c.Next++
	c.Count++
	if err := counts.Put(tx, key, c, never); err != nil {
		return 0, err
	}
	return place, index.Put(tx, numbered(key, place), e, never)
}

// Query asks for events of a person, of an actor, or of both together. At least one is set.
type Query struct {
	Person, Actor string
	Since, Until  time.Time // when they occurred: from, and before. Zero: at any time
	Partition     string    // empty: any
	Limit, Offset int
}

// ErrTooMany says that a query with a time or a partition has more events to look through than it may.
var ErrTooMany = errors.New("too many events to look through")

const (
	// maxSeen bounds the events that a query looks through.
	maxSeen = 50_000
	// maxSkew is the maximum time by which an event can have occurred before one that was stored earlier: the time is
	// taken before the transaction.
	maxSkew = time.Minute
)

func (q Query) key() string {
	q.Person, q.Actor = cut(q.Person), cut(q.Actor)
	switch {
	case q.Actor == "":
		return byPerson(q.Person)
	case q.Person == "":
		return byActor(q.Actor)
	}
	return byBoth(q.Person, q.Actor)
}

// Find returns a page of events, newest first, and the total. Its cost depends on the size of the page, not on the
// offset; with a time or a partition it depends on the events in between. Error: ErrTooMany.
func Find(tx storage.Tx, q Query) (page []Event, total int, err error) {
	key := q.key()
	c, err := counts.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("count events: %w", err)
	}
	if !q.Since.IsZero() || !q.Until.IsZero() || q.Partition != "" {
		return c.filtered(tx, key, q)
	}
	total = int(min(c.Count, math.MaxInt32)) //nolint:gosec // bounded
	if q.Offset < 0 || q.Limit <= 0 || uint64(q.Offset) >= c.Count {
		return nil, total, nil
	}
	for rec, err := range c.from(tx, key, uint64(q.Offset), q.Limit) {
		if err != nil {
			return nil, 0, err
		}
		page = append(page, rec.Event)
	}
	return page, total, nil
}

// filtered is Find with a time or a partition.
func (c countRecord) filtered(tx storage.Tx, key string, q Query) (page []Event, total int, err error) {
	start := c.Next
	if !q.Until.IsZero() {
		if start, err = c.firstAfter(tx, key, q.Until.Add(maxSkew)); err != nil {
			return nil, 0, err
		}
	}
	seen := 0
	r := storage.Range{Prefix: []byte(key), After: []byte(numbered(key, start)), Descending: true}
	for e, err := range index.Scan(tx, r) {
		if err != nil {
			return nil, 0, err
		}
		rec, err := e.Value.event(tx)
		if err != nil {
			return nil, 0, err
		}
		if !q.Since.IsZero() && rec.Occurred.Before(q.Since.Add(-maxSkew)) {
			break
		}
		if seen++; seen > maxSeen {
			return nil, 0, ErrTooMany
		}
		if !q.selects(&rec.Event) {
			continue
		}
		if total++; total > q.Offset && len(page) < q.Limit {
			page = append(page, rec.Event)
		}
	}
	return page, total, nil
}

func (q Query) selects(e *Event) bool {
	return e.within(q.Since, q.Until) && (q.Partition == "" || q.Partition == cmp.Or(e.Partition, DefaultPartition))
}

// within reports whether the event occurred from a time on and before another one. Zero: at any time.
func (e *Event) within(since, until time.Time) bool {
	return (since.IsZero() || !e.Occurred.Before(since)) && (until.IsZero() || e.Occurred.Before(until))
}

// firstAfter returns a place of the index from which on all events occurred after a time, by bisection.
func (c countRecord) firstAfter(tx storage.Tx, key string, at time.Time) (uint64, error) {
	low, high := uint64(1), c.Next
	for low < high {
		middle := low + (high-low)/2
		after, err := occurredAfter(tx, key, middle, at)
		if err != nil {
			return 0, err
		}
		if after {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// occurredAfter looks at the event at a place of an index, or at the next one if that was collected.
func occurredAfter(tx storage.Tx, key string, place uint64, at time.Time) (bool, error) {
	for e, err := range index.Scan(tx, storage.Range{Prefix: []byte(key), After: []byte(numbered(key, place-1)), Limit: 1}) {
		if err != nil {
			return false, err
		}
		rec, err := e.Value.event(tx)
		return rec.Occurred.After(at), err
	}
	return true, nil
}

// from yields up to limit events of an index, newest first, after skipping offset of them.
func (c countRecord) from(tx storage.Tx, key string, offset uint64, limit int) iter.Seq2[record, error] {
	start, pass := c.Next-min(offset, c.Next-c.Dense), uint64(0)
	if dense := c.Next - c.Dense; offset > dense {
		// What lies below was collected in part: events of the same actor in other partitions are collected in other
		// blocks.
		pass = offset - dense
	}
	r := storage.Range{Prefix: []byte(key), After: []byte(numbered(key, start)), Descending: true}
	if limit > 0 {
		r.Limit = limit + int(min(pass, math.MaxInt32)) //nolint:gosec // bounded
	}
	return func(yield func(record, error) bool) {
		for e, err := range index.Scan(tx, r) {
			var rec record
			if err == nil && pass > 0 {
				pass--
				continue
			}
			if err == nil {
				rec, err = e.Value.event(tx)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func (e Ref) event(tx storage.Tx) (record, error) {
	rec, err := events.Get(tx, e.key())
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: event %d is in an index but does not exist", storage.ErrCorrupt, e.Number)
	}
	return rec, err
}

func (e Ref) key() string {
	return Chain{Partition: cmp.Or(e.Partition, DefaultPartition), Lane: e.Lane}.at(e.Number)
}

// Get returns an event, or storage.ErrNotFound once it was collected.
func Get(tx storage.Tx, at Ref) (Event, error) {
	rec, err := events.Get(tx, at.key())
	return rec.Event, err
}

// OfPerson yields the events of a person, newest first.
func OfPerson(tx storage.Tx, personID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		c, err := counts.Get(tx, byPerson(personID))
		if errors.Is(err, storage.ErrNotFound) {
			return
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		for rec, err := range c.from(tx, byPerson(personID), 0, 0) {
			if !yield(rec.Event, err) {
				return
			}
		}
	}
}
