package token

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// globalState is the state of the whole store, in memory. The globalRecord concerns all that is issued and changes once
// a year.
type globalState struct {
	epoch atomic.Int64
}

// sharedStates holds the one globalState of each store that is in use: during a reload two servers work on one store,
// and tokens that one of them ends must end in the other. An entry goes with the last server of its store.
var sharedStates struct {
	mu sync.Mutex // guards of
	of map[storage.Store]weak.Pointer[globalState]
}

// loadGlobalState returns the state of a store, shared by its servers.
func loadGlobalState(ctx context.Context, store storage.Store) (*globalState, error) {
	var rec globalRecord
	err := store.View(ctx, func(tx storage.Tx) (err error) {
		rec, _, err = globals.Find(tx, globalKey)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load global state: %w", err)
	}
	g := sharedState(store)
	g.raise(rec.Epoch)
	return g, nil
}

func sharedState(store storage.Store) *globalState {
	st := &sharedStates
	st.mu.Lock()
	defer st.mu.Unlock()
	if g := st.of[store].Value(); g != nil {
		return g
	}
	g := &globalState{}
	if st.of == nil {
		st.of = map[storage.Store]weak.Pointer[globalState]{}
	}
	st.of[store] = weak.Make(g)
	runtime.AddCleanup(g, func(store storage.Store) {
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.of[store].Value() == nil { // no newer state has taken its place
			delete(st.of, store)
		}
	}, store)
	return g
}

// raise sets the epoch. It never lowers it, so an older record that was read late changes nothing.
func (g *globalState) raise(epoch int64) {
	for {
		old := g.epoch.Load()
		if epoch <= old || g.epoch.CompareAndSwap(old, epoch) {
			return
		}
	}
}

// epoch is the global epoch of what is issued now.
func (l *Ledger) epoch() int64 { return l.global.epoch.Load() }

// EpochIn is the global epoch as a transaction sees it, so what rests on it knows when it changes.
func (l *Ledger) EpochIn(tx storage.Tx) (int64, error) {
	values, err := tx.GetMany(globals.Key(globalKey))
	if err != nil {
		return 0, err
	}
	return l.globalEpoch(values[0])
}

// globalEpoch reads the epoch of the globalRecord. nil: there is no record. One that was raised in memory alone counts.
func (l *Ledger) globalEpoch(record []byte) (int64, error) {
	if record == nil {
		return l.epoch(), nil
	}
	rec, err := globals.Decode(record)
	return max(rec.Epoch, l.epoch()), err
}

// EndEverything invalidates all tokens, grants, codes and site sessions of a store, such as those of a restored backup,
// which can have been revoked since it was written.
func EndEverything(ctx context.Context, store storage.Store) error {
	_, err := endEverything(ctx, store, func(storage.Tx) error { return nil })
	return err
}

func endEverything(ctx context.Context, store storage.Store, also func(storage.Tx) error) (epoch int64, err error) {
	err = store.Update(ctx, func(tx storage.Tx) error {
		rec, _, err := globals.Find(tx, globalKey)
		if err != nil {
			return err
		}
		rec.Epoch++
		epoch = rec.Epoch
		if err := globals.Put(tx, globalKey, rec, time.Time{}); err != nil {
			return err
		}
		return also(tx)
	})
	return epoch, err
}

// RevokeEverything ends every token, code, grant and site session that was issued before now. also is done in the same
// transaction, after the event.
func (l *Ledger) RevokeEverything(ctx context.Context, by audit.Actor, also ...func(storage.Tx) error) error {
	e, err := l.deps.Events.New(eventAllRevoked, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", "")
	epoch, err := endEverything(ctx, l.deps.Store, func(tx storage.Tx) error {
		if err := l.deps.Events.Append(tx, e); err != nil {
			return err
		}
		for _, fn := range also {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.global.raise(epoch)
	return nil
}
