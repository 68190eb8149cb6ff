package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// remember keeps the tables of a schema as they are now. What it returns puts them back in one transaction, as the
// promotion of a standby that lags behind does, or only the tables of these names, as an operator may.
func remember(t *testing.T, schema, name string, tables ...string) (goBack func()) {
	t.Helper()
	if len(tables) == 0 {
		tables = []string{"kv", "meta"}
	}
	q := `"` + schema + `".`
	back := "BEGIN;"
	for _, table := range tables {
		now, then := q+"gatehouse_"+table, q+name+"_"+table
		server.Exec(t, pgtest.Database, "CREATE TABLE "+then+" AS TABLE "+now)
		back += "DELETE FROM " + now + "; INSERT INTO " + now + " TABLE " + then + ";"
	}
	return func() {
		t.Helper()
		server.Exec(t, pgtest.Database, back+"COMMIT")
	}
}

// disconnect ends the connections of a store.
func disconnect(t *testing.T, name string) {
	t.Helper()
	server.Exec(t, pgtest.Database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '"+name+"'")
}

// member opens a store whose connections disconnect can end.
func member(t *testing.T, schema string) (s *pgstore.Store, name string) {
	t.Helper()
	name = fmt.Sprintf("%s %s", schema, time.Now().Format("05.000000000"))
	s, err := pgstore.Open(t.Context(), optionsOf(schema, name))
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, name
}

func optionsOf(schema, name string) pgstore.Options {
	return pgstore.Options{
		URL:    server.URL(pgtest.Database, "sslmode=disable", "application_name="+strings.ReplaceAll(name, " ", "%20")),
		Schema: schema, Pool: 2, SweepEvery: -1,
	}
}

func put(s storage.Store, key string) error {
	return s.Update(context.Background(), func(tx storage.Tx) error { return tx.Put([]byte(key), nil, time.Time{}) })
}

func has(s storage.Store, key string) (found bool, err error) {
	err = s.View(context.Background(), func(tx storage.Tx) error {
		_, err := tx.Get([]byte(key))
		if found = err == nil; errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	return found, err
}

func clockOf(s *pgstore.Store) error {
	_, err := s.Clock(context.Background())
	return err
}

// lost fails unless a store says what was lost.
func lost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, storage.ErrLost) || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "accept-loss") {
		t.Errorf("%s = %v, want %v", what, err, storage.ErrLost)
	}
}

// TestLostWrites: a database that has lost what was answered is answered from by no node, whichever way it is noticed,
// until an operator has accepted it.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	testLostWrites(t)
}

// TestLostRecords: attack: the records alone are put back to when a token was not yet revoked, and the other table
// stays as it is.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	testLostWrites(t, "kv")
}

// testLostWrites puts these tables back.
func testLostWrites(t *testing.T, tables ...string) {
	for name, notice := range map[string]func(t *testing.T, a, b *pgstore.Store, nameOfA string){
		"by the next write on the same connection": func(t *testing.T, a, b *pgstore.Store, _ string) {
			lost(t, "Update", put(a, "later"))
			_, err := has(a, "answered")
			lost(t, "View", err)
			lost(t, "Clock of the other node", clockOf(b))
		},
		"by the first read on a new connection": func(t *testing.T, a, b *pgstore.Store, nameOfA string) {
			disconnect(t, nameOfA)
			_, err := has(a, "answered")
			lost(t, "View", err)
			lost(t, "Update", put(a, "later"))
			lost(t, "Clock of the other node", clockOf(b))
		},
		"by the next beat": func(t *testing.T, a, b *pgstore.Store, _ string) {
			lost(t, "Clock", clockOf(a))
			lost(t, "Check", a.Check(t.Context()))
			lost(t, "Clock of the other node", clockOf(b))
		},
		"by the other node, where the one that wrote has ended": func(t *testing.T, a, b *pgstore.Store, _ string) {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			lost(t, "Clock of the other node", clockOf(b))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			a, nameOfA := member(t, schema)
			b, _ := member(t, schema)
			if err := errors.Join(put(a, "kept"), put(b, "kept too")); err != nil {
				t.Fatal(err)
			}
			goBack := remember(t, schema, "older", tables...)
			if err := errors.Join(put(a, "answered"), clockOf(a), clockOf(b)); err != nil {
				t.Fatal(err)
			}
			goBack()
			notice(t, a, b, nameOfA)
			_, err := has(b, "kept")
			lost(t, "View of the other node", err)
			lost(t, "Update of the other node", put(b, "later"))
			_, err = pgstore.Open(t.Context(), optionsOf(schema, "another node"))
			lost(t, "Open", err)
			// It can be a forgotten server of before the database was made again, which the operator has to find.
			host, _ := os.Hostname()
			if by := fmt.Sprintf("noticed by the server on %s, process %d", host, os.Getpid()); err == nil || !strings.Contains(err.Error(), by) {
				t.Errorf("Open = %v, want %q in it", err, by)
			}

			mine := errors.New("mine")
			if _, err := pgstore.AcceptLoss(t.Context(), optionsOf(schema, "operator"),
				func(storage.Tx) error { return mine }); !errors.Is(err, mine) {
				t.Errorf("AcceptLoss = %v, want %v", err, mine)
			}
			lost(t, "Clock", clockOf(b))
			what, err := pgstore.AcceptLoss(t.Context(), optionsOf(schema, "operator"),
				func(tx storage.Tx) error { return tx.Put([]byte("epoch"), nil, time.Time{}) })
			if err != nil || !strings.Contains(what, "the database has ") {
				t.Errorf("AcceptLoss = %q, %v", what, err)
			}
			if _, err := pgstore.AcceptLoss(t.Context(), optionsOf(schema, "operator"), nil); !errors.Is(err, pgstore.ErrNoLoss) {
				t.Errorf("AcceptLoss where nothing is lost = %v, want %v", err, pgstore.ErrNoLoss)
			}
			nodes := []*pgstore.Store{b}
			if !strings.Contains(name, "has ended") {
				nodes = append(nodes, a)
			}
			for _, s := range nodes {
				if err := errors.Join(s.Check(t.Context()), put(s, "again"), put(s, "and again"), clockOf(s)); err != nil {
					t.Errorf("after the loss was accepted: %v", err)
				}
				for key, want := range map[string]bool{"kept": true, "answered": false, "epoch": true, "again": true} {
					if got, err := has(s, key); err != nil || got != want {
						t.Errorf("%s is there: %t, %v, want %t", key, got, err, want)
					}
				}
			}
		})
	}
}

