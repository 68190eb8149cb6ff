package pgstore_test

import (
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
