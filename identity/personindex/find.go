package personindex

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxLimit    = 1000
	maxLooked   = 500 // persons that one question looks at
	atOnce      = 128 // of them; a source that has many fitting persons begins with fewer
	leastAtOnce = 16
	probed      = 256 // entries that tell a short index from a long one
	maxText     = 256 // bytes

	countLooks = 2 // questions that a count asks
	leastID    = 4 // characters of an id from which on it is looked for
)

// ErrCursor says that a cursor is not one of this query.
var ErrCursor = errors.New("the cursor is not one of this list")

// Query selects persons. Members that are empty select everybody.
type Query struct {
	Partition string // empty: the default one
	// Text begins a username, an e-mail address or an id, or its words begin words of the name, username or address.
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

// candidate is a person that an index names.
type candidate struct {
	id, at string // at continues the source after it
	value  string // that the index has
}

// source yields persons in the order of an index, beginning after a place. Without next it yields no one.
type source struct {
	next func(after string, limit int) ([]candidate, error)
	// known says that the indexes know the persons too: those who cannot be asked for by them are not read.
	known   bool
	members bool // it yields members of the group alone
	// other reports whether another source yields the person too, or this one elsewhere. nil: never
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
	small   bool   // the group is gone through in place of an index
	built   bool
}

// Find answers a query. It looks at a bounded number of persons, whatever is asked for. Errors: ErrCursor,
// person.ErrNoGroup, or a failure of storage.
func Find(tx storage.Tx, persons *person.Service, q Query) (out Answer, err error) {
	s := &search{Query: q, tx: tx, persons: persons}
	if err := s.prepare(); err != nil {
		return out, err
	}
	at, after, err := readCursor(q.After)
	if err != nil {
		return out, ErrCursor
	}
	if q.After == "" {
		at = -1
	}
	sources, err := s.sources(at)
	if err != nil {
		return out, err
	}
	if at >= len(sources) {
		return out, ErrCursor
	}
	looked := 0
	for at = max(at, 0); at < len(sources); at, after = at+1, "" {
		batch := min(atOnce, max(s.Limit, leastAtOnce))
		for sources[at].next != nil {
			list, err := sources[at].next(after, batch)
			if err != nil {
				return out, err
			}
			hits, err := s.read(list, &sources[at])
			if err != nil {
				return out, err
			}
			for i, f := range hits {
				after = list[i].at
				looked++
				if f.fit && (sources[at].other == nil || !sources[at].other(list[i], f.rec)) && !out.has(f.ID) {
					out.Persons = append(out.Persons, f.Found)
				}
				if len(out.Persons) == s.Limit || looked == maxLooked {
					out.Next = cursor(at, after)
					return out, nil
				}
			}
			if len(list) < batch {
				break
			}
			batch = min(atOnce, 2*batch)
		}
	}
	return out, nil
}

// Count returns the ids of at most so many persons that a query selects, and whether there may be more. Where one index
// says it all, the persons themselves are not read, so it can be a moment behind. It looks at a bounded number.
func Count(tx storage.Tx, persons *person.Service, q Query, most int) (ids []string, more bool, err error) {
	s := &search{Query: q, tx: tx, persons: persons}
	if err := s.prepare(); err != nil {
		return nil, false, err
	}
	next := s.everybody
	switch plain := s.Text == "" && s.SeenSince.IsZero() && s.SeenBefore.IsZero(); {
	case plain && s.State == "" && s.Group == "":
	case plain && s.State == "":
		next = s.members
	case plain && s.Group == "" && s.State != person.Active && s.built:
		next = s.inState
	default:
		return countFound(tx, persons, q, most)
	}
	for after := ""; len(ids) <= most; {
		list, err := next(after, min(atOnce, most+1-len(ids)))
		if err != nil {
			return nil, false, err
		}
		for _, c := range list {
			ids, after = append(ids, c.id), c.at
		}
		if len(list) == 0 || len(list) < atOnce && len(ids) <= most {
			break
		}
	}
	more = len(ids) > most
	return ids[:min(len(ids), most)], more, nil
}

// countFound is Count by reading persons.
func countFound(tx storage.Tx, persons *person.Service, q Query, most int) (ids []string, more bool, err error) {
	q.Limit = most
	for range countLooks {
		found, err := Find(tx, persons, q)
		if err != nil {
			return nil, false, err
		}
		for _, f := range found.Persons[:min(len(found.Persons), most-len(ids))] {
			ids = append(ids, f.ID)
		}
		if q.After = found.Next; q.After == "" || len(ids) == most {
			break
		}
	}
	return ids, q.After != "", nil
}

func (a *Answer) has(id string) bool {
	return slices.ContainsFunc(a.Persons, func(f Found) bool { return f.ID == id })
}

func (s *search) prepare() error {
	s.Partition = cmp.Or(s.Partition, audit.DefaultPartition)
	s.Limit = min(max(s.Limit, 1), maxLimit)
	s.Text = strings.TrimSpace(s.Text)
	if len(s.Text) > maxText {
		s.Text = strings.ToValidUTF8(s.Text[:maxText], "")
	}
	s.Text = strings.TrimPrefix(s.Text, "@") // a domain
	s.mail = person.FoldEmail(s.Text)
	if !strings.Contains(s.Text, "@") { // an address is not taken apart
		s.words = words(s.Text)
	}
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
		s.group, s.small = g.Name, g.Members < probed
	}
	return nil
}

