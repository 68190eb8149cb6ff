package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestCheckNoticesLostRights: a server whose user may no longer read or write is not healthy.
func TestCheckNoticesLostRights(t *testing.T) {
	t.Parallel()
	role, schema := fmt.Sprintf("health%d", schemas.Add(1)), newSchema()
	server.Exec(t, pgtest.Database, "CREATE ROLE "+role+" LOGIN PASSWORD 'gu@est'; GRANT CREATE ON DATABASE "+pgtest.Database+" TO "+role)
	s, err := pgstore.Open(t.Context(), pgstore.Options{
		URL: pgtest.URLAt(server.Address(), role, "gu@est", pgtest.Database), Schema: schema, SweepEvery: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("Check = %v", err)
	}
	for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
		for _, table := range []string{"gatehouse_kv", "gatehouse_meta"} {
			on := fmt.Sprintf(" %s ON %q.%s ", right, schema, table)
			server.Exec(t, pgtest.Database, "REVOKE"+on+"FROM "+role)
			if err := s.Check(t.Context()); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "GRANT") {
				t.Errorf("Check without%s= %v, want %v and what to do", on, err, storage.ErrUnavailable)
			}
			server.Exec(t, pgtest.Database, "GRANT"+on+"TO "+role)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check with all rights again = %v", err)
	}
}

// TestTablesThatAreGone: a database without the tables is named as such, whatever asks for them.
func TestTablesThatAreGone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]string{
		"the schema was removed": `DROP SCHEMA "%s" CASCADE`,
		"the tables were":        `DROP TABLE "%[1]s".gatehouse_kv, "%[1]s".gatehouse_meta`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := newSchema()
			s, _ := member(t, schema)
			if err := put(s, "a"); err != nil {
				t.Fatal(err)
			}
			server.Exec(t, pgtest.Database, fmt.Sprintf(remove, schema))
			_, read := has(s, "a")
			for what, err := range map[string]error{"View": read, "Update": put(s, "b"), "Clock": clockOf(s), "Check": s.Check(t.Context())} {
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "no longer has the tables") ||
					strings.Contains(err.Error(), "SQLSTATE") {
					t.Errorf("%s = %v, want that the tables are gone", what, err)
				}
			}
		})
	}
}

// TestCheckNoticesFsyncOff: a database that no longer keeps what it answers is not healthy.
func TestCheckNoticesFsyncOff(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	proxy.Rows = func(row *pgproto3.DataRow) {
		if len(row.Values) == 3 && string(row.Values[1]) == "on" {
			row.Values[1] = []byte("off")
		}
	}
	s, err := pgstore.Open(t.Context(), pgstore.Options{
		URL: pgtest.URLAt(proxy.Address(), pgtest.User, pgtest.Password, pgtest.Database), Schema: newSchema(), SweepEvery: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "fsync = off") {
		t.Errorf("Check = %v, want %v for fsync", err, storage.ErrUnavailable)
	}
}
