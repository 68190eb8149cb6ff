package recentlog_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/recentlog"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// scans is a store that counts the records that scans have read.
type scans struct {
	storage.Store

	read int
}

// View implements storage.Store.
func (s *scans) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error { return fn(scanningTx{tx, s}) })
}

type scanningTx struct {
	storage.Tx

	s *scans
}

// Scan implements storage.Tx.
func (t scanningTx) Scan(r storage.Range) iter.Seq2[storage.Record, error] {
	return func(yield func(storage.Record, error) bool) {
		for rec, err := range t.Tx.Scan(r) {
			if t.s.read++; !yield(rec, err) {
				return
			}
		}
	}
}

// TestEach: two processes that share a store see the records of both, also those that take the slots of older ones, and
// read each record once.
func TestEach(t *testing.T) {
	t.Parallel()
	memory, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	tables := recentlog.Tables[string]{
		Slots: storage.NewTable[string]("slot"), Next: storage.NewTable[uint64]("next"), Size: 100, Kept: time.Hour,
	}
	counted := &scans{Store: memory}
	one, other := recentlog.New(counted, tables, zap.NewNop()), recentlog.New[string](memory, tables, zap.NewNop())
	now := time.Now()
	list := func(r *recentlog.Ring[string]) (out []string) {
		t.Helper()
		if err := r.Each(t.Context(), func() { out = nil }, func(s *string) bool { out = append(out, *s); return true }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(out)
		return out
	}
	var want []string
	add := func(r *recentlog.Ring[string], from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			record := fmt.Sprintf("%03d", i)
			r.Add(now.Add(time.Duration(i)*time.Second), record)
			want = append(want, record)
		}
		want = want[max(0, len(want)-100):]
		list(r) // writes them
	}
	add(one, 0, 90)
	before := counted.read
	for _, step := range []struct {
		by       *recentlog.Ring[string]
		from, to int
	}{{other, 90, 95}, {one, 95, 130}, {other, 130, 131}} {
		add(step.by, step.from, step.to)
		for name, r := range map[string]*recentlog.Ring[string]{"one": one, "the other": other} {
			if got := list(r); !slices.Equal(got, want) {
				t.Errorf("after %d records %s has %v, want %v", step.to, name, got, want)
			}
		}
	}
	if counted.read != before {
		t.Errorf("%d records are read again", counted.read-before)
	}
	add(other, 131, 231) // so many that reading all takes less
	if got := list(one); !slices.Equal(got, want) {
		t.Errorf("one has %v, want %v", got, want)
	}
}
