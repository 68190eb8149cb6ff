package pgstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestSweepKeepsWhatIsRewritten: a record has expired, and while its new version is being committed, a sweep reaches
// the old one. What was answered as written stays.
func TestSweepKeepsWhatIsRewritten(t *testing.T) {
	t.Parallel()
	h, schema := newStores(server.URL(pgtest.Database)), newSchema()
	reader := h.open(t, schema)
	proxy := pgtest.NewProxy(t, server.Address())
	writer, err := pgstore.Open(t.Context(),
		pgstore.Options{URL: at(proxy.Address()), DirectURL: server.URL(pgtest.Database), Schema: schema, SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close() //nolint:errcheck // the test is over
	sweeper, name := member(t, schema)
	write := func(expires time.Time) error {
		return writer.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("lease"), nil, expires) })
	}
	if err := write(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}

	// The new version is written and its row locked, and the commit waits for the sweep.
	written, commit := make(chan struct{}), make(chan struct{})
	var once sync.Once
	proxy.Decide(func(_ int, sql string) pgtest.Fate {
		if sql == "COMMIT" {
			once.Do(func() {
				close(written)
				<-commit
			})
		}
		return pgtest.Pass
	})
	var all sync.WaitGroup
	all.Go(func() {
		if err := write(time.Now().Add(time.Hour)); err != nil {
			t.Errorf("Update = %v", err)
		}
	})
	<-written
	all.Go(func() {
		if n, err := sweeper.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v, want nothing removed", n, err)
		}
	})
	server.Exec(t, pgtest.Database, `DO $$ BEGIN
		WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '`+name+`' AND wait_event_type = 'Lock') LOOP
			PERFORM pg_stat_clear_snapshot();
		END LOOP; END $$`)
	close(commit)
	all.Wait()
	if found, err := has(reader, "lease"); !found || err != nil {
		t.Errorf("the record that was written: found = %v, %v", found, err)
	}
}
