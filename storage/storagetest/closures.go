package storagetest

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ClosuresVariable is the environment variable that makes the harnesses of other packages run on Twice: its value is
// then "twice". An empty value leaves the engine as it is.
const ClosuresVariable = "GATEHOUSE_CLOSURES"

// Closures returns the store that a harness of another package tests on: s itself, or Twice(s) if the environment
// variable GATEHOUSE_CLOSURES says so. Wrappers that count or refuse transactions go around the result.
func Closures(t testing.TB, s storage.Store) storage.Store {
	t.Helper()
	switch v := os.Getenv(ClosuresVariable); v {
	case "":
		return s
	case "twice":
		return Twice(s)
	default:
		t.Fatalf("%s=%q, want twice", ClosuresVariable, v)
		return nil
	}
}

// Twice returns an engine that makes full use of one sentence of the contract: "fn may run several times, so it touches
// only tx." It runs each closure of Update and View twice. What the first run has written is rolled back, and what it
// has returned is dropped; the second run counts. So a closure that changes a variable outside itself, and relies on
// its old value when it starts, fails its tests on this engine. An engine that retries after a conflict does the same,
// but only now and then.
func Twice(s storage.Store) storage.Store { return twice{s} }

type twice struct{ storage.Store }

var errFirstRun = errors.New("storagetest: the first of two runs is rolled back")

func (s twice) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error {
		_ = fn(tx)
		return fn(tx)
	})
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
