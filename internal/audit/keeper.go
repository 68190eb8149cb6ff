package audit

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

	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	sealEvery    = 500 * time.Millisecond // seals an event within a second
	collectEvery = time.Minute
	collectPause = 10 * time.Millisecond // between two blocks, so writers do not wait long
	maxInBlock   = 512                   // events; one transaction can remove a block with its events
	maxBlocks    = 8                     // made of one chain in one step
	maxListed    = 2048                  // list entries of blocks, after which a step ends earlier
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

// Keeper is the worker of a store's events: it seals those of all nodes into chains of blocks, passes sealed events on,
// and collects whole blocks at the end of their retention. Each store needs one; a second one would share the work.
type Keeper struct {
	// Links reports whether all nodes know of blocks that name other chains. It is set before the first use. nil: they
	// do
	Links func() bool

	store storage.Store
	now   func() time.Time
	log   *zap.Logger

	mu       sync.Mutex // guards settings
	settings []*Settings

	sealed, collected, behind atomic.Int64

	growing sync.Mutex // guards growth
	growth  map[string]Growth
}

// Growth is the size that the events of a type have added to the store.
type Growth struct {
	Events int64
	Bytes  int64 // of the events as they are stored, without indexes and blocks
}

// Stats are the counters of a keeper since it was made.
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

// notKept is logged once for each lasting trouble.
const notKept = "events not sealed or collected; retrying"

// Run seals and collects until ctx ends, and then seals once more.
func (k *Keeper) Run(ctx context.Context) {
	var collector sync.WaitGroup // and what lists older events
	collector.Go(func() {
		periodic.Every(ctx, collectEvery, k.log, notKept, func() error {
			_, err := k.collect(ctx, collectPause)
			return err
		})
	})
	collector.Go(func() {
		periodic.Every(ctx, collectEvery, k.log, notKept, func() error { return k.listAll(ctx, collectPause) })
	})
	periodic.Every(ctx, sealEvery, k.log, notKept, func() error { return k.Seal(ctx) })
	collector.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := k.Seal(last); err != nil {
		k.log.Error("the last events are not sealed yet; the next start will seal them", zap.Error(err))
	}
}

// Seal seals every event that exists now, and has each chain named by another one. Errors: a failure of storage.
func (k *Keeper) Seal(ctx context.Context) error {
	todo, behind, several, err := k.unsealed(ctx)
	if err != nil {
		return err
	}
	k.behind.Store(behind)
	var failed error
	for len(todo) > 0 {
		var again []Chain
		var told [][]Event
		tell := k.used().Tell
		for _, c := range todo {
			more, some, err := k.sealSome(ctx, c, tell != nil)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("seal events of %s: %w", c, err))
			}
			if told = append(told, some); more {
				again = append(again, c)
			}
		}
		for e := range merged(told) {
			tell(e)
		}
		todo = again
	}
	return errors.Join(failed, k.checkpoint(ctx, several))
}

// unsealed returns the chains with events after their last block, and the number of those events. several: more than
// one node has written some.
func (k *Keeper) unsealed(ctx context.Context) (list []Chain, behind int64, several bool, err error) {
	err = k.store.View(ctx, func(tx storage.Tx) error {
		list, behind, several = nil, 0, false
		heads, err := headsOf(tx, "")
		if err != nil {
			return err
		}
		for e, err := range nexts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			c := chainOf(e.Key)
			several = several || c.Lane > 0
			if sealed := heads[e.Key].Event; sealed+1 < e.Value {
				list = append(list, c)
				behind += int64(e.Value - sealed - 1) //nolint:gosec // no chain is that long
			}
		}
		return nil
	})
	return list, behind, several, err
}

// chainAt returns the state of a chain, zero before its first block.
func chainAt(tx storage.Tx, key string) (chainRecord, error) {
	rec, _, err := chains.Find(tx, key)
	return rec, err
}

