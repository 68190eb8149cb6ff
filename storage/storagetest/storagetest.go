// Package storagetest is the contract of package storage as a test suite, which every engine passes. A rule that an
// engine has broken is added here first.
package storagetest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Open returns a new, empty store; it closes it when the test ends.
type Open func(t *testing.T) storage.Store

// Option describes an optional ability of an engine.
type Option func(*suite)

// WithReopen sets how to close a store and open it again with its records. reopen closes the result when the test ends.
func WithReopen(reopen func(t *testing.T, s storage.Store) storage.Store) Option {
	return func(s *suite) { s.reopen = reopen }
}

// WithRestore sets how to make a store from a backup. restore closes the result when the test ends.
func WithRestore(restore func(t *testing.T, backup io.Reader) (storage.Store, error)) Option {
	return func(s *suite) { s.restore = restore }
}

// WithCollect sets how to collect expired records as if the time were now.
func WithCollect(collect func(t *testing.T, s storage.Store, now time.Time)) Option {
	return func(s *suite) { s.collect = collect }
}

type suite struct {
	open    Open
	reopen  func(*testing.T, storage.Store) storage.Store
	restore func(*testing.T, io.Reader) (storage.Store, error)
	collect func(*testing.T, storage.Store, time.Time)
}

// Run tests a store against the contract. The tests run in parallel, each on its own store.
func Run(t *testing.T, open Open, opts ...Option) {
	s := suite{open: open}
	for _, o := range opts {
		o(&s)
	}
	tests := map[string]func(*testing.T){
		"not found":                         s.notFound,
		"create twice":                      s.createTwice,
		"put and delete":                    s.putAndDelete,
		"get many":                          s.getMany,
		"any key and any value":             s.anyKey,
		"values are copies":                 s.copies,
		"read your writes":                  s.readYourWrites,
		"rollback":                          s.rollback,
		"view cannot write":                 s.viewCannotWrite,
		"too large":                         s.tooLarge,
		"largest values":                    s.largestValues,
		"too large in all":                  s.tooLargeInAll,
		"order of keys":                     s.order,
		"ranges":                            s.ranges,
		"scan is the state at its start":    s.scanIsStable,
		"scan is left early":                s.scanLeftEarly,
		"scans within scans":                s.nestedScans,
		"scans tell expiries":               s.expiriesTold,
		"snapshot stands still":             s.snapshot,
		"two writers of one key":            s.twoWriters,
		"counting together":                 s.counter,
		"two creators":                      s.twoCreators,
		"phantoms":                          s.phantoms,
		"transfers keep their sum":          s.transfers,
		"an answer waits for what it knows": s.answersWait,
		"panic":                             s.panics,
		"goexit":                            s.goexit,
		"cancelled":                         s.cancelled,
		"transaction has ended":             s.ended,
		"guarded":                           s.guarded,
		"closed":                            s.closed,
		"close waits":                       s.closeWaits,
		"check":                             s.check,
		"tracked readings":                  s.tracks,
		"tracked readings under writes":     s.tracksRaces,
		"model":                             s.model,
	}
	if s.reopen != nil {
		tests["reopen"] = s.reopens
	}
	if s.restore != nil {
		tests["backup and restore"] = s.backups
		tests["damaged backup"] = s.damagedBackups
		tests["backup under load"] = s.backupUnderLoad
	}
	if s.collect != nil {
		tests["never gone before its expiry"] = s.expiry
		tests["expiry replaced"] = s.expiryReplaced
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tests[name](t)
		})
	}
}

var never time.Time

// put writes one record.
func put(t *testing.T, s storage.Store, key, value string) {
	t.Helper()
	update(t, s, func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(value), never) })
}

func update(t *testing.T, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update = %v", err)
	}
}

func view(t *testing.T, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("View = %v", err)
	}
}

// get returns the value of a key outside a transaction, "<none>" if there is no record.
func get(t *testing.T, s storage.Store, key string) string {
	t.Helper()
	var value string
	view(t, s, func(tx storage.Tx) error {
		value = "<none>"
		v, err := tx.Get([]byte(key))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		value = string(v)
		return err
	})
	return value
}

func wantValue(t *testing.T, s storage.Store, key, want string) {
	t.Helper()
	if got := get(t, s, key); got != want {
		t.Errorf("Get(%.40q) = %.40q, want %.40q", key, got, want)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// list returns the records of a range as key=value.
func list(tx storage.Tx, r storage.Range) ([]string, error) {
	var out []string
	for rec, err := range tx.Scan(r) {
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s=%s", rec.Key, rec.Value))
	}
	return out, nil
}

// all returns every record of a store.
func all(t *testing.T, s storage.Store) map[string]string {
	t.Helper()
	got := map[string]string{}
	view(t, s, func(tx storage.Tx) error {
		clear(got)
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			got[string(rec.Key)] = string(rec.Value)
		}
		return nil
	})
	return got
}
