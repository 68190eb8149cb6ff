package limit

import (
	"context"
	"math"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Several nodes share the buckets of callers. A node has its part of each bucket at once: of N nodes, one Nth of the
// rate and of the burst. What passes there is charged to the shared bucket as soon as it is more than half of the part.
// From then on the node has leases: every second it takes from the shared bucket as many requests as the caller is
// expected to make there, and gives back what the caller has not made. No request waits for that.
// (docs/limits.md#several-nodes)

// lease is the part of a shared bucket that a node holds.
type lease struct {
	quiet  bool  // it holds its part, and nothing is leased
	held   int64 // requests that can pass
	left   int64 // that the shared bucket had, besides
	passed int64 // since the last exchange
	denied int64 // likewise
}

// idleSpans is the number of times that an idle bucket fills up until the node forgets what was not charged.
const idleSpans = 8

// takeShared is take for one of several nodes.
func (t *table) takeShared(k Key, b *Bucket, now time.Time, nodes int64) State {
	s, h := t.find(k)
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(h, k, b, at)
	if e.bucket == nil { // shared by those without room
		var out State
		e.full, out = b.take(e.full, at)
		return out
	}
	if e.lease == nil {
		e.lease = &lease{quiet: true}
	}
	if l := e.lease; l.quiet && at-e.full > idleSpans*b.span {
		l.passed = 0
	}
	out := e.takeShared(b, at, nodes, true)
	if !e.lease.quiet || !out.OK || 2*e.lease.passed > b.part(nodes).Burst {
		s.list(e)
	}
	return out
}

// takeShared counts a request, or if counts is false returns what that would say. mu of its shard is held.
func (e *entry) takeShared(b *Bucket, at, nodes int64, counts bool) State {
	l := e.lease
	if l == nil || l.quiet {
		p := b.part(nodes)
		next, out := p.take(e.full, at)
		if out.Remaining = min(out.Remaining*nodes, b.Burst); out.Retry > 0 {
			out.Retry = min(out.Retry, FlushEvery) // there can be a lease by then
		}
		switch {
		case !counts:
		case out.OK:
			e.full = next
			l.passed++
		default:
			l.denied++
		}
		return out
	}
	next, out := b.take(e.full, at)
	if out.OK && l.held > 0 {
		if out.Remaining = min(out.Remaining, l.held+l.left-1); out.Remaining == 0 && out.Retry == 0 {
			out.Retry = FlushEvery
		}
		if counts {
			e.full = next
			l.held--
			l.passed++
		}
		return out
	}
	if counts {
		l.denied++
	}
	if out.OK {
		out = b.state(b.clamp(e.full, at), at, false)
		out.Retry = max(out.Retry, FlushEvery)
	}
	out.Remaining = 0
	return out
}

// state says how often a caller can still come.
func (e *entry) state(at int64) State {
	out := e.bucket.state(e.bucket.clamp(e.full, at), at, true)
	if l := e.lease; l != nil && !l.quiet {
		if out.Remaining = min(out.Remaining, l.held+l.left); out.Remaining == 0 && out.Retry == 0 {
			out.Retry = FlushEvery
		}
	}
	return out
}

// giveBack takes back a request.
func (e *entry) giveBack(b *Bucket, nodes int64) {
	l := e.lease
	switch {
	case l == nil || nodes < 2:
		e.full -= b.every
		return
	case l.quiet:
		e.full -= b.every * nodes
	default:
		e.full -= b.every
		l.held++
	}
	l.passed = max(0, l.passed-1)
}

func (s *shard) list(e *entry) {
	if !e.listed {
		e.listed = true
		s.active = append(s.active, e)
	}
}

// exchange moves requests between a node and a shared bucket.
type exchange struct {
	e      *entry
	key    Key
	bucket *Bucket
	want   int64 // requests that the caller is expected to make here until the next exchange
	held   int64 // of them, already
	used   int64 // of the part of the node, before it has a lease
	back   int64 // of the lease
	got    int64
	left   int64 // that the bucket has afterwards
	full   int64 // when it would be full
}

// share exchanges with the shared buckets what has changed since the last time.
func (c *Counters) share(ctx context.Context) error {
	nodes := c.Quotas.nodes()
	if nodes < 2 {
		return nil
	}
	at := c.Quotas.now().UnixNano()
	list := c.callers.exchanges()
	for len(list) > 0 {
		some := list[:min(len(list), perUpdate)]
		if err := c.Quotas.store.Update(ctx, func(tx storage.Tx) error {
			for i := range some {
				if err := some[i].do(tx, c.Quotas.id, at); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			for i := range list {
				c.callers.undo(&list[i], at, nodes)
			}
			return err
		}
		for i := range some {
			c.callers.done(&some[i], at, nodes)
		}
		list = list[len(some):]
	}
	return nil
}

// exchanges returns what there is to exchange. What is given back is gone at once, so no request can use it.
func (t *table) exchanges() (list []exchange) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, e := range s.active {
			e.listed = false
			l := e.lease
			x := exchange{e: e, key: e.key, bucket: e.bucket, want: l.passed + l.passed/8 + l.denied}
			if l.passed+l.denied > 0 {
				x.want++
			}
			x.want = min(x.want, e.bucket.ahead())
			if l.quiet {
				x.used = l.passed
			} else {
				x.back = max(0, l.held-x.want)
				l.held -= x.back
				x.held, l.passed = l.held, 0
			}
			l.denied = 0
			list = append(list, x)
		}
		s.active = nil
		s.mu.Unlock()
	}
	return list
}

// ahead is the number of requests that the bucket lets pass at most until the next exchange.
func (b *Bucket) ahead() int64 { return b.Burst + (int64(FlushEvery)+b.every-1)/b.every }

// wantLasts is the time after which a node that has not come again wants nothing.
const wantLasts = 3 * FlushEvery

// do changes the shared bucket. If the nodes want more than it has, each gets its part of that.
func (x *exchange) do(tx storage.Tx, node uint64, at int64) error {
	b := x.bucket
	rec, _, err := shares.Find(tx, shareKey(x.key))
	if err != nil {
		return err
	}
	// What several nodes have used too much at once is paid back, and so is what is leased ahead.
	most := at + 2*b.span + int64(FlushEvery)
	full := min(max(rec.Full, at)+(x.used-x.back)*b.every, most)
	free := max(0, (at+b.span+int64(FlushEvery)-full)/b.every)
	target, all := x.want, x.want
	others := []wantRecord{}
	for _, w := range rec.Wants {
		if w.Node != node && at-w.At < int64(wantLasts) {
			others = append(others, w)
			all += w.Count
		}
	}
	if most := b.ahead(); all > most {
		target = (most*x.want + all - 1) / all
	}
	x.got = min(max(0, target-x.held), free)
	x.left, x.full = free-x.got, max(full+x.got*b.every, at)
	if rec = (shareRecord{Full: x.full, Wants: others}); x.want > 0 {
		rec.Wants = append(rec.Wants, wantRecord{node, x.want, at})
	}
	return shares.Put(tx, shareKey(x.key), rec, time.Unix(0, x.full).Add(keptAfter))
}

// done gives the node what it has got. One that neither has nor wants anything has its part again.
func (t *table) done(x *exchange, at, nodes int64) {
	s, _ := t.find(x.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := x.e
	switch l := e.lease; {
	case l.quiet:
		since := max(0, l.passed-x.used) // meanwhile
		*l = lease{held: max(0, x.got-since), left: x.left, passed: since, denied: l.denied}
		e.full = at + max(0, e.full-at)/nodes // as much is used, by the pace of the whole
		s.list(e)
	default:
		l.held += x.got
		l.left = x.left
		if l.held > 0 || x.want > 0 || l.denied > 0 {
			s.list(e) // to give it back, or to ask again
			break
		}
		// The part is as much used as the whole.
		*l, e.full = lease{quiet: true}, x.full
	}
}

// undo keeps what could not be exchanged for the next time. Until then the node has its part.
func (t *table) undo(x *exchange, at, nodes int64) {
	s, _ := t.find(x.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := x.e.lease; !l.quiet {
		*l, x.e.full = lease{quiet: true}, at+max(0, x.e.full-at)*nodes
	}
	s.list(x.e)
}

// quotaSlices is the number of parts of a quota. All nodes together can use one of them without a lease.
const quotaSlices = 20

// leaseLasts is the time for which a node has the lease of a quota. The other nodes count it for longer, since clocks
// differ.
const leaseLasts = wantLasts - FlushEvery

// hasLease reports whether a request can pass at this node. One that has no lease has its part of a slice, once until
// the next exchange. mu is held.
func (u *usage) hasLease(at, nodes int64) bool {
	if at > u.leased {
		u.ahead, u.leased = (u.limit+quotaSlices*nodes-1)/(quotaSlices*nodes), math.MaxInt64
	}
	return u.ahead > 0
}

// lease takes what is left of a quota, or as much of it as the nodes that have come lately would get each. It returns
// the leases of all.
func (one *saving) lease(have []wantRecord, node uint64, at int64) (leases []wantRecord) {
	left := one.limit - one.total
	if left <= 0 {
		return nil
	}
	for _, w := range have {
		if w.Node != node && at-w.At < int64(wantLasts) {
			leases = append(leases, w)
			left -= w.Count
		}
	}
	nodes := int64(len(leases)) + 1
	one.ahead = max(0, left+nodes-1) / nodes
	return append(leases, wantRecord{node, one.ahead, at})
}
