package pgstore_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

const tables = "CREATE TABLE gatehouse_kv (k bytea PRIMARY KEY, v bytea NOT NULL, x timestamptz, c bytea);" +
	"CREATE TABLE gatehouse_meta (name text PRIMARY KEY, value text NOT NULL);" +
	"INSERT INTO gatehouse_meta VALUES ('format', '1'), ('cluster', 'gatehouse');"

// TestRefusals: a database in which a promise could not be kept is refused at the start, in words that say what to do,
// and nothing was written.
func TestRefusals(t *testing.T) {
	t.Parallel()
	role := fmt.Sprintf("guest%d", schemas.Add(1))
	server.Exec(t, pgtest.Database, "CREATE ROLE "+role+" LOGIN PASSWORD 'gu@est'")
	guest := func(db string) string { return pgtest.URLAt(server.Address(), role, "gu@est", db) }
	plain := pgtest.NewProxy(t, server.Address()) // it offers no TLS
	for name, tc := range map[string]struct {
		make  string // after CREATE DATABASE
		setup string // in the database
		url   func(db string) string
		opt   pgstore.Options
		want  []string
	}{
		"nothing listens": {
			url:  func(db string) string { return pgtest.URLAt(closedAddress(t), pgtest.User, pgtest.Password, db) },
			want: []string{"does not answer", "is it running"},
		},
		"an unknown host": {
			url:  func(db string) string { return pgtest.URLAt("db.invalid:5432", pgtest.User, pgtest.Password, db) },
			want: []string{"db.invalid"},
		},
		"a wrong password": {
			url:  func(db string) string { return pgtest.URLAt(server.Address(), pgtest.User, "wr@ng", db) },
			want: []string{"user or password"},
		},
		"an unknown user": {
			url:  func(db string) string { return pgtest.URLAt(server.Address(), "nobody", "wr@ng", db) },
			want: []string{"user or password"},
		},
		"no such database": {url: func(string) string { return server.URL("nothing") }, want: []string{"no such database", "createdb"}},
		"no rights":        {url: guest, want: []string{"may not make its tables", "GRANT"}},
		"rights to read": {
			setup: tables + "GRANT SELECT ON gatehouse_kv, gatehouse_meta TO " + role, url: guest,
			want: []string{"may not write to its tables", "GRANT"},
		},
		"another encoding": {make: " ENCODING 'SQL_ASCII' TEMPLATE template0", want: []string{"SQL_ASCII", "--encoding=UTF8"}},
		"read-only":        {setup: "ALTER DATABASE %s SET default_transaction_read_only = on", want: []string{"read-only", "primary"}},
		"a newer version": {
			setup: tables + "UPDATE gatehouse_meta SET value = '2' WHERE name = 'format'",
			want:  []string{"newer version", "format 2"},
		},
		"another cluster":  {setup: tables, opt: pgstore.Options{Cluster: "test"}, want: []string{`"gatehouse"`, `"test"`, "correct the URL"}},
		"somebody's table": {setup: "CREATE TABLE gatehouse_kv (id int)", want: []string{"another application", "schema"}},
		"one more column":  {setup: tables + "ALTER TABLE gatehouse_kv ADD more int", want: []string{"another application"}},
		"one column fewer": {setup: tables + "ALTER TABLE gatehouse_kv DROP x", want: []string{"another application"}},
		"half of it":       {setup: "CREATE TABLE gatehouse_meta (name text PRIMARY KEY, value text NOT NULL)", want: []string{"missing"}},
		"facts of nobody":  {setup: tables + "DELETE FROM gatehouse_meta", want: []string{"does not say what it is"}},
		"no schema":        {setup: "DROP SCHEMA public", want: []string{"no schema", "name another one with `schema`"}},
		"no primary key":   {setup: tables + "ALTER TABLE gatehouse_kv DROP CONSTRAINT gatehouse_kv_pkey", want: []string{"primary key"}},
		"TLS is missing": {url: func(db string) string {
			return pgtest.URLAt(plain.Address(), pgtest.User, pgtest.Password, db, "sslmode=require")
		}, want: []string{"TLS", "ssl = on", "sslmode=disable"}},
		"a misspelt option": {url: func(db string) string { return server.URL(db, "sslmod=disable") }, want: []string{"option", "sslmod"}},
		"an unknown mode": {
			url:  func(db string) string { return server.URL(db, "sslmode=always") },
			want: []string{"cannot be read", "sslmode"},
		},
		"another protocol": {
			url:  func(db string) string { return strings.Replace(server.URL(db), "postgres://", "mysql://", 1) },
			want: []string{"cannot be read", "form postgres://"},
		},
		"a misspelt scheme": {
			url:  func(db string) string { return strings.Replace(server.URL(db), "postgres://", "postgress://", 1) },
			want: []string{"cannot be read", "form postgres://"},
		},
		"no URL": {url: func(string) string { return "" }, want: []string{"there is no URL"}},
		"no port": {
			url:  func(db string) string { return "postgres://gatehouse:p@ss/word@host:5432/" + db },
			want: []string{"cannot be read", "%40"},
		},
		"durability off": {opt: pgstore.Options{Durability: "off"}, want: []string{"durability", "on or local"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := role + "_" + strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(name, "'", "")), " ", "_")
			db = strings.ReplaceAll(db, "-", "_")
			server.Exec(t, "postgres", "CREATE DATABASE "+db+tc.make)
			if tc.setup != "" {
				server.Exec(t, db, strings.ReplaceAll(tc.setup, "%s", db))
			}
			before := server.Dump(t, db)
			url := server.URL(db)
			if tc.url != nil {
				url = tc.url(db)
			}
			o := tc.opt
			o.URL = url
			s, err := pgstore.Open(t.Context(), o)
			if err == nil {
				_ = s.Close()
				t.Fatal("Open = nil, want a refusal")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Open = %v, want %q in it", err, want)
				}
			}
			for _, secret := range []string{pgtest.Password, "p%40ss", "ss/word", "gu@est", "wr@ng", "ss%2F"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("Open = %v, which tells the password", err)
				}
			}
			if after := server.Dump(t, db); !slices.Equal(before, after) {
				t.Errorf("the database has %q now, and had %q", after, before)
			}
		})
	}
}

// closedAddress is an address where nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
