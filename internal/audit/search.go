package audit

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// What one search reads at most: events one after the other, or one by one from an index or a list.
const (
	maxSearched = 20_000
	maxPicked   = 3_000
)

// Search selects events of one partition, those that are brief or all others. Zero members select everything.
type Search struct {
	Partition string
	Brief     bool

	Since, Until time.Time // when they occurred: from, and before
	// Types are event types or the beginnings of some, such as login or person.PersonCreatedEvent, in any case.
	Types                 []string
	Person, Actor, Client string // ids
	Address               string // the client's IP address
	Ref                   string // of a refusal
	// Behind continues a search. Following searches go forward in time, others back.
	Behind    Cursor
	Following bool
	Limit     int
}

// Numbered is an event with its number in the chain of its node. Numbers follow the order in which events were stored.
type Numbered struct {
	Chain  string
	Number uint64
	Event

	lane int
}

// Place says where the event is within its partition, as a text that EventAt takes.
func (n *Numbered) Place() string {
	var c Cursor
	c.set(n.lane, n.Number)
	return c.String()
}

// EventAt returns the event at a place, or storage.ErrNotFound. Brief events have no place.
func EventAt(tx storage.Tx, partition, place string) (Event, error) {
	c, err := ParseCursor(place)
	if err != nil || len(c) == 0 {
		return Event{}, storage.ErrNotFound
	}
	return Get(tx, Ref{Partition: partition, Number: c[len(c)-1], Lane: len(c) - 1})
}

func (s *Search) chain(lane int) Chain {
	return Chain{Partition: s.Partition, Brief: s.Brief, Lane: lane}
}

// Find returns the events that a search selects, newest first, or oldest first when it is Following. Those of several
// nodes are in the order of their times. next continues the search as Behind: it says for each node how far it was
// read, so what a node stores late is not missed. Empty: there is nothing more now. found can be empty or short
// although there is more: a search reads a bounded number of events.
func (s Search) Find(tx storage.Tx) (found []Numbered, next Cursor, err error) {
	begun := len(s.Behind) > 0
	if next, err = s.begin(tx); err != nil {
		return nil, nil, err
	}
	s.Behind = slices.Clone(next)
	if !s.Brief && (s.Person != "" || s.Actor != "") { // brief events are in no index
		return s.collect(s.inIndex(tx, begun), next, maxPicked)
	}
	if !s.Following && !s.Brief && (len(s.Types) > 0 || s.Client != "" || s.Address != "" || s.Ref != "") {
		return s.inLists(tx)
	}
	return s.collect(s.inChains(tx), next, maxSearched)
}

// collect returns those of some events that the search selects, after at most so many.
func (s Search) collect(candidates iter.Seq2[Numbered, error], next Cursor, most int) (found []Numbered, _ Cursor, err error) {
	read := 0
	for e, err := range candidates {
		if err != nil {
			return nil, nil, err
		}
		if read == most {
			return found, next, nil
		}
		read++
		next.set(e.lane, e.Number)
		if !s.Following && !s.Since.IsZero() && e.Occurred.Before(s.Since.Add(-maxSkew)) {
			return found, nil, nil
		}
		if !s.selects(&e.Event) {
			continue
		}
		if found = append(found, e); len(found) == s.Limit {
			return found, next, nil
		}
	}
	if !s.Following {
		next = nil
	}
	return found, next, nil
}

// begin returns where the search begins in each lane.
func (s *Search) begin(tx storage.Tx) (Cursor, error) {
	from := slices.Clone(s.Behind)
	if !s.Following && len(from) > 0 {
		return from, nil // lanes that it does not name came later, and all that they have is newer
	}
	for e, err := range nexts.Scan(tx, storage.Range{Prefix: storage.Prefix(s.Partition)}) {
		if err != nil {
			return nil, err
		}
		switch c := chainOf(e.Key); {
		case c.Brief != s.Brief:
		case s.Following:
			from.set(c.Lane, from.at(c.Lane))
		default:
			n, err := s.numberAt(tx, c, e.Value)
			if err != nil {
				return nil, err
			}
			from.set(c.Lane, n)
		}
	}
	return from, nil
}

// step is the number of events of a chain that are read at once.
const step = 128

// reader reads the events of one chain.
type reader struct {
	chain  Chain
	name   string
	behind uint64
	some   []Numbered
	end    bool
}

// fill reads more when there is nothing left of what was read.
func (r *reader) fill(tx storage.Tx, following bool) error {
	if len(r.some) > 0 || r.end {
		return nil
	}
	part := storage.Range{Prefix: []byte(r.chain.key()), After: []byte(r.chain.at(r.behind)), Descending: !following, Limit: step}
	for e, err := range events.Scan(tx, part) {
		if err != nil {
			return err
		}
		r.behind = numberOf(e.Key)
		r.some = append(r.some, Numbered{r.name, r.behind, e.Value.Event, r.chain.Lane})
	}
	r.end = len(r.some) < step
	return nil
}

