package event

import (
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
	key := s.key()
	r := storage.Range{Prefix: []byte(key), Descending: !s.Following, Limit: maxSearched}
	if s.Behind > 0 {
		r.After = []byte(s.at(s.Behind))
	}
	read := 0
	for e, err := range events.Scan(tx, r) {
		if err != nil {
			return nil, 0, err
		}
		read++
		next = numberOf(e.Key)
		if !s.Following && !s.Since.IsZero() && e.Value.Occurred.Before(s.Since.Add(-maxSkew)) {
			return found, 0, nil
		}
		if !s.selects(&e.Value.Event) {
			continue
		}
		if found = append(found, Numbered{next, e.Value.Event}); len(found) == s.Limit {
			return found, next, nil
		}
	}
	if read < maxSearched && !s.Following {
		next = 0
	}
	return found, next, nil
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
