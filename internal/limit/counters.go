package limit

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

// How many keys are remembered. Strangers have addresses, so they have a table of their own.
const (
	addressKeys = 600_000
	callerKeys  = 200_000
	quotaKeys   = 200_000
)

// Counters are those of a process.
type Counters struct {
	addresses, callers *table
	Quotas             *Quotas
	rehearsed          bool
}

// NewCounters returns the counters of a store. now is the system's clock if it is nil.
func NewCounters(store storage.Store, now func() time.Time, log *zap.Logger) *Counters {
	return &Counters{
		addresses: newTable(addressKeys), callers: newTable(callerKeys), Quotas: newQuotas(store, quotaKeys, now, log),
	}
}

// Run writes every FlushEvery what was counted, and exchanges leases with the other nodes, until ctx ends.
func (c *Counters) Run(ctx context.Context) {
	var leases sync.WaitGroup
	leases.Go(func() {
		periodic.Every(ctx, FlushEvery, c.Quotas.log, "limits are not shared with the other nodes; retrying",
			func() error { return c.share(ctx) })
	})
	c.Quotas.Run(ctx)
	leases.Wait()
}

// Fill returns which share of the keys that can be remembered is in use, by their kind.
func (c *Counters) Fill() map[string]float64 {
	return map[string]float64{
		"addresses": float64(c.addresses.size()) / addressKeys, "callers": float64(c.callers.size()) / callerKeys,
		"quotas": float64(c.Quotas.size()) / quotaKeys,
	}
}

// Rehearsed returns counters that say the same and count nothing.
func (c *Counters) Rehearsed() *Counters {
	if c == nil {
		return nil
	}
	out := *c
	out.rehearsed = true
	return &out
}

// Take counts a request in a bucket. address says that the key is one.
func (c *Counters) Take(address bool, k Key, b *Bucket, now time.Time) State {
	t := c.callers
	if address {
		t = c.addresses
	}
	nodes := c.Quotas.nodes()
	if address {
		nodes = 1 // strangers could fill the storage
	}
	switch {
	case c.rehearsed:
		return t.look(k, b, now, nodes)
	case nodes > 1:
		return t.takeShared(k, b, now, nodes)
	}
	return t.take(k, b, now)
}

// Return takes back the count of a caller that is no address.
func (c *Counters) Return(k Key, b *Bucket) {
	if !c.rehearsed {
		c.callers.giveBack(k, b, c.Quotas.nodes())
	}
}

// TakeQuota counts a request of a quota. about names the quota to operators.
func (c *Counters) TakeQuota(k Key, r Rate, about string, now time.Time) State {
	if c.rehearsed {
		return c.Quotas.look(k, r, now)
	}
	return c.Quotas.take(k, r, about, now)
}

// ReturnQuota takes back the count of a quota.
func (c *Counters) ReturnQuota(k Key) {
	if !c.rehearsed {
		c.Quotas.giveBack(k)
	}
}

// Most is the largest number of requests that can remain.
func (b *Bucket) Most() int64 {
	if b.Burst == 0 {
		return b.Rate.Count
	}
	return b.Burst
}
