package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/caddymodule/postgres"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { pgtest.Main(m, func(s *pgtest.Server) { server = s }) }

// read reads the lines of a Caddyfile.
func read(t *testing.T, lines string) (*postgres.Storage, error) {
	t.Helper()
	s := new(postgres.Storage)
	return s, s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(lines))
}

func provision(t *testing.T, s *postgres.Storage) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return s.Provision(ctx)
}

// TestPasswordStaysInTheURL: neither the configuration, nor the log, nor what is said of the storage has the password.
func TestPasswordStaysInTheURL(t *testing.T) {
	t.Setenv("DATABASE_URL", server.URL(pgtest.Database))
	s, err := read(t, "postgres {env.DATABASE_URL} {\n schema one\n cluster first\n pool 3\n durability local\n}")
	if err != nil {
		t.Fatal(err)
	}
	dump, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	store, err := s.Open(t.Context(), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte("a"), []byte("1"), time.Time{}) }); err != nil {
		t.Error(err)
	}
	said := []string{string(dump), s.Place(), s.Options()}
	for _, l := range logs.All() {
		line, err := json.Marshal([]any{l.Message, l.ContextMap()})
		said = append(said, string(line))
		if err != nil {
			t.Error(err)
		}
	}
	for _, line := range said {
		if strings.Contains(line, pgtest.Password) || strings.Contains(line, "p%40ss") || strings.Contains(line, "p@ss") {
			t.Errorf("%s tells the password", line)
		}
	}
	if want := "postgres " + server.Address() + "/gatehouse schema one"; s.Place() != want {
		t.Errorf("Place = %q, want %q", s.Place(), want)
	}
	t.Setenv("DATABASE_URL", strings.Replace(server.URL(pgtest.Database), "p%40ss", "other", 1))
	again, _ := read(t, "postgres {env.DATABASE_URL} {\n schema one\n cluster first\n pool 3\n durability local\n}")
	if err := provision(t, again); err != nil {
		t.Fatal(err)
	}
	if again.Place() != s.Place() || again.Options() == s.Options() {
		t.Error("another password is not noticed as another option of the same place")
	}
	s.Cluster = "second"
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
}

// TestMistakes: what is wrong in a Caddyfile is said, without the URL.
func TestMistakes(t *testing.T) {
	for lines, want := range map[string]string{
		"postgres": "the URL of the database is missing",
		"postgres postgres://a:secret@host/db more":                      "there is more after the URL",
		"postgres postgres://a:sec/ret@host/db":                          "%40",
		"postgres postgres://a:secret@host/db?sslmode=never":             "sslmode is invalid",
		"postgres postgres://a:secret@host/db {\n pool 1\n}":             "not a number from 2 to 1000",
		"postgres postgres://a:secret@host/db {\n durability off\n}":     "use on or local",
		"postgres postgres://a:secret@host/db {\n conections 3\n}":       "conections",
		"postgres postgres://a:secret@host/db {\n pool 3\n pool 4\n}":    "pool",
		"postgres postgres://a:secret@host/db {\n schema one two\n}":     "schema",
		"postgres postgres://a:secret@host:port/db {\n schema one\n}":    "cannot be read",
		"postgres postgres://a:secret@host/db?sslrootcert=/no/such/file": "/no/such/file",
	} {
		_, err := read(t, lines)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lines, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "ret@")) {
			t.Errorf("%s: %v, which tells the password", lines, err)
		}
	}
	s, err := read(t, "postgres {env.NO_SUCH_VARIABLE}")
	if err != nil {
		t.Fatal(err)
	}
	if err := provision(t, s); err == nil || !strings.Contains(err.Error(), "NO_SUCH_VARIABLE") {
		t.Errorf("Provision = %v, want the name of the variable", err)
	}
}

// TestURLWithoutAMode: what the Caddyfile leaves open is said before anything connects.
func TestURLWithoutAMode(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://a:secret@db.example.com/c":                     "sslmode=verify-full",
		"postgres://a:secret@db.example.com/c?sslmode=verify-full": "",
		"postgres://a:secret@db.example.com/c?sslmode=disable":     "",
		"postgres://a:secret@db.example.com/c?sslmode=prefer":      "or sslmode=disable",
		"postgres://a:secret@db.example.com/c?sslmode=require":     "sslmode=verify-full",
		"postgres://a:secret@localhost/c?sslmode=require":          "",
		"postgres://a:secret@localhost/c":                          "",
	} {
		s, err := read(t, "postgres "+url)
		if err != nil {
			t.Fatal(err)
		}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		reason, fix := s.Advice()
		if (reason == "") != (want == "") || !strings.Contains(fix, want) || strings.Contains(reason+fix, "secret") {
			t.Errorf("%s: Advice = %q, %q, want %q", url, reason, fix, want)
		}
	}
}

// TestRestoreIntoADatabase: the command fills an empty schema, and no other.
func TestRestoreIntoADatabase(t *testing.T) {
	url := server.URL(pgtest.Database)
	open := func(schema string) (*postgres.Storage, storage.Store) {
		s, err := read(t, "postgres "+url+" {\n schema "+schema+"\n}")
		if err != nil {
			t.Fatal(err)
		}
		if err := provision(t, s); err != nil {
			t.Fatal(err)
		}
		store, err := s.Open(t.Context(), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return s, store
	}
	_, from := open("source")
	for _, k := range []string{"a", "b"} {
		if err := from.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte(k), []byte("1"), time.Time{}) }); err != nil {
			t.Fatal(err)
		}
	}
	stream := &strings.Builder{}
	if err := from.(storage.Backuper).Backup(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	s, to := open("target")
	mine := errors.New("mine")
	if err := s.Restore(t.Context(), strings.NewReader(stream.String()), func(storage.Tx) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("Restore = %v, want %v", err, mine)
	}
	after := func(tx storage.Tx) error {
		if _, err := tx.Get([]byte("b")); err != nil {
			return err
		}
		return tx.Put([]byte("a"), []byte("2"), time.Time{})
	}
	for _, want := range []string{"", "not empty"} {
		err := s.Restore(t.Context(), strings.NewReader(stream.String()), after)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Restore = %v, want %q", err, want)
		}
	}
	err := to.View(t.Context(), func(tx storage.Tx) error {
		v, err := tx.GetMany([]byte("a"), []byte("b"))
		if err == nil && (string(v[0]) != "2" || string(v[1]) != "1") {
			t.Errorf("restored %q, want 2 and 1", v)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