// hit is a candidate, and whether it is one of those asked for.
type hit struct {
	Found

	rec *person.Record
	fit bool
}

// look is a look at candidates, which leaves out some at each step.
type look struct {
	tx   storage.Tx
	list []candidate
	hits []hit // for each candidate
	rest []int // those that are left
}

// step reads a record of each candidate that is left, in one round trip, and leaves out those it does not fit.
func (l *look) step(key func(id string) []byte, fits func(h *hit, id string, raw []byte) (bool, error)) error {
	if len(l.rest) == 0 {
		return nil
	}
	keys := make([][]byte, len(l.rest))
	for n, i := range l.rest {
		keys[n] = key(l.list[i].id)
	}
	found, err := l.tx.GetMany(keys...)
	if err != nil {
		return err
	}
	left := l.rest[:0]
	for n, i := range l.rest {
		fit, err := fits(&l.hits[i], l.list[i].id, found[n])
		if err != nil {
			return err
		}
		if fit {
			left = append(left, i)
		}
	}
	l.rest = left
	return nil
}

// read looks at candidates, in two round trips, and one before them that leaves out who is no member of the group: of
// many with a name, only the members are read. What the indexes know comes first for a source that they know too, since
// it excludes most; it can be a moment behind for someone who has just changed. For others it comes last, for the last
// sign-in.
func (s *search) read(list []candidate, from *source) ([]hit, error) {
	l := look{tx: s.tx, list: list, hits: make([]hit, len(list)), rest: make([]int, len(list))}
	for i := range list {
		l.rest[i] = i
	}
	listed := func(h *hit, _ string, raw []byte) (bool, error) {
		if raw == nil {
			return true, nil
		}
		k, err := known.Decode(raw)
		h.Seen = k.Seen
		return !from.known || !s.excludes(&k), err
	}
	var err error
	if s.group != "" && !from.members {
		err = l.step(func(id string) []byte { return person.MemberKey(s.Group, id) },
			func(_ *hit, _ string, raw []byte) (bool, error) { return raw != nil, nil })
	}
	if err == nil && from.known {
		err = l.step(known.Key, listed)
	}
	if err == nil {
		err = l.step(person.Records.Key, func(h *hit, id string, raw []byte) (bool, error) {
			if raw == nil {
				return false, nil
			}
			rec, err := person.Records.Decode(raw)
			h.Person, h.rec = rec.Person(id), &rec
			return s.selects(&rec), err
		})
	}
	if err == nil && !from.known {
		err = l.step(known.Key, listed)
	}
	for _, i := range l.rest {
		l.hits[i].fit = s.inTime(l.hits[i].Seen)
	}
	return l.hits, err
}

// excludes reports whether someone is not asked for, by what the indexes know.
func (s *search) excludes(k *knownRecord) bool {
	return k.Partition != s.Partition || s.State != "" && cmp.Or(k.State, person.Active) != s.State || !named(k.Words, s.words)
}

// selects reports whether a person is one of those asked for. It trusts no index: that can be a moment behind.
func (s *search) selects(r *person.Record) bool {
	switch {
	case r.PartitionName() != s.Partition, s.State == "" && r.State == person.Removed, s.State != "" && r.State != s.State:
		return false
	}
	return s.group == "" || slices.Contains(r.Groups, s.group)
}

// inTime reports whether a last sign-in is in the time that is asked for.
func (s *search) inTime(seen time.Time) bool {
	return (s.SeenSince.IsZero() || !seen.Before(s.SeenSince)) && (s.SeenBefore.IsZero() || seen.Before(s.SeenBefore))
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
