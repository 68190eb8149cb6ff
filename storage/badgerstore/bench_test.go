package badgerstore_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func openBench(b *testing.B) *badgerstore.Lasting {
	b.Helper()
	s, err := badgerstore.Open(b.Context(), badgerstore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writers runs b.N writes in n goroutines.
func writers(b *testing.B, n int, write func(i int64) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	took := make([]time.Duration, b.N)
	used := processor(b)
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				begin := time.Now()
				if err := write(i); err != nil {
					b.Error(err)
					return
				}
				took[i-1] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64((processor(b)-used).Microseconds())/float64(b.N), "processor-µs")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

// BenchmarkUpdate is one durable record of 300 bytes for each transaction.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", n), func(b *testing.B) {
			s := openBench(b)
			value := make([]byte, 300)
			writers(b, n, func(i int64) error {
				key := fmt.Appendf(nil, "%08x/%x", uint32(i)*2654435761, i)
				return s.Update(b.Context(), func(tx storage.Tx) error { return tx.Put(key, value, time.Time{}) })
			})
			st := s.Stats()
			b.ReportMetric(float64(st.Records)/float64(st.Commits), "records/sync")
		})
	}
}

// BenchmarkFlow measures the minimal cost for the store of a code flow by a proxy in front: it writes as many records,
// in as many transactions, by as many browsers as the code flow of the module bench, and reads nothing. The sign-in
// writes 20 records, of which the list of sessions has 2 KiB, and the token request 14, of which the list of grants has
// as much.
func BenchmarkFlow(b *testing.B) {
	s := openBench(b)
	small, list := make([]byte, 120), make([]byte, 2<<10)
	write := func(i int64, part string, records int) error {
		return s.Update(b.Context(), func(tx storage.Tx) error {
			for n := range records {
				value := small
				if n == 0 {
					value = list
				}
				key := fmt.Appendf(nil, "%s%02d/%08x/%x", part, n, uint32(i)*2654435761, i)
				if err := tx.Put(key, value, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	writers(b, 8, func(i int64) error {
		if err := write(i, "sign-in", 20); err != nil {
			return err
		}
		return write(i, "token", 14)
	})
}

// BenchmarkRawBadgerSyncWrites is Badger alone, with a transaction and a sync for each record.
func BenchmarkRawBadgerSyncWrites(b *testing.B) {
	db, err := badger.Open(badger.DefaultOptions(b.TempDir()).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	value := make([]byte, 300)
	writers(b, 64, func(i int64) error {
		key := fmt.Appendf(nil, "%08x/%x", uint32(i)*2654435761, i)
		return db.Update(func(txn *badger.Txn) error { return txn.Set(key, value) })
	})
}

const benchRecords = 20_000

func filled(b *testing.B) (s *badgerstore.Lasting, keys [][]byte) {
	b.Helper()
	s = openBench(b)
	for i := range benchRecords {
		keys = append(keys, fmt.Appendf(nil, "%08x/%x", uint32(i)*2654435761, i))
	}
	for at := 0; at < len(keys); at += 1000 {
		err := s.Update(b.Context(), func(tx storage.Tx) error {
			for _, k := range keys[at : at+1000] {
				if err := tx.Put(k, make([]byte, 300), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return s, keys
}

// BenchmarkGet reads one record of 300 bytes; BenchmarkView measures the view itself.
func BenchmarkGet(b *testing.B) {
	s, keys := filled(b)
	b.ReportAllocs()
	err := s.View(b.Context(), func(tx storage.Tx) error {
		i := 0
		for b.Loop() {
			if _, err := tx.Get(keys[i%len(keys)]); err != nil {
				return err
			}
			i += 7
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkView is a view: empty, with one read, with a scan of ten, and with one read while 64 writers write.
func BenchmarkView(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		s := openBench(b)
		b.ReportAllocs()
		for b.Loop() {
			if err := s.View(b.Context(), func(storage.Tx) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	s, keys := filled(b)
	get := func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			err := s.View(b.Context(), func(tx storage.Tx) error {
				_, err := tx.Get(keys[i%len(keys)])
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			i += 7
		}
	}
	b.Run("get", get)
	b.Run("scan10", func(b *testing.B) {
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			err := s.View(b.Context(), func(tx storage.Tx) error {
				for _, err := range tx.Scan(storage.Range{After: keys[i%len(keys)], Limit: 10}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			i += 7
		}
	})
	b.Run("get under 64 writers", func(b *testing.B) {
		var stop atomic.Bool
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					key := fmt.Appendf(nil, "w%d/%d", w, i)
					err := s.Update(b.Context(), func(tx storage.Tx) error { return tx.Put(key, make([]byte, 300), time.Time{}) })
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		get(b)
		stop.Store(true)
		wg.Wait()
	})
}