// inChains yields the events of all lanes from Behind on, in the order of their times. Those of one lane stay in
// theirs.
func (s Search) inChains(tx storage.Tx) iter.Seq2[Numbered, error] {
	var all []*reader
	for lane, behind := range s.Behind {
		if s.Following || behind > 0 {
			all = append(all, &reader{chain: s.chain(lane), name: s.chain(lane).String(), behind: behind})
		}
	}
	return func(yield func(Numbered, error) bool) {
		for {
			var first *reader
			for _, r := range all {
				if err := r.fill(tx, s.Following); err != nil {
					yield(Numbered{}, err)
					return
				}
				if len(r.some) > 0 && (first == nil || s.before(r.some[0], first.some[0])) {
					first = r
				}
			}
			if first == nil || !yield(first.some[0], nil) {
				return
			}
			first.some = first.some[1:]
		}
	}
}

// before reports whether one event stands in front of another one in what is found.
func (s *Search) before(a, b Numbered) bool {
	return s.Following && a.Occurred.Before(b.Occurred) || !s.Following && a.Occurred.After(b.Occurred)
}

// inIndex is inChains for the events of the person, of the actor, or of both together. They are in the order in which
// they were stored, whatever node has stored them.
func (s Search) inIndex(tx storage.Tx, begun bool) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		key := Query{Person: s.Person, Actor: s.Actor}.key()
		r := storage.Range{Prefix: []byte(key), Descending: !s.Following}
		if begun {
			place, err := s.place(tx, key)
			if err != nil {
				yield(Numbered{}, err)
				return
			}
			r.After = []byte(numbered(key, place))
		} else if !s.Following && !s.Until.IsZero() {
			c, found, err := counts.Find(tx, key)
			place := uint64(0)
			if err == nil && found {
				place, err = c.firstAfter(tx, key, s.Until.Add(maxSkew))
			}
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
			if !yield(Numbered{s.chain(e.Value.Lane).String(), e.Value.Number, rec.Event, e.Value.Lane}, err) || err != nil {
				return
			}
		}
	}
}

// place returns the place in an index from which a search goes on. What is at Behind need not be in the index, such as
// the last events of the chains when a search begins to follow them.
func (s Search) place(tx storage.Tx, key string) (uint64, error) {
	place, lanes := uint64(0), 0
	for lane, n := range s.Behind {
		if n == 0 {
			continue
		}
		lanes++
		rec, found, err := events.Find(tx, s.chain(lane).at(n))
		if err != nil {
			return 0, err
		}
		at := uint64(0)
		switch {
		case found && rec.AsPerson > 0 && byPerson(rec.PersonID) == key:
			at = rec.AsPerson
		case found && rec.AsBoth > 0 && byBoth(rec.PersonID, rec.Actor) == key:
			at = rec.AsBoth
		case found && rec.AsActor > 0 && byActor(rec.Actor) == key:
			at = rec.AsActor
		}
		if at > 0 && (place == 0 || at < place) {
			place = at
		}
	}
	// The last that a search backwards has read has the lowest place. One that follows may have begun in between.
	if place > 0 && (lanes == 1 || !s.Following) {
		return place, nil
	}
	for e, err := range index.Scan(tx, storage.Range{Prefix: []byte(key), Descending: true}) {
		if err != nil {
			return 0, err
		}
		if cmp.Or(e.Value.Partition, DefaultPartition) != s.Partition {
			continue
		}
		switch n, behind := numberOf(e.Key), s.Behind.at(e.Value.Lane); {
		case e.Value.Number < behind && !s.Following:
			return n + 1, nil
		case e.Value.Number <= behind && s.Following:
			return n, nil
		}
	}
	return 0, nil
}

func (s Search) selects(e *Event) bool {
	return e.within(s.Since, s.Until) &&
		(s.Person == "" || s.Person == e.PersonID) && (s.Actor == "" || s.Actor == e.Actor) && (s.Client == "" || s.Client == e.ClientID) &&
		(s.Address == "" || s.Address == e.ClientIP) && (s.Ref == "" || s.Ref == e.Ref) && (len(s.Types) == 0 || s.hasType(e.Type))
}

// hasType reports whether a type is one of those of the search.
func (s *Search) hasType(kind string) bool {
	return slices.ContainsFunc(s.Types, func(t string) bool {
		return strings.HasPrefix(strings.ToLower(kind), strings.ToLower(t))
	})
}

// Last returns where a search that follows begins, to find what is stored from now on.
func (s Search) Last(tx storage.Tx) (Cursor, error) {
	var last Cursor
	for e, err := range nexts.Scan(tx, storage.Range{Prefix: storage.Prefix(s.Partition)}) {
		if err != nil {
			return nil, err
		}
		if c := chainOf(e.Key); c.Brief == s.Brief {
			last.set(c.Lane, e.Value-1)
		}
	}
	return last, nil
}
