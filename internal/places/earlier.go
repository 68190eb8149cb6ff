package places

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/again"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	listEvery = time.Second
	batch     = 100                   // records in one transaction
	pause     = 10 * time.Millisecond // between two of them
)

// Source is records from which sessions are listed.
type Source struct {
	Name   string // of the source in the store
	Prefix []byte // of the stored keys of its records
	// Note lists what a record says.
	Note func(tx storage.Tx, rec storage.Record) error
}

// Keeper lists the sessions of a store of an earlier version, once. One of those that share a store runs at a time.
type Keeper struct {
	store   storage.Store
	sources []Source
	log     *zap.Logger
}

// New returns a keeper.
func New(store storage.Store, log *zap.Logger, sources ...Source) *Keeper {
	return &Keeper{store: store, sources: sources, log: log}
}

// Run lists until all is listed, or ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	again.Every(ctx, listEvery, k.log, "sessions of an earlier version not listed; retrying", func() error {
		if err := k.List(ctx, pause); err != nil {
			return err
		}
		done()
		return nil
	})
}

// List lists all that is not listed.
func (k *Keeper) List(ctx context.Context, pause time.Duration) error {
	for _, s := range k.sources {
		for more := true; more; {
			var err error
			if more, err = s.some(ctx, k.store); err != nil {
				return fmt.Errorf("list sessions of %s: %w", s.Name, err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
	}
	return nil
}

// some lists some records.
func (s *Source) some(ctx context.Context, store storage.Store) (more bool, err error) {
	var step stepRecord
	var found []storage.Record
	err = store.View(ctx, func(tx storage.Tx) (err error) {
		found = nil
		if step, _, err = steps.Find(tx, s.Name); err != nil || step.Done {
			return err
		}
		for rec, err := range tx.Scan(storage.Range{Prefix: s.Prefix, After: step.After, Limit: batch}) {
			if err != nil {
				return err
			}
			found = append(found, storage.Record{Key: bytes.Clone(rec.Key)})
		}
		return nil
	})
	if err != nil || step.Done {
		return false, err
	}
	err = store.Update(ctx, func(tx storage.Tx) error {
		is, _, err := steps.Find(tx, s.Name)
		if err != nil || is.Done || !bytes.Equal(is.After, step.After) { // somebody else was faster
			return err
		}
		for _, rec := range found {
			if err := s.note(tx, rec.Key); err != nil {
				return err
			}
			is.After = rec.Key
		}
		is.Done = len(found) < batch
		return steps.Put(tx, s.Name, is, time.Time{})
	})
	return true, err
}

// note lists a record as it is now. One that cannot be read is left out, since all others would wait for it.
func (s *Source) note(tx storage.Tx, key []byte) error {
	for rec, err := range tx.Scan(storage.Range{Prefix: key, Limit: 1}) {
		if err != nil {
			return err
		}
		if bytes.Equal(rec.Key, key) {
			if err := s.Note(tx, rec); !errors.Is(err, storage.ErrCorrupt) {
				return err
			}
		}
	}
	return nil
}

// Complete tells whether the records of a source of an earlier version are listed.
func Complete(tx storage.Tx, source string) (bool, error) {
	step, _, err := steps.Find(tx, source)
	return step.Done, err
}
