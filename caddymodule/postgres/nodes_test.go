package postgres_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// stream is something open that ends when its token is not active any more.
type stream chan struct{}

func (s stream) Judge(answer string) (bool, time.Time) { return answer == "active", time.Time{} }
func (s stream) End()                                  { close(s) }

// TestRevocationEndsStreamsOfTheOtherNode: a token that is revoked on one node ends what is open with it on another,
// and is refused there from the next request on, however long the answer would be good for.
func TestRevocationEndsStreamsOfTheOtherNode(t *testing.T) {
	t.Parallel()
	url := server.URL(pgtest.Database)
	var nodes [2]storage.Store
	for i := range nodes {
		s, err := read(t, "postgres "+url+" {\n schema nodes\n direct_url "+url+"\n}")
		if err != nil {
			t.Fatal(err)
		}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		if nodes[i], err = s.Open(t.Context(), zap.NewNop()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes[i].Close() })
	}
	write := func(value string) {
		t.Helper()
		if err := nodes[0].Update(t.Context(),
			func(tx storage.Tx) error { return tx.Put([]byte("token/a"), []byte(value), time.Time{}) }); err != nil {
			t.Fatal(err)
		}
	}
	kept := depcache.New(nodes[1], 1<<20, func(string) int { return 10 })
	look := func(ctx context.Context, token string) (string, recheck.Basis, error) {
		now := time.Now()
		if a, on, ok := kept.FindBasis(depcache.KeyOf(1, token), now); ok {
			return a, on, nil
		}
		return kept.Look(ctx, depcache.KeyOf(1, token), now, func(tx storage.Tx) (string, time.Time, error) {
			v, err := tx.Get([]byte("token/" + token))
			return string(v), now.Add(time.Hour), err
		})
	}
	list := recheck.New(recheck.Config[string, string]{
		Ask: look, Now: time.Now, Every: time.Hour,
		After: func(d time.Duration, fn func()) func() bool { return time.AfterFunc(d, fn).Stop },
	})
	for range 3 {
		write("active")
		open := make(stream)
		defer list.Add("a", open).Leave()
		write("revoked")
		if now, _, err := look(t.Context(), "a"); now != "revoked" || err != nil {
			t.Errorf("the next request is answered by %q, %v", now, err)
		}
		select {
		case <-open:
		case <-time.After(time.Minute):
			t.Fatal("the stream stays open")
		}
	}
}
