package event

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	sealEvery    = 500 * time.Millisecond // seals an event within a second
	collectEvery = time.Minute
	collectPause = 10 * time.Millisecond // between two blocks, so that writers do not wait long
	maxInBlock   = 512                   // events; one transaction can remove a block with its events
	maxBlocks    = 8                     // made of one chain in one step
)

// Retention says how long events are kept after they occurred. 0: forever.
type Retention struct {
	Kept  time.Duration
	Brief time.Duration // 0: the same as Kept
}

// Forever is a Retention.Brief that keeps brief events for ever, whatever is done with the others.
const Forever time.Duration = -1

// of returns how long the events of a chain are kept. 0 or less: forever.
func (r Retention) of(c Chain) time.Duration {
	if c.Brief && r.Brief != 0 {
		return r.Brief
	}
	return r.Kept
}

// Settings are the part of the configuration that concerns the keeper.
type Settings struct {
	Retention Retention
	// Tell is called for each event that is passed on to others, after it was sealed. It must not block. nil: nothing
	// is called.
	Tell func(Event)
}

// Keeper is the worker of a store's events: it seals them into chains of blocks, passes sealed events on, and collects
// whole blocks at the end of their retention. Each store needs one; a second one would share the work.
type Keeper struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger

	mu       sync.Mutex // guards settings
	settings []*Settings

	sealed, collected, behind atomic.Int64

	growing sync.Mutex // guards growth
	growth  map[string]Growth
}

// Growth is what the events of a type have added to the store.
type Growth struct {
	Events int64
	Bytes  int64 // of the events as they are stored, without indexes and blocks
}

// Stats are what a keeper has counted since it was made.
type Stats struct {
	Sealed, Collected int64 // events
	Behind            int64 // events not yet sealed when last counted
}

// Stats returns the counts of the keeper.
func (k *Keeper) Stats() Stats {
	return Stats{Sealed: k.sealed.Load(), Collected: k.collected.Load(), Behind: k.behind.Load()}
}

// Growth returns what each type of event has added since the keeper was made.
func (k *Keeper) Growth() map[string]Growth {
	k.growing.Lock()
	defer k.growing.Unlock()
	return maps.Clone(k.growth)
}

// grow adds what was sealed. It is exact, unlike a count where events are appended, in transactions that can be undone.
func (k *Keeper) grow(sealed map[string]Growth) {
	k.growing.Lock()
	defer k.growing.Unlock()
	if k.growth == nil {
		k.growth = map[string]Growth{}
	}
	for kind, g := range sealed {
		k.growth[kind] = Growth{k.growth[kind].Events + g.Events, k.growth[kind].Bytes + g.Bytes}
	}
}

// NewKeeper returns a keeper that keeps events forever and passes none on. now can be nil.
func NewKeeper(store storage.Store, now func() time.Time, log *zap.Logger) *Keeper {
	if now == nil {
		now = time.Now
	}
	return &Keeper{store: store, now: now, log: log}
}

// Use puts settings into effect, for existing events too, until they are released or replaced. After a release, the
// settings before them apply again, as when a new configuration fails to start.
func (k *Keeper) Use(s Settings) (release func()) {
	mine := &s
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settings = append(k.settings, mine)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.settings = slices.DeleteFunc(k.settings, func(s *Settings) bool { return s == mine })
	}
}

func (k *Keeper) used() Settings {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.settings) == 0 {
		return Settings{}
	}
	return *k.settings[len(k.settings)-1]
}

// Run seals and collects until ctx ends, and then seals once more.
func (k *Keeper) Run(ctx context.Context) {
	var collector sync.WaitGroup
	collector.Go(func() {
		k.every(ctx, collectEvery, func() error {
			_, err := k.collect(ctx, collectPause)
			return err
		})
	})
	k.every(ctx, sealEvery, func() error { return k.Seal(ctx) })
	collector.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := k.Seal(last); err != nil {
		k.log.Error("the last events are not sealed yet; the next start will seal them", zap.Error(err))
	}
}

// every calls fn again and again until ctx ends. A lasting error is logged once.
func (k *Keeper) every(ctx context.Context, wait time.Duration, fn func() error) {
	tick := time.NewTicker(wait)
	defer tick.Stop()
	trouble := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := fn(); ctx.Err() == nil {
			k.report(err, &trouble)
		}
	}
}

// report logs an error once, not twice a second.
func (k *Keeper) report(err error, last *string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != *last {
		k.log.Error("events not sealed or collected; retrying", zap.Error(err))
	}
	*last = text
}

// Seal seals every event that exists now. Errors: a failure of storage.
func (k *Keeper) Seal(ctx context.Context) error {
	todo, behind, err := k.unsealed(ctx)
	if err != nil {
		return err
	}
	k.behind.Store(behind)
	var failed error
	for _, c := range todo {
		for {
			more, err := k.sealSome(ctx, c)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("seal events of %s: %w", c, err))
			}
			if err != nil || !more {
				break
			}
		}
	}
	return failed
}

// unsealed returns the chains with events behind their last block, and the number of those events.
func (k *Keeper) unsealed(ctx context.Context) (list []Chain, behind int64, err error) {
	err = k.store.View(ctx, func(tx storage.Tx) error {
		list, behind = nil, 0
		for e, err := range nexts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			head, err := chainAt(tx, e.Key)
			if err != nil {
				return err
			}
			if head.Event+1 < e.Value {
				list = append(list, chainOf(e.Key))
				behind += int64(e.Value - head.Event - 1) //nolint:gosec // no chain is that long
			}
		}
		return nil
	})
	return list, behind, err
}

