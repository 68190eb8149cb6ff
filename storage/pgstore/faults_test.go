package pgstore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// script decides about the statements of one transaction.
type script struct {
	mu   sync.Mutex // guards what follows
	at   int        // the statement that meets the fate; 0: none
	fate pgtest.Fate
	seen []string
}

func (s *script) decide(_ int, sql string) pgtest.Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch { // a beat, or of a new connection
	case strings.HasPrefix(sql, "SELECT set_config("), strings.HasPrefix(sql, "SELECT convert_to(name"),
		strings.HasPrefix(sql, "SELECT pg_backend_pid"):
		return pgtest.Pass
	}
	s.seen = append(s.seen, sql)
	if len(s.seen) == s.at {
		return s.fate
	}
	return pgtest.Pass
}

func (s *script) set(at int, fate pgtest.Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.fate, s.seen = at, fate, nil
}

func (s *script) statements() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.seen...)
}

// count is one transaction of several statements, which counts to one more.
func count(tx storage.Tx) error {
	if _, err := tx.GetMany([]byte("x"), []byte("y")); err != nil {
		return err
	}
	for _, err := range tx.Scan(storage.Range{Prefix: []byte("list/")}) {
		if err != nil {
			return err
		}
	}
	n, err := tx.Get([]byte("n"))
	if err != nil {
		return err
	}
	next := binary.BigEndian.Uint64(n) + 1
	return errors.Join(
		tx.Put([]byte("n"), binary.BigEndian.AppendUint64(nil, next), time.Time{}),
		tx.Delete(fmt.Appendf(nil, "list/%d", next-1)), tx.Put(fmt.Appendf(nil, "list/%d", next), nil, time.Time{}))
}

// counted returns the count, and fails if the list does not fit to it.
func counted(t *testing.T, s storage.Store) (n uint64) {
	t.Helper()
	err := s.View(t.Context(), func(tx storage.Tx) error {
		v, err := tx.Get([]byte("n"))
		if err != nil {
			return err
		}
		n = binary.BigEndian.Uint64(v)
		var list []string
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("list/")}) {
			if err != nil {
				return err
			}
			list = append(list, string(rec.Key))
		}
		if want := fmt.Sprintf("list/%d", n); n > 0 && (len(list) != 1 || list[0] != want) {
			t.Errorf("the list is %q at %d", list, n)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
	return n
}

// TestFaultsAtEachStatement: a conflict or a lost connection at any statement ends in exactly one execution, or in an
// error that says that the outcome is unknown, and the next transaction works.
func TestFaultsAtEachStatement(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	proxy, sc := pgtest.NewProxy(t, server.Address()), &script{}
	s, err := pgstore.Open(t.Context(),
		pgstore.Options{URL: at(proxy.Address()), DirectURL: server.URL(pgtest.Database), Schema: schema, SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	direct := newStores(server.URL(pgtest.Database)).open(t, schema)
	if err := direct.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("n"), make([]byte, 8), time.Time{}) }); err != nil {
		t.Fatal(err)
	}
	proxy.Decide(sc.decide)
	if err := s.Update(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	statements := sc.statements()
	if last := statements[len(statements)-1]; len(statements) < 6 || last != "COMMIT" {
		t.Fatalf("the transaction has the statements %q", statements)
	}
	begun := len(statements) - 5 // the writes, what is told of them, the count and the commit are one pipeline
	for at := range len(statements) {
		for fate, name := range map[pgtest.Fate]string{
			pgtest.Conflict: "conflict", pgtest.CutBefore: "cut before",
			pgtest.CutAfter: "cut after",
		} {
			before := counted(t, direct)
			sc.set(at+1, fate)
			err := s.Update(t.Context(), count)
			sc.set(0, pgtest.Pass)
			now, what := counted(t, direct), fmt.Sprintf("%s at %q", name, statements[at])
			switch {
			case fate == pgtest.Conflict || at < begun:
				if err != nil || now != before+1 {
					t.Errorf("%s: Update = %v, counted from %d to %d, want one more", what, err, before, now)
				}
			case !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "unknown"):
				t.Errorf("%s: Update = %v, want that the outcome is unknown", what, err)
			case fate == pgtest.CutAfter && now != before+1, fate == pgtest.CutBefore && now != before:
				t.Errorf("%s: counted from %d to %d", what, before, now)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("%s: Check = %v", what, err)
			}
		}
	}
	for at := range 3 {
		for _, fate := range []pgtest.Fate{pgtest.Conflict, pgtest.CutBefore, pgtest.CutAfter} {
			sc.set(at+1, fate)
			counted(t, s)
		}
	}
}

