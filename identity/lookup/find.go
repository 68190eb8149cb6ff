package lookup

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxLimit  = 1000
	maxLooked = 1000 // persons that one question looks at
	atOnce    = 128  // of them
	maxText   = 256  // bytes
	leastID   = 4    // characters of an id from which on it is looked for
)

// ErrCursor says that a cursor is not one of this query.
var ErrCursor = errors.New("lookup: the cursor is not one of this list")

// Query selects persons. Members that are empty select everybody.
type Query struct {
	Partition string // empty: the default one
	// Text begins a username, an e-mail address or an id, or its words begin words of the name.
	Text  string
	Group string // its id
	State person.State
	// SeenSince and SeenBefore bound the last sign-in.
	SeenSince, SeenBefore time.Time
	// Recent orders by the last sign-in, the latest first, without those who never came. Otherwise the order is that of
	// what was looked for, such as usernames.
	Recent bool
	After  string // Next of the answer before
	Limit  int
}

// Found is a person in a list.
type Found struct {
	person.Person

	Seen time.Time // the last sign-in. Zero: none is known
}

// Answer is a page of a list. It can have fewer persons than asked for, even none, and yet go on.
type Answer struct {
	Persons []Found
	Next    string // continues the list as After. Empty: this is its end
}

// candidate is a person whom an index names.
type candidate struct {
	id, at string // at continues the source behind it
	value  string // that the index has
}

// source yields persons in the order of an index, beginning behind a place.
type source struct {
	next func(after string, limit int) ([]candidate, error)
	// other tells whether another source yields the person too, or this one elsewhere. nil: never
	other func(c candidate, r *person.Record) bool
}

// search is a query at work.
type search struct {
	Query

	tx      storage.Tx
	persons *person.Service
	words   []string
	folded  string // Text as usernames are compared. Empty: it cannot be a username
	mail    string
	group   string // its name
	built   bool
}

// Find answers a query. It looks at a bounded number of persons, whatever is asked for. Errors: ErrCursor,
// person.ErrNoGroup, or a failure of storage.
func Find(tx storage.Tx, persons *person.Service, q Query) (out Answer, err error) {
	s := &search{Query: q, tx: tx, persons: persons}
	if err := s.prepare(); err != nil {
		return out, err
	}
	sources := s.sources()
	at, after, err := readCursor(q.After)
	if err != nil || at >= len(sources) {
		return out, ErrCursor
	}
	looked := 0
	for ; at < len(sources); at, after = at+1, "" {
		for {
			list, err := sources[at].next(after, atOnce)
			if err != nil {
				return out, err
			}
			hits, err := s.read(list)
			if err != nil {
				return out, err
			}
			for i, f := range hits {
				after = list[i].at
				looked++
				if f != nil && s.selects(f.rec, f.Seen) && (sources[at].other == nil || !sources[at].other(list[i], f.rec)) && !out.has(f.ID) {
					out.Persons = append(out.Persons, f.Found)
				}
				if len(out.Persons) == s.Limit || looked == maxLooked {
					out.Next = cursor(at, after)
					return out, nil
				}
			}
			if len(list) < atOnce {
				break
			}
		}
	}
	return out, nil
}

func (a *Answer) has(id string) bool {
	return slices.ContainsFunc(a.Persons, func(f Found) bool { return f.ID == id })
}

func (s *search) prepare() error {
	s.Partition = cmp.Or(s.Partition, event.DefaultPartition)
	s.Limit = min(max(s.Limit, 1), maxLimit)
	s.Text = strings.TrimSpace(s.Text)
	if len(s.Text) > maxText {
		s.Text = strings.ToValidUTF8(s.Text[:maxText], "")
	}
	s.words, s.mail = words(s.Text), person.FoldEmail(s.Text)
	if folded, err := person.Fold(s.Text); err == nil {
		s.folded = folded
	}
	step, _, err := steps.Find(s.tx, "")
	if err != nil {
		return err
	}
	s.built = step.Done
	if s.Group != "" {
		g, err := s.persons.GroupByID(s.tx, s.Group)
		if err != nil {
			return err
		}
		s.group = g.Name
	}
	return nil
}

// hit is a candidate who exists.
type hit struct {
	Found

	rec *person.Record
}

// read returns the candidates who exist, nil for the others, in two round trips.
func (s *search) read(list []candidate) ([]*hit, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]*hit, len(list))
	keys := make([][]byte, 0, 2*len(list))
	for _, c := range list {
		keys = append(keys, person.Records.Key(c.id), known.Key(c.id))
	}
	found, err := s.tx.GetMany(keys...)
	if err != nil {
		return nil, err
	}
	for i, c := range list {
		if found[2*i] == nil {
			continue
		}
		rec, err := person.Records.Decode(found[2*i])
		if err != nil {
			return nil, err
		}
		h := &hit{Found: Found{Person: rec.Person(c.id)}, rec: &rec}
		if raw := found[2*i+1]; raw != nil {
			k, err := known.Decode(raw)
			if err != nil {
				return nil, err
			}
			h.Seen = k.Seen
		}
		out[i] = h
	}
	return out, nil
}

// selects tells whether a person is one of those asked for. It trusts no index: that can be a moment behind.
func (s *search) selects(r *person.Record, seen time.Time) bool {
	switch {
	case r.PartitionName() != s.Partition, s.State == "" && r.State == person.Removed, s.State != "" && r.State != s.State:
		return false
	case s.group != "" && !slices.Contains(r.Groups, s.group):
		return false
	case !s.SeenSince.IsZero() && seen.Before(s.SeenSince), !s.SeenBefore.IsZero() && !seen.Before(s.SeenBefore):
		return false
	}
	return true
}

func (s *search) startsUsername(r *person.Record) bool {
	folded, err := person.Fold(r.Username)
	return err == nil && s.folded != "" && strings.HasPrefix(folded, s.folded)
}

func (s *search) startsMail(r *person.Record) bool {
	return strings.HasPrefix(person.FoldEmail(r.Email), s.mail)
}

func readCursor(text string) (source int, after string, err error) {
	if text == "" {
		return 0, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 2 || len(raw) > storage.MaxKey {
		return 0, "", ErrCursor
	}
	return int(raw[0]), string(raw[1:]), nil
}

func cursor(source int, after string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(source)}, after...))
}

// SignedIn returns when a person signed in last. Zero: it is not known.
func SignedIn(tx storage.Tx, personID string) (time.Time, error) {
	k, _, err := known.Find(tx, personID)
	return k.Seen, err
}
