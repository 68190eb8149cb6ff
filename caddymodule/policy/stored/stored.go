// Package stored keeps the policies of the configuration API compiled for the sites that name them, and compiles them
// again when they change. (docs/decisions/operation.md#policies-of-the-configuration-api)
package stored

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Loader prepares policies for a configuration of Caddy.
type Loader struct {
	Ctx         caddy.Context
	CheckPublic func(path string) error
}

// Check says what is wrong with a policy, and which member. It is for settings.Config.
func (l Loader) Check(name string, p settings.Policy) (at string, err error) {
	_, at, err = l.load(name, p)
	return at, err
}

func (l Loader) load(name string, p settings.Policy) (out *policy.Policy, at string, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, "", err
	}
	return policy.Load(l.Ctx, name, raw, l.CheckPublic)
}

// Settings are the settings of a storage. *settings.Service is one.
type Settings interface {
	// Units returns the settings as a transaction sees them.
	Units(tx storage.Tx) (*settings.Units, error)
	// IsCurrent reports whether they are the newest that have been read.
	IsCurrent(u *settings.Units) bool
}

// Keeper gives the policies of a storage. It is safe for concurrent use.
type Keeper struct {
	load     Loader
	store    storage.Store
	settings Settings
	log      *zap.Logger

	now atomic.Pointer[page]

	mu sync.Mutex // held while policies are prepared
}

// page is the book that was read last.
type page struct {
	book    *policy.Book
	reading *storage.Reading // nil: the store cannot tell when it changes
	of      *settings.Units
	text    map[string][]byte // JSON of the policies that are in the book, and of those that cannot be used
}

// New returns a keeper.
func New(l Loader, store storage.Store, settings Settings, log *zap.Logger) *Keeper {
	return &Keeper{load: l, store: store, settings: settings, log: log}
}

// maxTries is the number of times that the settings are read again when others have changed them meanwhile.
const maxTries = 10

// Current returns the policies of this moment, and what that rests on. While no policy changes, it is the same book.
func (k *Keeper) Current(ctx context.Context) (*policy.Book, recheck.Basis, error) {
	if now := k.now.Load(); now != nil && now.reading.Holds() {
		return now.book, basisOf(now.reading), ctx.Err()
	}
	for range maxTries {
		units, reading, err := k.read(ctx)
		if err != nil {
			return nil, recheck.Basis{}, fmt.Errorf("policies of the configuration API: %w", err)
		}
		if book := k.turn(units, reading); book != nil {
			return book, basisOf(reading), nil
		}
	}
	return nil, recheck.Basis{}, fmt.Errorf("%w: the policies of the configuration API keep changing", storage.ErrUnavailable)
}

// forever is later than any other end of what an answer rests on.
var forever = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

func basisOf(reading *storage.Reading) recheck.Basis {
	if reading == nil {
		return recheck.Basis{}
	}
	return recheck.Basis{Until: forever, Reading: reading}
}

func (k *Keeper) read(ctx context.Context) (units *settings.Units, reading *storage.Reading, err error) {
	read := func(tx storage.Tx) (err error) {
		units, err = k.settings.Units(tx)
		return err
	}
	if tracker, ok := k.store.(storage.Tracker); ok {
		reading, err = tracker.Track(ctx, read)
		return units, reading, err
	}
	err = k.store.View(ctx, read)
	return units, nil, err
}

// turn returns the book of some settings. nil: there are newer ones, and an older book must not come back. A policy
// that is as before is not prepared again.
func (k *Keeper) turn(units *settings.Units, reading *storage.Reading) *policy.Book {
	if now := k.now.Load(); now != nil && now.of == units {
		k.now.CompareAndSwap(now, &page{book: now.book, reading: reading, of: units, text: now.text})
		return now.book
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.settings.IsCurrent(units) {
		return nil
	}
	old := k.now.Load()
	if old == nil {
		old = &page{book: policy.NewBook(nil)}
	}
	next := &page{of: units, reading: reading, text: map[string][]byte{}}
	list, changed := map[string]*policy.Policy{}, len(old.text) != len(units.Policies) || k.now.Load() == nil
	for _, name := range slices.Sorted(maps.Keys(units.Policies)) {
		raw, err := json.Marshal(units.Policies[name])
		if err == nil && old.text[name] != nil && bytes.Equal(raw, old.text[name]) {
			if next.text[name] = raw; old.book.Named(name) != nil {
				list[name] = old.book.Named(name)
			}
			continue
		}
		changed = true
		next.text[name] = raw
		p, at, err := k.load.load(name, units.Policies[name])
		if err != nil { // written by another version
			k.log.Error("a policy of the configuration API cannot be used, so the sites that name it refuse everybody", zap.String("policy", name),
				zap.String("member", at), zap.Error(err))
			continue
		}
		list[name] = p
	}
	if next.book = old.book; changed {
		next.book = policy.NewBook(list)
	}
	k.now.Store(next)
	return next.book
}
