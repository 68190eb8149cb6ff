package limit

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

// FlushEvery is the time between two writes. What was counted since the last one is lost when the process is killed,
// and not known to other nodes.
const FlushEvery = time.Second

const (
	quotaShards = 16
	perUpdate   = 500 // records
	stopWait    = 5 * time.Second
)

// Tell tells that a caller has used a share of a quota, in percent.
type Tell = func(tx storage.Tx, u Use, percent int64) error

// Marks are the shares of a quota, in percent, at which its owner is told.
var Marks = []int64{80, 100}

// Quotas counts in periods. It counts in memory, writes what was counted every FlushEvery, and learns then what other
// nodes have counted.
type Quotas struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger
	seed  maphash.Seed
	id    uint64 // of this node

	// Announce, if it is not nil, is called before a transaction and returns what tells in it that a share of Marks is
	// used, or nil. That is called once in a period, on one of the nodes.
	Announce func() Tell
	// Nodes returns the number of nodes that run. nil: this one alone
	Nodes func() int

	shards [quotaShards]quotaShard
	flush  sync.Mutex // one at a time
}

type quotaShard struct {
	mu      sync.Mutex // guards what follows
	max     int
	entries map[Key]*usage
	changed []*usage // with something to write or to read
	late    []saving // of periods that are over
}

type usage struct {
	key        Key
	about      string // of the quota, for operators
	limit      int64  // 0: no one has asked since the start
	start, end int64  // of the period, in nanoseconds since 1970
	used       int64  // with what is not written yet
	unsaved    int64
	listed     bool  // in changed
	ahead      int64 // of several nodes: what can still pass here
	leased     int64 // until then, in nanoseconds since 1970
}

func (q *Quotas) nodes() int64 {
	if q.Nodes == nil {
		return 1
	}
	return int64(q.Nodes())
}

// saving is a number to be added to a record.
type saving struct {
	of         *usage // nil: its period is over
	key        Key
	limit      int64
	start, end int64
	add, total int64
	about      string
	tell       Tell  // nil: no one is told
	ahead      int64 // the lease of this node
}

// newQuotas returns the quotas of a store for a number of keys. Call Load before they count, and Run.
func newQuotas(store storage.Store, keys int, now func() time.Time, log *zap.Logger) *Quotas {
	if now == nil {
		now = time.Now
	}
	q := &Quotas{store: store, now: now, log: log, seed: maphash.MakeSeed(), id: rand.Uint64()} //nolint:gosec // no secret
	for i := range q.shards {
		q.shards[i].max, q.shards[i].entries = max(1, keys/quotaShards), map[Key]*usage{}
	}
	return q
}

func (q *Quotas) shardOf(k Key) *quotaShard {
	return &q.shards[maphash.Comparable(q.seed, k)%quotaShards]
}

// Load reads what was used of the periods that are not over.
func (q *Quotas) Load(ctx context.Context) error {
	now := q.now()
	return q.store.View(ctx, func(tx storage.Tx) error {
		for e, err := range used.Scan(tx, storage.Range{}) {
			if err != nil {
				return fmt.Errorf("read what was used of quotas: %w", err)
			}
			r := e.Value
			if !r.End.After(now) {
				continue
			}
			k := Key{Rule: r.Rule, Name: r.Name}
			copy(k.Addr[:], r.Addr)
			s := q.shardOf(k)
			s.mu.Lock()
			if known := s.entries[k]; len(s.entries) < s.max && (known == nil || known.end > r.End.UnixNano()) {
				s.entries[k] = &usage{key: k, end: r.End.UnixNano(), used: r.Used} // the rule knows the start
			}
			s.mu.Unlock()
		}
		return nil
	})
}

// take counts a request of a key if its quota is not used up.
func (q *Quotas) take(k Key, r Rate, about string, now time.Time) State {
	s, at := q.shardOf(k), now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usage(k, r, now)
	if u == nil {
		return State{Retry: FlushEvery, Reset: FlushEvery}
	}
	u.about = about
	s.list(u) // when it is used up, too: someone may have lifted it
	ok := u.used < r.Count
	if nodes := q.nodes(); ok && nodes > 1 && !u.hasLease(at, nodes) {
		return State{Retry: FlushEvery, Reset: max(0, time.Duration(u.end-at))}
	}
	if ok {
		u.used++
		u.unsaved++
		u.ahead--
	}
	return u.state(ok, at)
}

