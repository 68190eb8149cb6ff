package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// million is the number of events of one person in BenchmarkFind.
const million = 1_000_000

// onDisk is a harness whose store syncs to a disk.
func onDisk(b *testing.B) *harness {
	b.Helper()
	store, err := badgerstore.Open(b.Context(), badgerstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() }) //nolint:errcheck // removed
	return over(b, store)
}

// fill appends events, many in a transaction.
func (h *harness) fill(n int, kind audit.Type, person, actor string) {
	h.Helper()
	for done := 0; done < n; {
		some := min(500, n-done)
		h.must(h.store.Update(context.Background(), func(tx storage.Tx) error {
			for range some {
				e, err := h.rec.New(kind, audit.Origin{
					ClientIP:  "192.0.2.1",
					UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
				})
				if err != nil {
					return err
				}
				e.PersonID, e.Actor, e.AgentUser = person, actor, "demo@example.com"
				if err := h.rec.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		}))
		done += some
	}
}

// BenchmarkAppend is the cost of one event in a transaction, without the sync, which all waiting transactions share.
func BenchmarkAppend(b *testing.B) {
	for name, who := range map[string][2]string{
		"token":  {"", "shop"},
		"person": {"8e1a5f3c-0d7e-7c3e-9a53-1f6b1f0f3f11", "8e1a5f3c-0d7e-7c3e-9a53-1f6b1f0f3f11"},
	} {
		b.Run(name, func(b *testing.B) {
			h := newHarness(b)
			b.ReportAllocs()
			b.ResetTimer()
			h.fill(b.N, issued, who[0], who[1])
		})
	}
}

// BenchmarkSealKept is BenchmarkSeal for events that are listed by type, client and address.
func BenchmarkSealKept(b *testing.B) {
	h := onDisk(b)
	h.fill(b.N, created, "p", "shop")
	b.ReportAllocs()
	b.ResetTimer()
	h.must(h.keep.Seal(b.Context()))
}

// BenchmarkSeal is the cost of sealing one event, which happens in the background.
func BenchmarkSeal(b *testing.B) {
	h := onDisk(b)
	h.fill(b.N, issued, "", "shop")
	b.ReportAllocs()
	b.ResetTimer()
	h.must(h.keep.Seal(b.Context()))
}

// BenchmarkFind reads a page of a hundred events and the total, for a person with a million events.
func BenchmarkFind(b *testing.B) {
	h := onDisk(b)
	h.fill(million, created, "p", "a")
	for _, tt := range []struct {
		name  string
		query audit.Query
	}{
		{"first", audit.Query{Person: "p"}},
		{"deep", audit.Query{Person: "p", Offset: million - 100}},
		{"both", audit.Query{Person: "p", Actor: "a", Offset: million / 2}},
	} {
		tt.query.Limit = 100
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if page, total := h.find(tt.query); len(page) != 100 || total != million {
					b.Fatal(len(page), total)
				}
			}
		})
	}
}

// BenchmarkCollect removes blocks of events indexed by person, by actor and by both.
func BenchmarkCollect(b *testing.B) {
	h := onDisk(b)
	for i := range 20 {
		h.fill(500, created, fmt.Sprint("p", i), fmt.Sprint("p", i))
	}
	h.must(h.keep.Seal(b.Context()))
	h.keep.Use(audit.Settings{Retention: audit.Retention{Kept: time.Second}})
	h.time = h.time.Add(time.Hour)
	b.ResetTimer()
	n, err := h.keep.Collect(b.Context())
	h.must(err)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/event")
}
