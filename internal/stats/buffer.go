package stats

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	flushEvery = 5 * time.Second
	mostSites  = 1000 // that are counted one by one
	mostRules  = 1000
)

// bounds are the upper bounds of how long decisions take.
var bounds = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// LatencyBounds are the values of Latency: the same bounds in milliseconds, and what took longer.
var LatencyBounds = []string{"0.1", "0.25", "0.5", "1", "2.5", "5", "10", "25", "50", "100", "250", "500", "1000", "+Inf"}

// Buffer counts what happens in each request, in memory, and writes it every few seconds. What is not written when the
// process dies is lost. A nil Buffer counts nothing.
type Buffer struct {
	store  storage.Store
	now    func() time.Time
	random io.Reader
	log    *zap.Logger

	took [14]atomic.Int64 // by bound

	mu     sync.Mutex // guards all below
	sites  map[string]*SiteCounts
	rules  map[string]*RuleCount
	called map[caller]Last

	writing sync.Mutex // one write at a time
}

// NewBuffer returns a buffer that writes while Run runs.
func NewBuffer(store storage.Store, now func() time.Time, random io.Reader, log *zap.Logger) *Buffer {
	if now == nil {
		now = time.Now
	}
	return &Buffer{
		store: store, now: now, random: random, log: log, sites: map[string]*SiteCounts{}, rules: map[string]*RuleCount{},
		called: map[caller]Last{},
	}
}

// SiteCounts counts what a site does with requests. It costs a request no look-up. A nil SiteCounts counts nothing.
type SiteCounts struct {
	of [len(siteMeasures)]atomic.Int64
}

// siteMeasures are the measures of each site.
var siteMeasures = [...]string{Admissions, Denials, StepUps, Tried, TriedRefusals, TriedEntries}

func (c *SiteCounts) add(measure int, n int64) {
	if c != nil {
		c.of[measure].Add(n)
	}
}

// Admitted counts a request that the site has let pass.
func (c *SiteCounts) Admitted() { c.add(0, 1) }

// Denied counts a request that the site has refused.
func (c *SiteCounts) Denied() { c.add(1, 1) }

// Raised counts a request that the site has sent to a stronger or more recent sign-in.
func (c *SiteCounts) Raised() { c.add(2, 1) }

// Tried counts a request that shadow rules have judged too: passed is what became of it, and would what they say.
func (c *SiteCounts) Tried(passed, would bool) {
	c.add(3, 1)
	switch {
	case passed && !would:
		c.add(4, 1)
	case would && !passed:
		c.add(5, 1)
	}
}

// RuleCount counts the requests about which a rule has decided. It costs a request no look-up. A nil RuleCount counts
// nothing.
type RuleCount struct{ n atomic.Int64 }

// Decided counts a request.
func (c *RuleCount) Decided() { c.add(1) }

func (c *RuleCount) add(n int64) {
	if c != nil {
		c.n.Add(n)
	}
}

// RuleName is under what the decisions of a rule are counted: its owner, such as policy office, what it does, and its
// name or else its place.
func RuleName(owner, kind, name, place string) string {
	return owner + ": " + kind + " " + cmp.Or(name, place)
}

// Rule returns what counts for a rule. Those that are too many count as Other.
func (b *Buffer) Rule(name string) *RuleCount {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.rules[name]; !known && len(b.rules) >= mostRules {
		name = Other
	}
	if b.rules[name] == nil {
		b.rules[name] = new(RuleCount)
	}
	return b.rules[name]
}

// Site returns what counts for a site. Those that are too many count as Other.
func (b *Buffer) Site(name string) *SiteCounts {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.sites[name]; !known && len(b.sites) >= mostSites {
		name = Other
	}
	if b.sites[name] == nil {
		b.sites[name] = new(SiteCounts)
	}
	return b.sites[name]
}

// Judged counts a request that a site has judged, by how long that took.
func (b *Buffer) Judged(d time.Duration) {
	if b != nil {
		i, _ := slices.BinarySearch(bounds, d)
		b.took[i].Add(1)
	}
}

// Called notes that an API client has called from an address.
func (b *Buffer) Called(client, address string) { b.note(caller{Calls, APIClient, client}, address) }

// ClientCalled notes that an OAuth client has shown who it is, from an address.
func (b *Buffer) ClientCalled(client, address string) {
	b.note(caller{ClientCalls, Application, client}, address)
}

func (b *Buffer) note(who caller, address string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.called[who] = Last{At: b.now(), Address: address}
}

// Run writes until ctx ends, and then once more.
func (b *Buffer) Run(ctx context.Context) { periodic.Write(ctx, flushEvery, time.Second, b.Flush) }

// Flush writes what has been counted. If that fails, it is kept for the next time.
func (b *Buffer) Flush(ctx context.Context) {
	b.writing.Lock()
	defer b.writing.Unlock()
	var sums []sum
	b.mu.Lock()
	for site, c := range b.sites {
		for i, measure := range siteMeasures {
			if n := c.of[i].Swap(0); n > 0 {
				sums = append(sums, sum{measure, Site, site, n})
			}
		}
	}
	for rule, c := range b.rules {
		if n := c.n.Swap(0); n > 0 {
			sums = append(sums, sum{RuleDecisions, Rule, rule, n})
		}
	}
	called := b.called
	b.called = map[caller]Last{}
	b.mu.Unlock()
	for i := range b.took {
		if n := b.took[i].Swap(0); n > 0 {
			sums = append(sums, sum{Decisions, Latency, LatencyBounds[i], n})
		}
	}
	if len(sums)+len(called) == 0 {
		return
	}
	id, err := uuid.NewRandomFromReader(b.random)
	if err == nil {
		now := b.now()
		err = b.store.Update(ctx, func(tx storage.Tx) error {
			return errors.Join(add(tx, now, id.String(), sums), addCalls(tx, id.String(), called))
		})
	}
	if err == nil {
		return
	}
	b.log.Warn("statistics of sites not written; retrying", zap.Error(err))
	b.mu.Lock()
	for who, last := range called {
		if _, newer := b.called[who]; !newer {
			b.called[who] = last
		}
	}
	b.mu.Unlock()
	for _, s := range sums {
		switch s.By {
		case Site:
			b.Site(s.Value).add(slices.Index(siteMeasures[:], s.Measure), s.Count)
		case Rule:
			b.Rule(s.Value).add(s.Count)
		default:
			b.took[slices.Index(LatencyBounds, s.Value)].Add(s.Count)
		}
	}
}