// giveBack takes back the count of a request that something else has refused.
func (q *Quotas) giveBack(k Key) {
	s := q.shardOf(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.entries[k]; u != nil && u.used > 0 {
		u.used--
		u.unsaved--
		u.ahead++
		s.list(u)
	}
}

// look returns what take would say, and counts nothing.
func (q *Quotas) look(k Key, r Rate, now time.Time) State {
	s, at := q.shardOf(k), now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := usage{limit: r.Count}
	if known := s.entries[k]; known != nil && at < known.end {
		u.used, u.end = known.used, known.end
	} else {
		_, end := r.Per.around(now)
		u.end = end.UnixNano()
	}
	ok := u.used < r.Count
	if ok {
		u.used++
	}
	return u.state(ok, at)
}

func (u *usage) state(ok bool, now int64) State {
	s := State{OK: ok, Remaining: max(0, u.limit-u.used), Reset: max(0, time.Duration(u.end-now))}
	if s.Remaining == 0 {
		s.Retry = s.Reset
	}
	return s
}

// usage returns the usage of a key in the period of now, or nil if there is no room. mu is held.
func (s *quotaShard) usage(k Key, r Rate, now time.Time) *usage {
	at := now.UnixNano()
	u := s.entries[k]
	if u != nil && at < u.end && u.limit == r.Count {
		return u
	}
	start, end := r.Per.around(now)
	switch {
	case u == nil:
		if len(s.entries) >= s.max && !s.makeRoom(at) {
			return nil
		}
		u = &usage{key: k, end: end.UnixNano()}
		s.entries[k] = u
	case at >= u.end:
		if u.unsaved != 0 {
			s.late = append(s.late, saving{key: k, limit: u.limit, start: u.start, end: u.end, add: u.unsaved, about: u.about})
		}
		u.used, u.unsaved, u.end = 0, 0, end.UnixNano()
	}
	u.limit, u.leased = r.Count, 0
	if u.end == end.UnixNano() { // and not a clock that went back
		u.start = start.UnixNano()
	}
	return u
}

// makeRoom forgets a key of a period that is over, one that has not come since the start, or one whose count is written
// and not used up. Its count is read again with the first write after it comes back. mu is held.
func (s *quotaShard) makeRoom(now int64) bool {
	n := 0
	for k, u := range s.entries {
		if u.unsaved == 0 && !u.listed && (u.end <= now || u.used < u.limit || u.limit == 0) {
			delete(s.entries, k)
			return true
		}
		if n++; n > look {
			break
		}
	}
	return false
}

func (s *quotaShard) list(u *usage) {
	if !u.listed {
		u.listed = true
		s.changed = append(s.changed, u)
	}
}

// lift forgets what a key has used in the present period, and reports whether it was there.
func (q *Quotas) lift(ctx context.Context, k Key, note func(storage.Tx, Key) error) (bool, error) {
	q.flush.Lock()
	defer q.flush.Unlock()
	s := q.shardOf(k)
	s.mu.Lock()
	u := s.entries[k]
	var start int64
	if u != nil {
		start = u.start
	}
	s.mu.Unlock()
	if u == nil || start == 0 {
		return false, nil
	}
	if err := q.store.Update(ctx, func(tx storage.Tx) error {
		if err := used.Delete(tx, usedKey(k, start)); err != nil {
			return err
		}
		return note(tx, k)
	}); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.used, u.unsaved = 0, 0
	return true, nil
}

// size returns the number of keys.
func (q *Quotas) size() (n int) {
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

// near returns the keys that have used at least a share of their quota, the most used first, at most limit of them.
// The counters wait while keep is called.
func (q *Quotas) near(share float64, limit int, now time.Time, keep func(*Use) bool) []Use {
	var out []Use
	at := now.UnixNano()
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		for k, u := range s.entries {
			if u.limit > 0 && at < u.end && float64(u.used) >= share*float64(u.limit) {
				one := Use{Key: k, About: u.about, Used: u.used, Limit: u.limit, State: u.state(u.used < u.limit, at)}
				if keep(&one) {
					out = append(out, one)
				}
			}
		}
		s.mu.Unlock()
		out = mostUsed(out, limit)
	}
	return out
}

// Run writes every FlushEvery what was counted, until ctx ends, and what was counted until then.
func (q *Quotas) Run(ctx context.Context) {
	periodic.Write(ctx, FlushEvery, stopWait, func(ctx context.Context) {
		if err := q.Flush(ctx); err != nil {
			q.log.Warn("what was used of quotas is not written yet", zap.Error(err))
		}
	})
}

// Flush writes what was counted and reads what other nodes have counted.
func (q *Quotas) Flush(ctx context.Context) error {
	q.flush.Lock()
	defer q.flush.Unlock()
	var all []saving
	for i := range q.shards {
		all = q.shards[i].collect(all)
	}
	for len(all) > 0 {
		some := all[:min(len(all), perUpdate)]
		if err := q.save(ctx, some); err != nil {
			for _, one := range all {
				q.undo(one)
			}
			return err
		}
		all = all[len(some):]
	}
	return nil
}

func (s *quotaShard) collect(all []saving) []saving {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = append(all, s.late...)
	for _, u := range s.changed {
		all = append(all, saving{of: u, key: u.key, limit: u.limit, start: u.start, end: u.end, add: u.unsaved, about: u.about})
		u.unsaved, u.listed = 0, false
	}
	s.changed, s.late = nil, nil
	return all
}

// save adds to the records, and tells those whose quota is nearly used up.
func (q *Quotas) save(ctx context.Context, list []saving) error {
	for i := range list {
		if q.Announce != nil && list[i].add > 0 && list[i].limit > 0 {
			list[i].tell = q.Announce()
		}
	}
	at := q.now().UnixNano()
	if err := q.store.Update(ctx, func(tx storage.Tx) error {
		for i := range list {
			if err := q.add(tx, &list[i], at); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, one := range list {
		if one.of == nil {
			continue
		}
		s := q.shardOf(one.key)
		s.mu.Lock()
		if one.of.start == one.start {
			one.of.used, one.of.ahead, one.of.leased = one.total+one.of.unsaved, one.ahead-one.of.unsaved, at+int64(leaseLasts)
		}
		s.mu.Unlock()
	}
	return nil
}

func (q *Quotas) add(tx storage.Tx, one *saving, at int64) error {
	key := usedKey(one.key, one.start)
	r, known, err := used.Find(tx, key)
	if err != nil {
		return err
	}
	before := r.Used
	one.total = max(0, before+one.add)
	leases := one.lease(r.Ahead, q.id, at)
	if q.nodes() < 2 {
		leases = nil
	}
	if one.add == 0 && (known || one.total == 0) && len(leases)+len(r.Ahead) == 0 {
		return nil
	}
	end := time.Unix(0, one.end).UTC()
	r = usedRecord{Rule: one.key.Rule, Name: one.key.Name, End: end, Used: one.total, Ahead: leases}
	if one.key.Addr != [16]byte{} {
		r.Addr = one.key.Addr[:]
	}
	if err := used.Put(tx, key, r, end.Add(keptAfter)); err != nil {
		return err
	}
	if one.tell == nil {
		return nil
	}
	for i := len(Marks) - 1; i >= 0; i-- {
		mark := int64(math.Ceil(float64(one.limit) * float64(Marks[i]) / 100))
		if before < mark && mark <= one.total {
			return one.tell(tx, Use{Key: one.key, About: one.about, Used: one.total, Limit: one.limit}, Marks[i])
		}
	}
	return nil
}

// undo keeps what could not be written for the next time.
func (q *Quotas) undo(one saving) {
	s := q.shardOf(one.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case one.of == nil || one.of.start != one.start:
		if one.add != 0 {
			one.of = nil
			s.late = append(s.late, one)
		}
	default:
		one.of.unsaved += one.add
		one.of.leased = 0
		s.list(one.of)
	}
}
