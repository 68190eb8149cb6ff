package event

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// maxSearched bounds the events that one search reads.
const maxSearched = 20_000

// Search selects events of one chain. Zero members select everything.
type Search struct {
	Chain

	Since, Until time.Time // when they occurred: from, and before
	// Types are event types or the beginnings of some, such as login or person.PersonCreatedEvent, in any case.
	Types                 []string
	Person, Actor, Client string // ids
	// Behind continues a search: behind the event of this number. Following searches go forward in time, others back.
	Behind    uint64
	Following bool
	Limit     int
}

// Numbered is an event with its number in its chain. Numbers follow the order in which events were stored.
type Numbered struct {
	Number uint64
	Event
}

// Find returns the events that a search selects, newest first, or oldest first when it is Following. next continues the
// search as Behind. 0: there is nothing more now.
func (s Search) Find(tx storage.Tx) (found []Numbered, next uint64, err error) {
	candidates := s.inChain(tx)
	if s.Person != "" && !s.Brief { // brief events are in no index
		candidates = s.inIndex(tx)
	}
	read := 0
	for e, err := range candidates {
		if err != nil {
			return nil, 0, err
		}
		if read == maxSearched {
			return found, next, nil
		}
		read++
		next = e.Number
		if !s.Following && !s.Since.IsZero() && e.Occurred.Before(s.Since.Add(-maxSkew)) {
			return found, 0, nil
		}
		if !s.selects(&e.Event) {
			continue
		}
		if found = append(found, e); len(found) == s.Limit {
			return found, next, nil
		}
	}
	if !s.Following {
		next = 0
	}
	return found, next, nil
}

// inChain yields the events of the chain from Behind on.
func (s Search) inChain(tx storage.Tx) iter.Seq2[Numbered, error] {
	r := storage.Range{Prefix: []byte(s.key()), Descending: !s.Following}
	if s.Behind > 0 {
		r.After = []byte(s.at(s.Behind))
	}
	return func(yield func(Numbered, error) bool) {
		for e, err := range events.Scan(tx, r) {
			var found Numbered
			if err == nil {
				found = Numbered{numberOf(e.Key), e.Value.Event}
			}
			if !yield(found, err) {
				return
			}
		}
	}
}

// inIndex is inChain for the events of the person, or of person and actor together.
func (s Search) inIndex(tx storage.Tx) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		key := Query{Person: s.Person, Actor: s.Actor}.key()
		r := storage.Range{Prefix: []byte(key), Descending: !s.Following}
		if s.Behind > 0 {
			place, err := s.place(tx, key)
			if err != nil {
				yield(Numbered{}, err)
				return
			}
			r.After = []byte(numbered(key, place))
		}
		for e, err := range index.Scan(tx, r) {
			var rec record
			if err == nil && cmp.Or(e.Value.Partition, DefaultPartition) != s.Partition {
				continue // of before the person came into this one
			}
			if err == nil {
				rec, err = e.Value.event(tx)
			}
			if !yield(Numbered{e.Value.Number, rec.Event}, err) || err != nil {
				return
			}
		}
	}
}

// place returns the place in an index from which a search goes on. What is at Behind need not be in the index, such as
// the last event of the chain when a search begins to follow it.
func (s Search) place(tx storage.Tx, key string) (uint64, error) {
	rec, found, err := events.Find(tx, s.at(s.Behind))
	switch {
	case err != nil:
		return 0, err
	case found && rec.AsPerson > 0 && byPerson(rec.PersonID) == key:
		return rec.AsPerson, nil
	case found && rec.AsBoth > 0 && byBoth(rec.PersonID, rec.Actor) == key:
		return rec.AsBoth, nil
	}
	for e, err := range index.Scan(tx, storage.Range{Prefix: []byte(key), Descending: true}) {
		if err != nil {
			return 0, err
		}
		if cmp.Or(e.Value.Partition, DefaultPartition) != s.Partition {
			continue
		}
		switch n := numberOf(e.Key); {
		case e.Value.Number < s.Behind && !s.Following:
			return n + 1, nil
		case e.Value.Number <= s.Behind && s.Following:
			return n, nil
		}
	}
	return 0, nil
}

func (s Search) selects(e *Event) bool {
	return e.within(s.Since, s.Until) &&
		(s.Person == "" || s.Person == e.PersonID) && (s.Actor == "" || s.Actor == e.Actor) && (s.Client == "" || s.Client == e.ClientID) &&
		(len(s.Types) == 0 || slices.ContainsFunc(s.Types, func(t string) bool {
			return strings.HasPrefix(strings.ToLower(e.Type), strings.ToLower(t))
		}))
}

// Last returns the number of the newest event of a chain, 0 when it has none.
func (c Chain) Last(tx storage.Tx) (uint64, error) {
	next, found, err := nexts.Find(tx, c.key())
	if err != nil || !found {
		return 0, err
	}
	return next - 1, nil
}
