// Package usage counts the requests of clients at protected sites by day, for bills and capacity. It counts in memory
// and writes every few seconds, so a request never waits for storage. (docs/decisions/gateway.md#usage)
package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

// FlushEvery is the time between two writes. What was counted since the last one is lost when the process is killed.
const FlushEvery = 5 * time.Second

const (
	stopWait  = 5 * time.Second
	perUpdate = 500    // records
	mostKeys  = 20_000 // that wait in memory
	mostPairs = 50_000 // of a client and a site on a day
	maxText   = 512    // bytes of a name
)

// Other is the client of those that are too many to be counted one by one.
const Other = "(other)"

// Counter counts the requests of this process. A nil Counter counts nothing.
type Counter struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger

	mu      sync.Mutex // guards what follows
	sites   []*Site
	waiting map[key]numbers // was not written
	keys    int             // in sites and waiting

	writing sync.Mutex // one write at a time
}

// Site counts the requests at a site. A nil Site counts nothing.
type Site struct {
	name string
	c    *Counter

	mu      sync.Mutex // guards what follows
	day     int64      // since 1970
	clients map[string]*numbers
}

type key struct {
	day          int64
	client, site string
}

type numbers struct{ passed, limited int64 }

// New returns a counter. now is the system's clock if it is nil.
func New(store storage.Store, now func() time.Time, log *zap.Logger) *Counter {
	if now == nil {
		now = time.Now
	}
	return &Counter{store: store, now: now, log: log, waiting: map[key]numbers{}}
}

// Site returns what counts at a site. The same name has the same counts.
func (c *Counter) Site(name string) *Site {
	if c == nil {
		return nil
	}
	name = trim(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sites {
		if s.name == name {
			return s
		}
	}
	s := &Site{name: name, c: c, clients: map[string]*numbers{}}
	c.sites = append(c.sites, s)
	return s
}

// Passed counts a request that a site has let pass.
func (s *Site) Passed(client string, at time.Time) { s.add(client, at, numbers{passed: 1}) }

// Limited counts a request that a limit or quota has refused.
func (s *Site) Limited(client string, at time.Time) { s.add(client, at, numbers{limited: 1}) }

func (s *Site) add(client string, at time.Time, n numbers) {
	if s == nil || client == "" {
		return
	}
	day := at.Unix() / daySeconds
	s.mu.Lock()
	defer s.mu.Unlock()
	if day != s.day {
		s.hand()
		s.day = day
	}
	known := s.clients[client]
	if known == nil {
		if client = s.c.room(trim(client)); s.clients[client] == nil {
			s.clients[client] = new(numbers)
		}
		known = s.clients[client]
	}
	known.passed += n.passed
	known.limited += n.limited
}

// room returns the client if one more can be remembered, and otherwise Other.
func (c *Counter) room(client string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys >= mostKeys {
		return Other
	}
	c.keys++
	return client
}

// hand makes the counts of the site wait to be written. Its mu is held.
func (s *Site) hand() {
	if len(s.clients) == 0 {
		return
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for client, n := range s.clients {
		s.c.wait(key{s.day, client, s.name}, *n)
	}
	s.clients = map[string]*numbers{}
}

// wait adds to what waits. mu is held.
func (c *Counter) wait(k key, n numbers) {
	is := c.waiting[k]
	c.waiting[k] = numbers{is.passed + n.passed, is.limited + n.limited}
}

// Run writes until ctx ends, and then once more.
func (c *Counter) Run(ctx context.Context) {
	periodic.Every(ctx, FlushEvery, c.log, "the usage of clients is not written; retrying", func() error { return c.Flush(ctx) })
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := c.Flush(last); err != nil {
		c.log.Error("the last usage of clients is not written", zap.Error(err))
	}
}

// Flush writes what has been counted. What cannot be written is kept for the next time.
func (c *Counter) Flush(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	sites := slices.Clone(c.sites)
	c.mu.Unlock()
	for _, s := range sites {
		s.mu.Lock()
		s.hand()
		s.mu.Unlock()
	}
	c.mu.Lock()
	all := c.waiting
	c.waiting, c.keys = map[key]numbers{}, 0
	c.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(all), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.client, b.client), cmp.Compare(a.site, b.site))
	})
	for some := range slices.Chunk(keys, perUpdate) {
		if err := c.store.Update(ctx, func(tx storage.Tx) error { return write(tx, some, all) }); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			for k, n := range all {
				c.wait(k, n)
			}
			c.keys += len(all)
			return err
		}
		for _, k := range some {
			delete(all, k)
		}
	}
	return nil
}

// write adds to the records of the keys.
func write(tx storage.Tx, keys []key, all map[key]numbers) error {
	for _, k := range keys {
		n, at := all[k], k
		rec, known, err := amounts.Find(tx, at.text())
		if err != nil {
			return err
		}
		if !known && at.client != Other {
			head, _, err := heads.Find(tx, dayKey(at.day))
			if err != nil {
				return err
			}
			if head.Pairs < mostPairs {
				head.Pairs++
				err = heads.Put(tx, dayKey(at.day), head, expiry(at.day))
			} else {
				at.client = Other
				rec, _, err = amounts.Find(tx, at.text())
			}
			if err != nil {
				return err
			}
		}
		rec.Client, rec.Site = at.client, at.site
		rec.Passed += n.passed
		rec.Limited += n.limited
		if err := amounts.Put(tx, at.text(), rec, expiry(at.day)); err != nil {
			return err
		}
	}
	return nil
}