// TestEndlessConflicts: what conflicts each time is refused as unavailable, and nothing of it is kept.
func TestEndlessConflicts(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	h := newStores(pgtest.URLAt(proxy.Address(), pgtest.User, pgtest.Password, pgtest.Database))
	s := h.open(t, newSchema())
	proxy.Decide(func(_ int, sql string) pgtest.Fate {
		if sql == "COMMIT" {
			return pgtest.Conflict
		}
		return pgtest.Pass
	})
	runs := 0
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		runs++
		return tx.Put([]byte("a"), nil, time.Time{})
	})
	if !errors.Is(err, storage.ErrUnavailable) || runs < 10 {
		t.Errorf("Update = %v after %d runs, want %v after 10 or more", err, runs, storage.ErrUnavailable)
	}
	proxy.Decide(nil)
	if err := s.View(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("a")); return err }); !errors.Is(err,
		storage.ErrNotFound) {
		t.Errorf("Get = %v, want %v", err, storage.ErrNotFound)
	}
}

// common matches the statements of PostgreSQL that CockroachDB and YugabyteDB have too, as far as we know their
// documentation. Everything else is refused.
var common = regexp.MustCompile(`^(BEGIN( ISOLATION LEVEL (SERIALIZABLE|REPEATABLE READ READ ONLY))?|COMMIT|ROLLBACK|` +
	`SELECT version\(\), .*|SELECT current_setting\('transaction_read_only'\), .*|SELECT clock_timestamp\(\)|SELECT (k|k, v, x, c) FROM \S+ \S+.*|SELECT convert_to\(name, 'UTF8'\), .*|SELECT \* FROM .*|` +
	`INSERT INTO .* ON CONFLICT \(k\) DO UPDATE SET .*|INSERT INTO .* VALUES .*|DELETE FROM .* WHERE k = ANY\(\$1\)|DELETE FROM .* WHERE coalesce\(x < \S+, false\) AND k IN \(SELECT k .*\)|` +
	`CREATE (SCHEMA IF NOT EXISTS|TABLE|INDEX) .*)$`)

var foreign = regexp.MustCompile(`(?i)\b(LISTEN|NOTIFY|pg_advisory\w*|DECLARE|CURSOR|FETCH|TEMP\w*|LOCK|SET|DO\s*\$|COPY|xmin|ctid)\b`)

func refusedElsewhere(sql string) bool {
	return !common.MatchString(sql) || foreign.MatchString(sql) && !strings.Contains(sql, "DO UPDATE SET")
}

// TestWhatOthersHaveNot: the statements that tempt, and that other databases refuse, do nothing, or do otherwise.
func TestWhatOthersHaveNot(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"LISTEN a", "NOTIFY a", "SELECT pg_notify($1, $2)", "SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_xact_lock(1)",
		"DECLARE c CURSOR FOR SELECT k FROM gatehouse_kv", "FETCH 10 FROM c", "CREATE TEMP TABLE a (b int)", "CREATE TEMPORARY TABLE a (b int)",
		"LOCK TABLE gatehouse_kv", "SET synchronous_commit = on", "SET LOCAL enable_seqscan = off", "DO $$ BEGIN END $$",
		"COPY gatehouse_kv TO STDOUT",
		"SELECT k FROM gatehouse_kv WHERE ctid = $1", "SELECT * FROM gatehouse_kv WHERE xmin = $1",
		"CREATE FUNCTION a() RETURNS int", "CREATE TRIGGER a",
		"CREATE UNLOGGED TABLE a (b int)", "MERGE INTO gatehouse_kv", "VACUUM gatehouse_kv", "PREPARE TRANSACTION 'a'",
		"BEGIN ISOLATION LEVEL READ COMMITTED",
	} {
		if !refusedElsewhere(sql) {
			t.Errorf("%s passes", sql)
		}
	}
}

// conflictEvery says how often a statement ends with a conflict. No read does: the suite looks at the errors of reads
// in its closures.
var conflictEvery = map[string]int{"COMMIT": 3, "INSERT": 5, "DELETE": 5}

// TestStoreWithinWhatOthersHave: the suite on a server that says it is CockroachDB, refuses what that has not, and ends
// many commits with a conflict.
func TestStoreWithinWhatOthersHave(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	proxy.Rows = func(row *pgproto3.DataRow) {
		if len(row.Values) == 8 && strings.HasPrefix(string(row.Values[0]), "PostgreSQL") {
			row.Values[0] = []byte("CockroachDB CCL v24.1.0 (as the test wants)")
			for i := 4; i < 8; i++ {
				row.Values[i] = nil
			}
		}
	}
	n, spared := map[string]int{}, map[int]bool{} // guarded by the proxy
	proxy.Decide(func(conn int, sql string) pgtest.Fate {
		word, _, _ := strings.Cut(sql, " ")
		if n[word]++; refusedElsewhere(sql) {
			t.Errorf("the statement is not among those that other databases have: %s", sql)
			return pgtest.Refuse
		}
		if every := conflictEvery[word]; every > 0 && n[word]%every == 0 && !spared[conn] {
			spared[conn] = true
			return pgtest.Conflict
		}
		if word == "COMMIT" {
			spared[conn] = false // what comes is not a second try
		}
		return pgtest.Pass
	})
	h := newStores(pgtest.URLAt(proxy.Address(), pgtest.User, pgtest.Password, pgtest.Database))
	storagetest.Run(t, func(t *testing.T) storage.Store { return h.open(t, newSchema()) }, storagetest.WithReopen(h.reopen),
		storagetest.WithCollect(h.collect))
}
