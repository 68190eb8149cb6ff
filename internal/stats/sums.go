package stats

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sums are the additions of one transaction to the counters.
type sums struct {
	now    time.Time
	counts map[place]int64
	marks  map[mark]struct{}
}

// place is a counter.
type place struct {
	series

	start time.Time
	value string
}

// mark says that a person is active on a day.
type mark struct {
	day               time.Time
	partition, person string
	by                Dimension
	value             string
}

func newSums(now time.Time) *sums {
	return &sums{now: now, counts: map[place]int64{}, marks: map[mark]struct{}{}}
}

// add adds what is due.
func (s *sums) add(d dueRecord) {
	by := dimensions[d.Measure]
	n := max(d.Count, 1)
	if by != nil {
		s.count(d.Measure, "", "", d.Partition, d.At, n)
		for _, b := range by {
			s.count(d.Measure, b, d.By[b], d.Partition, d.At, n)
		}
	}
	if d.Person == "" || d.Measure != audit.CountSignIn && d.Measure != activity {
		return
	}
	day := Day.start(d.At)
	if s.now.Sub(day) > lateActive {
		return
	}
	s.marks[mark{day, d.Partition, d.Person, "", ""}] = struct{}{}
	for _, b := range dimensions[ActivePersons] {
		if v := d.By[b]; v != "" {
			s.marks[mark{day, d.Partition, d.Person, b, v}] = struct{}{}
		}
	}
}

// count adds to the counters of each unit that is still kept.
func (s *sums) count(measure string, by Dimension, value, partition string, at time.Time, n int64) {
	for unit, of := range units {
		start := unit.start(at)
		if measure == ActivePersons && unit != Day || !start.Add(of.kept).After(s.now) {
			continue
		}
		s.counts[place{series{unit, "", measure, by}, start, value}] += n
		if partition != "" {
			s.counts[place{series{unit, partition, measure, by}, start, value}] += n
		}
	}
}

// start returns the start of the bucket of a time.
func (u Unit) start(at time.Time) time.Time {
	long := int64(units[u].long / time.Second)
	return time.Unix(at.Unix()/long*long, 0).UTC()
}

// countPersons counts the persons who were not active before on their day.
func (s *sums) countPersons(tx storage.Tx) error {
	list := slices.SortedFunc(maps.Keys(s.marks), func(a, b mark) int {
		return cmp.Or(a.day.Compare(b.day), cmp.Compare(a.person, b.person), cmp.Compare(a.by, b.by), cmp.Compare(a.value, b.value),
			cmp.Compare(a.partition, b.partition))
	})
	keys := make([][]byte, 0, len(list))
	for _, m := range list {
		keys = append(keys, active.Key(markKey(m.day, m.person, m.by, m.value)))
	}
	if len(keys) == 0 {
		return nil
	}
	known, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	for i, m := range list {
		if known[i] != nil {
			continue
		}
		if err := active.Put(tx, markKey(m.day, m.person, m.by, m.value), struct{}{}, m.day.Add(markKept)); err != nil {
			return err
		}
		s.count(ActivePersons, m.by, m.value, m.partition, m.day, 1)
	}
	return nil
}

// write adds the sums to the counters.
func (s *sums) write(tx storage.Tx) error {
	list := slices.SortedFunc(maps.Keys(s.counts), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.bucket(a.start), b.bucket(b.start)), cmp.Compare(a.value, b.value))
	})
	keys := make([][]byte, 0, len(list))
	for _, p := range list {
		keys = append(keys, counts.Key(p.bucket(p.start)+p.key()))
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	var bucket string
	var head countRecord // of the bucket: how many values it has
	for i, p := range list {
		at := p.bucket(p.start)
		if at != bucket {
			bucket = at
			if head, err = find(tx, at); err != nil {
				return err
			}
		}
		if found[i] == nil && p.by != "" {
			if head.Values >= maxValues {
				p.value = Other
			} else {
				head.Values++
			}
			if err := counts.Put(tx, at, head, p.end()); err != nil {
				return err
			}
		}
		rec, err := find(tx, at+p.key()) // read again: several can be Other
		if err != nil {
			return err
		}
		rec.Count += s.counts[list[i]]
		if err := counts.Put(tx, at+p.key(), rec, p.end()); err != nil {
			return err
		}
	}
	return nil
}

// key is the end of the key of a counter: that of everything has none.
func (p place) key() string {
	if p.by == "" {
		return ""
	}
	return "=" + p.value
}

// end returns the time when the counter can be collected.
func (p place) end() time.Time { return p.start.Add(units[p.unit].kept) }

// find returns a counter. One that cannot be read starts over, since all counters would stop at it.
func find(tx storage.Tx, key string) (countRecord, error) {
	rec, _, err := counts.Find(tx, key)
	if errors.Is(err, storage.ErrCorrupt) {
		err = nil
	}
	return rec, err
}
