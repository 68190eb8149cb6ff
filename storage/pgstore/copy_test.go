package pgstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// TestClock: the time of the database is the one of this machine, on which it runs.
func TestClock(t *testing.T) {
	t.Parallel()
	s := newStores(server.URL(pgtest.Database)).open(t, newSchema())
	shared, ok := s.(storage.Shared)
	if !ok {
		t.Fatal("the store does not say that processes share it")
	}
	before := time.Now()
	at, err := shared.Clock(t.Context())
	after := time.Now()
	if err != nil || at.Before(before.Add(-time.Millisecond)) || at.After(after.Add(time.Millisecond)) {
		t.Errorf("Clock = %v, %v, want between %v and %v", at, err, before, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Clock(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Clock after Close = %v, want %v", err, storage.ErrUnavailable)
	}
}

// TestCopyFromBadgerAndBack: every record comes back as it was, with its expiry.
func TestCopyFromBadgerAndBack(t *testing.T) {
	t.Parallel()
	memory := func() storage.Store {
		s, err := badgerstore.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
		return s
	}
	from, back := memory(), memory()
	to := newStores(server.URL(pgtest.Database)).open(t, newSchema())
	start := time.Now()
	err := from.Update(t.Context(), func(tx storage.Tx) (err error) {
		for i := range 1500 {
			at := start.Add(time.Hour + time.Duration(i)*time.Microsecond)
			if i%3 == 0 {
				at = time.Time{}
			}
			err = errors.Join(err, tx.Put(fmt.Appendf(nil, "t%d/%04d\x00\xff", i%4, i), fmt.Appendf(nil, "\x00value %d\xff", i), at))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, from, to storage.Store) *transfer.Report {
		c := transfer.Copy{From: transfer.FromStore(from), Name: name, To: to}
		report, err := c.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: Run = %v", name, err)
		}
		return report
	}
	there, here := run("there", from, to), run("back", to, back)
	if there.Records != 1500 || fmt.Sprint(there.Tables) != fmt.Sprint(here.Tables) {
		t.Errorf("copied there %+v, back %+v, want the same 1500 records", there, here)
	}
}
