package pgstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// BenchmarkView reads what a token rests on, 16 at the same time.
func BenchmarkView(b *testing.B) {
	s, err := pgstore.Open(b.Context(), pgstore.Options{URL: server.URL(pgtest.Database), Schema: newSchema(), SweepEvery: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	keys := [][]byte{[]byte("token/a"), []byte("grant/a"), []byte("client/a"), []byte("epoch/a"), []byte("epoch")}
	err = s.Update(b.Context(), func(tx storage.Tx) error {
		for _, k := range keys {
			if err := tx.Put(k, make([]byte, 300), time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			err := s.View(b.Context(), func(tx storage.Tx) error {
				if _, err := tx.Get(keys[0]); err != nil {
					return err
				}
				_, err := tx.GetMany(keys[1:]...)
				return err
			})
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkUpdate writes a record after reading what all have in common, 16 at the same time on one node or two.
func BenchmarkUpdate(b *testing.B) {
	for _, nodes := range []int{1, 2} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			schema := newSchema()
			var stores []*pgstore.Store
			for range nodes {
				s, err := pgstore.Open(b.Context(), pgstore.Options{URL: server.URL(pgtest.Database), Schema: schema, SweepEvery: -1})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				stores = append(stores, s)
			}
			common := [][]byte{[]byte("authz_client/a"), []byte("identity_settings/a"), []byte("identity_person/a"), []byte("authz_epoch")}
			err := stores[0].Update(b.Context(), func(tx storage.Tx) error {
				for _, k := range common {
					if err := tx.Put(k, make([]byte, 300), time.Time{}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			var workers, keys atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				s := stores[int(workers.Add(1))%nodes]
				for pb.Next() {
					err := s.Update(b.Context(), func(tx storage.Tx) error {
						if _, err := tx.GetMany(common...); err != nil {
							return err
						}
						return tx.Put(fmt.Appendf(nil, "authz_grant/%d", keys.Add(1)%10_000), make([]byte, 300), time.Time{})
					})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			var commits, retries uint64
			for _, s := range stores {
				commits, retries = commits+s.Stats().Commits, retries+s.Stats().Retries["update"]
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commits), "ns/commit")
			b.ReportMetric(float64(retries)/float64(commits), "retries/commit")
		})
	}
}