// sealSome makes up to maxBlocks blocks of a chain. It returns the events that are to be told, and whether there may be
// more to do. The slow part, reading and hashing, runs while others write; writers wait only while the blocks are
// stored. The first block names the chains next to this one.
func (k *Keeper) sealSome(ctx context.Context, c Chain, tell bool) (more bool, told []Event, err error) {
	var head chainRecord
	var made []sealedBlock
	var sealed map[string]Growth
	now := k.now().Truncate(time.Microsecond)
	err = k.store.View(ctx, func(tx storage.Tx) (err error) {
		made, told, sealed = nil, nil, map[string]Growth{}
		more = false
		b := newBuilder()
		if !c.Brief {
			b.lists = lists{}
		}
		listed := 0
		if head, b.rec.Heads, err = k.headAndOthers(tx, c); err != nil {
			return err
		}
		previous := head.Hash
		for raw, err := range tx.Scan(storage.Range{
			Prefix: events.Key(c.key()), After: events.Key(c.at(head.Event)),
			Limit: maxBlocks * maxInBlock,
		}) {
			if err != nil {
				return err
			}
			kind, err := b.add(raw)
			if err != nil {
				return err
			}
			sealed[kind] = Growth{sealed[kind].Events + 1, sealed[kind].Bytes + int64(len(raw.Key)+len(raw.Value))}
			if tell && !c.Brief {
				rec, err := events.Decode(raw.Value)
				if err != nil {
					return err
				}
				told = append(told, rec.Event)
			}
			if b.rec.Count == maxInBlock {
				listed += len(b.lists)
				made = append(made, b.block(c, head.Block+uint64(len(made))+1, previous, now))
				previous = made[len(made)-1].Hash
				if more = len(made) == maxBlocks || listed > maxListed; more {
					return nil
				}
			}
		}
		if b.rec.Count > 0 {
			made = append(made, b.block(c, head.Block+uint64(len(made))+1, previous, now))
		}
		return nil
	})
	if err != nil || len(made) == 0 {
		return false, nil, err
	}
	raced, err := k.add(ctx, c, head.Block, made)
	if err != nil {
		return false, nil, err
	}
	if raced {
		return true, nil, nil
	}
	for _, b := range made {
		k.sealed.Add(int64(b.Count)) //nolint:gosec // at most maxInBlock
	}
	k.grow(sealed)
	return more, told, nil
}

// add stores blocks after the last one. raced: another keeper of the store was faster, and nothing was stored.
func (k *Keeper) add(ctx context.Context, c Chain, last uint64, made []sealedBlock) (raced bool, err error) {
	err = k.store.Update(ctx, func(tx storage.Tx) error {
		is, err := chainAt(tx, c.key())
		if err != nil {
			return err
		}
		if raced = is.Block != last; raced {
			return nil
		}
		for i, b := range made {
			is.Block = last + uint64(i) + 1
			if err := blocks.Create(tx, c.at(is.Block), b.blockRecord, never); err != nil { // never replaces an existing block
				return fmt.Errorf("block %d: %w", is.Block, err)
			}
			is.Event, is.Hash = b.Last, b.Hash
			is.name(&b.blockRecord)
		}
		if err := extend(tx, c, last, made); err != nil {
			return err
		}
		return chains.Put(tx, c.key(), is, never)
	})
	return raced, err
}

// sealedBlock is a block with what it adds to the lists.
type sealedBlock struct {
	blockRecord

	lists lists
}

// builder gathers the events of a block.
type builder struct {
	rec    blockRecord
	lists  lists // nil: its events are in none
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
	if b.lists != nil {
		rec.eachList(func(list string) { b.lists.add(list, n) })
	}
	var head [16]byte
	binary.BigEndian.PutUint64(head[:8], n)
	binary.BigEndian.PutUint64(head[8:], uint64(len(raw.Value)))
	_, _ = b.digest.Write(head[:]) // a hash never fails
	_, _ = b.digest.Write(raw.Value)
	return rec.Type, nil
}

// block ends the block and begins the next one.
func (b *builder) block(c Chain, number uint64, previous []byte, now time.Time) sealedBlock {
	out := sealedBlock{b.rec, b.lists}
	out.Previous, out.SealedAt, out.Digest = previous, now, b.digest.Sum(nil)
	out.Hash = out.sum(c, number)
	if b.rec = (blockRecord{}); b.lists != nil {
		b.lists = lists{}
	}
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
	numbers := func(list ...uint64) {
		for _, n := range list {
			buf.Write(binary.BigEndian.AppendUint64(nil, n))
		}
	}
	form := "gatehouse event block v1"
	if len(b.Heads) > 0 {
		form = "gatehouse event block v2"
	}
	text([]byte(form), []byte(c.key()), b.Previous, []byte(b.FirstID), []byte(b.LastID), b.Digest)
	numbers(number, b.First, b.Last, b.Count, micros(b.Newest), micros(b.SealedAt))
	for _, h := range b.Heads {
		text([]byte(h.Chain), h.Hash)
		numbers(h.Block, h.Event)
	}
	sum := sha256.Sum256(buf.Bytes())
	return sum[:]
}

// micros is a time as storage returns it: storage keeps seconds with a fraction, so the value is rounded to
// microseconds.
func micros(t time.Time) uint64 { return uint64(t.Round(time.Microsecond).UnixMicro()) } //nolint:gosec // only hashed