// chainAt returns the state of a chain, zero before its first block.
func chainAt(tx storage.Tx, key string) (chainRecord, error) {
	rec, _, err := chains.Find(tx, key)
	return rec, err
}

// sealSome makes up to maxBlocks blocks of a chain and tells whether there may be more to do. The slow part, reading
// and hashing, runs while others write; writers wait only while the blocks are stored.
func (k *Keeper) sealSome(ctx context.Context, c Chain) (more bool, err error) {
	var head chainRecord
	var made []blockRecord
	var told []Event
	var sealed map[string]Growth
	now := k.now().Truncate(time.Microsecond)
	tell := k.used().Tell
	err = k.store.View(ctx, func(tx storage.Tx) (err error) {
		made, told, sealed = nil, nil, map[string]Growth{}
		if head, err = chainAt(tx, c.key()); err != nil {
			return err
		}
		previous := head.Hash
		b := newBuilder()
		for raw, err := range tx.Scan(storage.Range{Prefix: events.Key(c.key()), After: events.Key(c.at(head.Event)), Limit: maxBlocks * maxInBlock}) {
			if err != nil {
				return err
			}
			kind, err := b.add(raw)
			if err != nil {
				return err
			}
			sealed[kind] = Growth{sealed[kind].Events + 1, sealed[kind].Bytes + int64(len(raw.Key)+len(raw.Value))}
			if tell != nil && !c.Brief {
				rec, err := events.Decode(raw.Value)
				if err != nil {
					return err
				}
				told = append(told, rec.Event)
			}
			if b.rec.Count == maxInBlock {
				made = append(made, b.block(c, head.Block+uint64(len(made))+1, previous, now))
				previous = made[len(made)-1].Hash
			}
		}
		if b.rec.Count > 0 {
			made = append(made, b.block(c, head.Block+uint64(len(made))+1, previous, now))
		}
		return nil
	})
	if err != nil || len(made) == 0 {
		return false, err
	}
	raced := false
	err = k.store.Update(ctx, func(tx storage.Tx) error {
		is, err := chainAt(tx, c.key())
		if err != nil {
			return err
		}
		if raced = is.Block != head.Block; raced { // another keeper of the store was faster
			return nil
		}
		for i, b := range made {
			is.Block = head.Block + uint64(i) + 1
			if err := blocks.Create(tx, c.at(is.Block), b, never); err != nil { // never replaces an existing block
				return fmt.Errorf("block %d: %w", is.Block, err)
			}
			is.Event, is.Hash = b.Last, b.Hash
		}
		return chains.Put(tx, c.key(), is, never)
	})
	if err != nil {
		return false, err
	}
	if !raced {
		for _, b := range made {
			k.sealed.Add(int64(b.Count)) //nolint:gosec // at most maxInBlock
		}
		k.grow(sealed)
		for _, e := range told {
			tell(e)
		}
	}
	return raced || len(made) == maxBlocks, nil
}

// builder gathers the events of a block.
type builder struct {
	rec    blockRecord
	digest interface {
		Write(p []byte) (int, error)
		Sum(b []byte) []byte
		Reset()
	}
}

func newBuilder() *builder { return &builder{digest: sha256.New()} }

// add takes a stored event into the block and returns its type. The hash covers the stored bytes and the number they
// are stored under.
func (b *builder) add(raw storage.Record) (kind string, err error) {
	rec, err := stamps.Decode(raw.Value)
	if err != nil {
		return "", err
	}
	n := numberOf(string(raw.Key))
	if b.rec.Count == 0 {
		b.rec.First, b.rec.FirstID = n, rec.ID
	}
	b.rec.Last, b.rec.LastID = n, rec.ID
	b.rec.Count++
	if at := rec.Occurred.Round(time.Microsecond); at.After(b.rec.Newest) {
		b.rec.Newest = at
	}
	var head [16]byte
	binary.BigEndian.PutUint64(head[:8], n)
	binary.BigEndian.PutUint64(head[8:], uint64(len(raw.Value)))
	_, _ = b.digest.Write(head[:]) // a hash never fails
	_, _ = b.digest.Write(raw.Value)
	return rec.Type, nil
}

// block ends the block and begins the next one.
func (b *builder) block(c Chain, number uint64, previous []byte, now time.Time) blockRecord {
	out := b.rec
	out.Previous, out.SealedAt, out.Digest = previous, now, b.digest.Sum(nil)
	out.Hash = out.sum(c, number)
	b.rec = blockRecord{}
	b.digest.Reset()
	return out
}

// sum is the hash of a block: SHA-256 over all its fields, each text preceded by its length, and over its position in
// the chain.
func (b *blockRecord) sum(c Chain, number uint64) []byte {
	var buf bytes.Buffer
	text := func(parts ...[]byte) {
		for _, p := range parts {
			buf.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
			buf.Write(p)
		}
	}
	text([]byte("gatehouse event block v1"), []byte(c.key()), b.Previous, []byte(b.FirstID), []byte(b.LastID), b.Digest)
	for _, n := range []uint64{number, b.First, b.Last, b.Count, micros(b.Newest), micros(b.SealedAt)} {
		buf.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	sum := sha256.Sum256(buf.Bytes())
	return sum[:]
}

// micros is a time as storage returns it: storage keeps seconds with a fraction, so the value is rounded to
// microseconds.
func micros(t time.Time) uint64 { return uint64(t.Round(time.Microsecond).UnixMicro()) } //nolint:gosec // only hashed
