package outbox

import (
	"bytes"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Held is an item that is not delivered: it waits for its next try, or was given up.
type Held[T any] struct {
	Key     string // where it is now. Each try moves it
	ID      string
	Value   T
	AddedAt time.Time
	// Due is the time of the next try, or the time when it was given up.
	Due     time.Time
	Tries   int
	Problem string // of the last try
	Trying  bool   // at this moment
	GivenUp bool
}

// miss is a try that has failed.
type miss[T any] struct {
	claim[T]

	problem string
	last    bool
}

// keptLane is the lane of what was given up. No one sends it.
func (q *Queue[T]) keptLane() string { return q.Lane + ": given up" }

// kept is the queue of what was given up.
func (q *Queue[T]) kept() *Queue[T] {
	k := *q
	k.Lane = q.keptLane()
	return &k
}

// note writes down why a try has failed, and puts what is given up aside. What was dropped meanwhile stays away, and
// what was put elsewhere stays there.
func (q *Queue[T]) note(tx storage.Tx, m miss[T], at time.Time) error {
	rec, found, err := q.table.Find(tx, m.key)
	if err != nil || !found {
		return err
	}
	rec.Tried, rec.Problem = time.Time{}, m.problem
	if !m.last {
		return q.put(tx, m.key, rec)
	}
	if err := q.table.Delete(tx, m.key); err != nil {
		return err
	}
	return q.table.Put(tx, q.kept().key(at, m.id), rec, at.Add(q.Keep))
}

// List returns what waits, the soonest due first, or what was given up, the newest first: at most so many after a key.
// Empty: from the beginning. more: there are others after these.
func (q *Queue[T]) List(tx storage.Tx, givenUp bool, behind string, most int, now time.Time) (list []Held[T], more bool, err error) {
	lane := q
	if givenUp {
		lane = q.kept()
	}
	r := storage.Range{Prefix: storage.Prefix(lane.Lane), Descending: givenUp, Limit: most + 1}
	if behind != "" {
		r.After = []byte(behind)
	}
	for e, err := range q.table.Scan(tx, r) {
		if err != nil {
			return nil, false, err
		}
		if len(list) == most {
			return list, true, nil
		}
		list = append(list, lane.held(e.Key, e.Value, givenUp, now))
	}
	return list, false, nil
}

func (q *Queue[T]) held(key string, rec Record[T], givenUp bool, now time.Time) Held[T] {
	due, id := q.parse(key)
	return Held[T]{
		Key: key, ID: id, Value: rec.Value, AddedAt: rec.AddedAt, Due: due, Tries: rec.Tries, Problem: rec.Problem, GivenUp: givenUp,
		Trying: !givenUp && !rec.Tried.IsZero() && now.Before(rec.Tried.Add(q.First)),
	}
}

// laneOf returns the queue that a key belongs to, or nil: it is of no item here.
func (q *Queue[T]) laneOf(key string) (lane *Queue[T], givenUp bool) {
	for i, l := range []*Queue[T]{q, q.kept()} {
		if rest, ok := bytes.CutPrefix([]byte(key), storage.Prefix(l.Lane)); ok && len(rest) > 8 {
			return l, i == 1
		}
	}
	return nil, false
}

// Find returns an item by its key. found is false for one that was tried, delivered or dropped meanwhile.
func (q *Queue[T]) Find(tx storage.Tx, key string, now time.Time) (h Held[T], found bool, err error) {
	lane, givenUp := q.laneOf(key)
	if lane == nil {
		return h, false, nil
	}
	rec, found, err := q.table.Find(tx, key)
	if err != nil || !found {
		return h, false, err
	}
	return lane.held(key, rec, givenUp, now), true, nil
}

// searched is the number of items of a lane that Moved looks at.
const searched = 10_000

// Moved returns an item by a key that it had before it was tried or given up. found is false for one that was delivered
// or dropped meanwhile, or that many others are due before.
func (q *Queue[T]) Moved(tx storage.Tx, key string, now time.Time) (h Held[T], found bool, err error) {
	lane, _ := q.laneOf(key)
	if lane == nil {
		return h, false, nil
	}
	_, id := lane.parse(key)
	for i, l := range []*Queue[T]{q, q.kept()} {
		for e, err := range q.table.Scan(tx, storage.Range{Prefix: storage.Prefix(l.Lane), Limit: searched}) {
			if err != nil {
				return h, false, err
			}
			if h = l.held(e.Key, e.Value, i == 1, now); h.ID == id {
				return h, true, nil
			}
		}
	}
	return Held[T]{}, false, nil
}

// Again makes an item due now, and starts over with one that was given up. It reports whether there is one.
func (q *Queue[T]) Again(tx storage.Tx, key string, now time.Time) (bool, error) {
	h, found, err := q.Find(tx, key, now)
	if err != nil || !found {
		return false, err
	}
	rec := Record[T]{Value: h.Value, AddedAt: h.AddedAt, Tries: h.Tries, Problem: h.Problem}
	if h.GivenUp {
		rec.AddedAt, rec.Tries = now, 0
	}
	if err := q.table.Delete(tx, key); err != nil {
		return false, err
	}
	q.look()
	return true, q.put(tx, q.key(now, h.ID), rec)
}

// Drop deletes an item, and reports whether there was one. A try that is under way may still deliver it.
func (q *Queue[T]) Drop(tx storage.Tx, key string, now time.Time) (bool, error) {
	if _, found, err := q.Find(tx, key, now); err != nil || !found {
		return false, err
	}
	return true, q.table.Delete(tx, key)
}