// TestCountsAreNoRecords: the rows that count commits are in no scan, and no one writes them. A database that has
// nothing else is empty.
func TestCountsAreNoRecords(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	s, _ := member(t, schema)
	remove := func(key string) error {
		return s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte(key)) })
	}
	if err := errors.Join(put(s, "a"), put(s, "b"), remove("a")); err != nil {
		t.Fatal(err)
	}
	for _, r := range []storage.Range{{}, {Descending: true}, {Limit: 1}, {Prefix: []byte("\x00")}} {
		var keys []string
		err := s.View(t.Context(), func(tx storage.Tx) error {
			keys = nil
			for rec, err := range tx.Scan(r) {
				if err != nil {
					return err
				}
				keys = append(keys, string(rec.Key))
			}
			return nil
		})
		want := "b"
		if r.Prefix != nil {
			want = ""
		}
		if got := strings.Join(keys, " "); err != nil || got != want {
			t.Errorf("scan of %+v = %q, %v, want %q", r, got, err, want)
		}
	}
	const count = "\x00commits/0011223344556677"
	if err := errors.Join(put(s, count), remove(count)); err == nil || errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a row that counts commits was written: %v", err)
	}
	var backup bytes.Buffer
	if err := errors.Join(s.Backup(t.Context(), &backup), remove("b"), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := pgstore.Restore(t.Context(), optionsOf(schema, "operator"), &backup, nil); err != nil {
		t.Errorf("Restore into a database with counts alone = %v", err)
	}
}

// TestRightDatabaseComesBack: nodes go on by themselves where nothing is missing any more.
func TestRightDatabaseComesBack(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	a, _ := member(t, schema)
	b, _ := member(t, schema)
	if err := errors.Join(put(a, "before"), put(b, "before")); err != nil {
		t.Fatal(err)
	}
	older := remember(t, schema, "older")
	if err := errors.Join(put(a, "answered"), put(b, "answered too")); err != nil {
		t.Fatal(err)
	}
	right := remember(t, schema, "right")
	older()
	lost(t, "Update", put(a, "later"))
	lost(t, "Clock", clockOf(b))
	right()
	if err := errors.Join(clockOf(a), clockOf(b), put(a, "again"), put(b, "again"), clockOf(a), clockOf(b)); err != nil {
		t.Errorf("with the right database: %v", err)
	}
	for _, key := range []string{"answered", "answered too", "again"} {
		if found, err := has(b, key); err != nil || !found {
			t.Errorf("%s is there: %t, %v", key, found, err)
		}
	}
}

// TestNothingLost: a database that was away and has everything is used on, as is one with a node that has ended.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	a, nameOfA := member(t, schema)
	b, nameOfB := member(t, schema)
	for i := range 3 {
		if err := errors.Join(put(a, "x"), put(b, "y"), clockOf(a), clockOf(b)); err != nil {
			t.Fatal(err)
		}
		disconnect(t, nameOfA)
		disconnect(t, nameOfB)
		if i == 1 {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a, nameOfA = member(t, schema)
		}
		for _, s := range []*pgstore.Store{a, b} {
			if found, err := has(s, "x"); err != nil || !found {
				t.Errorf("x is there: %t, %v", found, err)
			}
		}
	}
}

// TestLossBeforeTheStart: what was lost together with the row of a node that is new is noticed too, and one that was
// not yet answered anything goes on.
func TestLossBeforeTheStart(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	first, _ := member(t, schema)
	if err := put(first, "kept"); err != nil {
		t.Fatal(err)
	}
	goBack := remember(t, schema, "older")
	a, _ := member(t, schema)
	goBack()
	if err := errors.Join(put(a, "first"), clockOf(a)); err != nil {
		t.Errorf("Update of a node that has written nothing before = %v", err)
	}
	goBack()
	if err := put(a, "on what is left"); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Update on the same connection = %v, want %v", err, storage.ErrUnavailable)
	}
	lost(t, "Clock", clockOf(a))
	lost(t, "Update", put(a, "later"))
}
