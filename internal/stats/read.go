package stats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxRead  = 200_000 // counters that one question reads
	mostSeen = 100     // series of an answer, besides Other
)

// Query asks how often something happened.
type Query struct {
	Measure      string
	By           Dimension // empty: in all
	Value        string    // of the dimension, alone. Empty: each of them
	Unit         Unit
	Partition    string    // empty: all of them
	Since, Until time.Time // from the bucket of Since on, and before Until
}

// QueryError says what is wrong with a query, in words for the one who asks.
type QueryError struct{ Problem string }

// Error implements error.
func (e *QueryError) Error() string { return e.Problem }

// Answer are the counts: for each series as many as there are starts of buckets.
type Answer struct {
	Starts []time.Time
	Series []Series // those with the most first, Other at the end. One with an empty name for what was not split
}

// Series are the counts of one value of a dimension. The name is empty where an event has none.
type Series struct {
	Name   string
	Total  int64
	Counts []int64
}

// Measures returns the names of what is counted.
func Measures() []string { return slices.Sorted(maps.Keys(dimensions)) }

// Check returns a *QueryError for a query that has no answer.
func (q *Query) Check() error {
	by, ok := dimensions[q.Measure]
	switch {
	case !ok:
		return &QueryError{"there is no such measure: want one of " + strings.Join(Measures(), ", ")}
	case q.By != "" && !slices.Contains(by, q.By):
		return &QueryError{fmt.Sprintf("%s can be split by %s", q.Measure, strings.Trim(fmt.Sprint(by), "[]"))}
	case units[q.Unit].long == 0:
		return &QueryError{"unit must be minute, hour or day"}
	case q.Measure == ActivePersons && q.Unit != Day:
		return &QueryError{"active persons are counted per day: unit must be day"}
	case !q.Since.Before(q.Until):
		return &QueryError{"since must be before until"}
	case q.Since.Unix() < 0:
		return &QueryError{"since must be after 1970"}
	}
	of := units[q.Unit]
	if q.Until.Sub(q.Since) > of.kept {
		return &QueryError{fmt.Sprintf("too long for unit %s: at most %s", q.Unit, inWords(of.kept))}
	}
	return nil
}

func inWords(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Read answers a query. Errors: a *QueryError, or a failure of storage.
func Read(tx storage.Tx, q Query) (Answer, error) {
	var out Answer
	if err := q.Check(); err != nil {
		return out, err
	}
	for at := q.Unit.start(q.Since); at.Before(q.Until); at = at.Add(units[q.Unit].long) {
		out.Starts = append(out.Starts, at)
	}
	of := series{q.Unit, q.Partition, q.Measure, q.By}
	if q.By != "" && q.Value == "" {
		return out, out.split(tx, of)
	}
	value := ""
	if q.Value != "" {
		value = "=" + q.Value
	}
	keys := make([][]byte, 0, len(out.Starts))
	for _, at := range out.Starts {
		keys = append(keys, counts.Key(of.bucket(at)+value))
	}
	found, err := tx.GetMany(keys...)
	if err != nil {
		return out, err
	}
	whole := Series{Name: q.Value, Counts: make([]int64, len(out.Starts))}
	for i, raw := range found {
		if raw == nil {
			continue
		}
		rec, err := counts.Decode(raw)
		if err != nil {
			return out, err
		}
		whole.Counts[i] = rec.Count
		whole.Total += rec.Count
	}
	out.Series = []Series{whole}
	return out, nil
}

// Totals returns how often a measure was counted in the time of a query, for each of these values of its dimension.
// Errors: a *QueryError, or a failure of storage.
func Totals(tx storage.Tx, q Query, values []string) (map[string]int64, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	of, out := series{q.Unit, q.Partition, q.Measure, q.By}, map[string]int64{}
	var keys [][]byte
	var whose []string
	for at := q.Unit.start(q.Since); at.Before(q.Until); at = at.Add(units[q.Unit].long) {
		for _, value := range values {
			keys, whose = append(keys, counts.Key(of.bucket(at)+"="+value)), append(whose, value)
		}
	}
	if len(keys) > maxRead {
		return nil, &QueryError{"there is too much to read: ask for a shorter time or a longer unit"}
	}
	found, err := tx.GetMany(keys...)
	if err != nil {
		return nil, err
	}
	for i, raw := range found {
		if raw == nil {
			continue
		}
		rec, err := counts.Decode(raw)
		if err != nil {
			return nil, err
		}
		out[whose[i]] += rec.Count
	}
	return out, nil
}

// split reads a series for each value of the dimension.
func (a *Answer) split(tx storage.Tx, of series) error {
	prefix, first, last := of.prefix(), a.Starts[0], a.Starts[len(a.Starts)-1]
	by, read := map[string]*Series{}, 0
	for e, err := range counts.Scan(tx, storage.Range{Prefix: []byte(prefix), After: []byte(of.bucket(first))}) {
		if err != nil {
			return err
		}
		rest := e.Key[len(prefix):]
		at := startOf(rest)
		if at.After(last) {
			break
		}
		if read++; read > maxRead {
			return &QueryError{"there is too much to read: ask for a shorter time or a longer unit"}
		}
		value, ok := strings.CutPrefix(valueOf(rest), "=")
		if !ok {
			continue
		}
		s := by[value]
		if s == nil {
			s = &Series{Name: value, Counts: make([]int64, len(a.Starts))}
			by[value] = s
		}
		s.Counts[at.Sub(first)/units[of.unit].long] += e.Value.Count
		s.Total += e.Value.Count
	}
	other := by[Other]
	delete(by, Other)
	list := slices.SortedFunc(maps.Values(by), func(a, b *Series) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
	for i, s := range list {
		if i < mostSeen {
			a.Series = append(a.Series, *s)
			continue
		}
		if other == nil {
			other = &Series{Name: Other, Counts: make([]int64, len(a.Starts))}
		}
		other.Total += s.Total
		for i, n := range s.Counts {
			other.Counts[i] += n
		}
	}
	if other != nil {
		a.Series = append(a.Series, *other)
	}
	return nil
}
