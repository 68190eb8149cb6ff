// Package stats counts sign-ins, sign-ups and refusals by minute, hour and day. Each is noted in the transaction of its
// cause, without reading anything, and added to the counters by a worker. (docs/decisions/events.md#counters)
package stats

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What is counted besides events, whose kinds name their measure.
const (
	ActivePersons = "active_persons"    // per day, each person once
	Admissions    = "admissions"        // requests that a site has let pass
	Denials       = "denials"           // requests that a site has refused
	StepUps       = "site_step_ups"     // requests that a site has sent to a stronger or more recent sign-in
	Decisions     = "decisions"         // requests that sites have judged, by how long it took
	RuleDecisions = "rule_decisions"    // requests about which a rule of a site or of a policy has decided
	Tried         = "shadow_decisions"  // requests that shadow rules have judged too
	TriedRefusals = "shadow_refusals"   // those that have passed, and that the shadow rules would have kept
	TriedEntries  = "shadow_admissions" // those that were kept, and that the shadow rules would have let pass
	Calls         = "api_calls"         // of API clients. It is known when the last one was, not how many there were
	ClientCalls   = "client_calls"      // of OAuth clients that have shown who they are. Likewise
	activity      = audit.CountActive   // what makes a person active without being a sign-in
)

// Dimension is by what a measure can be split.
type Dimension string

// The dimensions.
const (
	Provider    Dimension = "provider"
	Application Dimension = "application"
	Site        Dimension = "site"
	Latency     Dimension = "latency"
	APIClient   Dimension = "api_client"
	Rule        Dimension = "rule"
)

// dimensions are by what each measure is split.
var dimensions = map[string][]Dimension{
	audit.CountSignIn: {Provider, Application},
	audit.CountFailed: {Provider, Application},
	audit.CountNew:    {Provider, Application},
	ActivePersons:     {Provider, Application},
	Admissions:        {Site},
	Denials:           {Site},
	StepUps:           {Site},
	Decisions:         {Latency},
	RuleDecisions:     {Rule},
	Tried:             {Site},
	TriedRefusals:     {Site},
	TriedEntries:      {Site},
}

// Unit is the length of a bucket.
type Unit string

// The units.
const (
	Minute Unit = "minute"
	Hour   Unit = "hour"
	Day    Unit = "day"
)

// span says how long a bucket is, and how long after its start it is kept.
type span struct{ long, kept time.Duration }

var units = map[Unit]span{
	Minute: {time.Minute, 3 * time.Hour},
	Hour:   {time.Hour, 32 * 24 * time.Hour},
	Day:    {24 * time.Hour, 750 * 24 * time.Hour},
}

const (
	mergeEvery = time.Second
	lookBack   = 10 * time.Second // what was committed late is found at once, and after wholeEvery at the latest
	wholeEvery = time.Minute
	batch      = 500  // of what is due, in one transaction
	maxValues  = 1000 // of a dimension in a bucket; the rest is Other
	// markKept is the time after the start of a day during which it is known who was active. What comes in after
	// lateActive makes no one active, so no one counts twice.
	markKept, lateActive = 3 * 24 * time.Hour, 2 * 24 * time.Hour
)

// Other is the name of the values that are too many to be counted one by one.
const Other = "(other)"

// Counter counts in a store. It is safe for concurrent use; one of those that share a store runs at a time.
type Counter struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger

	mu    sync.Mutex // guards what follows
	after time.Time  // what was due before is counted, but for what was committed late
	whole time.Time  // when all that is due was looked at
}

// New returns a counter. now is the system's if it is nil.
func New(store storage.Store, now func() time.Time, log *zap.Logger) *Counter {
	if now == nil {
		now = time.Now
	}
	return &Counter{store: store, now: now, log: log}
}

// Event counts an event in its transaction, if its kind says so. A partition is counted on its own too, unless it is
// empty.
func Event(tx storage.Tx, e audit.Event, partition string) error {
	measure := e.Counts()
	if measure == "" || measure == activity && e.PersonID == "" {
		return nil
	}
	d := dueRecord{Measure: measure, At: e.Occurred, Partition: partition, Person: e.PersonID, By: map[Dimension]string{}}
	if measure == audit.CountFailed {
		d.Reason = e.Reason
	}
	if e.Provider != "" {
		d.By[Provider] = e.Provider
	}
	if e.ClientID != "" {
		d.By[Application] = e.ClientID
	}
	return dues.Put(tx, dueKey(e.Occurred, e.ID), d, never)
}

// sum is the number of occurrences of something that is no event.
type sum struct {
	Measure string
	By      Dimension
	Value   string
	Count   int64
}

// add counts what is no event. id is new each time.
func add(tx storage.Tx, at time.Time, id string, sums []sum) error {
	for i, s := range sums {
		d := dueRecord{Measure: s.Measure, At: at, Count: s.Count, By: map[Dimension]string{s.By: s.Value}}
		if err := dues.Put(tx, dueKey(at, storage.Key(id, strconv.Itoa(i))), d, never); err != nil {
			return err
		}
	}
	return nil
}

// Run counts once a second until ctx ends.
func (c *Counter) Run(ctx context.Context) {
	periodic.Every(ctx, mergeEvery, c.log, "statistics not counted; retrying", func() error { return c.Count(ctx) })
}

// Count counts what is due now, in batches of one transaction each.
func (c *Counter) Count(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	from := c.after
	if now.Sub(c.whole) >= wholeEvery || now.Before(c.whole) {
		from, c.whole = time.Time{}, now
	}
	var after []byte
	if !from.IsZero() {
		after = dues.Key(dueKey(from, ""))
	}
	for {
		keys, err := c.due(ctx, after)
		if err == nil && len(keys) > 0 {
			err = c.store.Update(ctx, func(tx storage.Tx) error { return move(tx, keys, now) })
		}
		if err != nil {
			c.whole = time.Time{}
			return err
		}
		if n := len(keys); n > 0 {
			after = keys[n-1] // what was counted has left a mark that each scan from further back passes
			c.after = dueAt(after).Add(-lookBack)
		}
		if len(keys) < batch {
			return nil
		}
	}
}

// due returns the keys of a batch of what is due, after a key.
func (c *Counter) due(ctx context.Context, after []byte) (keys [][]byte, err error) {
	err = c.store.View(ctx, func(tx storage.Tx) error {
		keys = nil
		for rec, err := range tx.Scan(storage.Range{Prefix: dues.Key(""), After: after, Limit: batch}) {
			if err != nil {
				return err
			}
			keys = append(keys, rec.Key)
		}
		return nil
	})
	return keys, err
}

// move counts what is due and has not been counted meanwhile. A record that cannot be read is left out, since all
// counters would stop at it.
func move(tx storage.Tx, keys [][]byte, now time.Time) error {
	found, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	s, l := newSums(now), latest{}
	for i, raw := range found {
		if raw == nil {
			continue
		}
		d, err := dues.Decode(raw)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		if err == nil {
			s.add(d)
			l.add(d)
		}
		if err := tx.Delete(keys[i]); err != nil {
			return err
		}
	}
	if err := s.countPersons(tx); err != nil {
		return err
	}
	if err := l.write(tx); err != nil {
		return err
	}
	return s.write(tx)
}
