package storagetest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Closures returns the store that a harness of another package tests on: Twice(s), or s itself for a benchmark.
// Wrappers that count or refuse transactions go around the result.
func Closures(t testing.TB, s storage.Store) storage.Store {
	if _, ok := t.(*testing.B); ok {
		return s
	}
	return Twice(s)
}

// Twice returns an engine that makes full use of one sentence of the contract: "fn may run several times, so it touches
// only tx." It runs each closure of Update, View and Track twice. What the first run has written is rolled back, and
// what it has returned is dropped; the second run counts. So a closure that changes a variable outside itself, and
// relies on its old value when it starts, fails its tests on this engine. An engine that retries after a conflict does
// the same, but only now and then.
func Twice(s storage.Store) storage.Store {
	t, tracks := s.(storage.Tracker)
	shared, isShared := s.(storage.Shared)
	switch {
	case tracks && isShared:
		return sharedTwice{trackingTwice{twice{s}, t}, shared}
	case tracks:
		return trackingTwice{twice{s}, t}
	}
	return twice{s}
}

type twice struct{ storage.Store }

type trackingTwice struct {
	twice
	tracker storage.Tracker
}

// sharedTwice says that others write to the store too.
type sharedTwice struct {
	trackingTwice
	storage.Shared
}

var errFirstRun = errors.New("storagetest: the first of two runs is rolled back")

func (s twice) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, again(fn))
}

// again returns fn, run twice.
func again(fn func(storage.Tx) error) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		_ = fn(tx)
		return fn(tx)
	}
}

func (s trackingTwice) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	return s.tracker.Track(ctx, again(fn))
}

func (s twice) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := s.Store.Update(ctx, func(tx storage.Tx) error { return firstRun(tx, fn) })
	if !errors.Is(err, errFirstRun) {
		return err // the engine has refused
	}
	return s.Store.Update(ctx, fn)
}

func firstRun(tx storage.Tx, fn func(storage.Tx) error) error {
	_ = fn(tx)
	return errFirstRun
}

// Backup and Check pass on what the engine can do besides.
func (s twice) Backup(ctx context.Context, w io.Writer) error {
	if b, ok := s.Store.(storage.Backuper); ok {
		return b.Backup(ctx, w)
	}
	return errors.ErrUnsupported
}

func (s twice) Check(ctx context.Context) error {
	if c, ok := s.Store.(storage.Checker); ok {
		return c.Check(ctx)
	}
	return nil
}
