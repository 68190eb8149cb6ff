package pgstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestTLS: the URL says which database it must be, and a certificate of someone else is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	cert, err := os.ReadFile(server.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := "sslrootcert=" + authority
	byName := strings.Replace(server.Address(), "127.0.0.1", "localhost", 1)
	for name, tc := range map[string]struct{ url, want string }{
		"the host of its certificate": {server.URL(pgtest.Database, "sslmode=verify-full", trusted), ""},
		"another name": {
			pgtest.URLAt(byName, pgtest.User, pgtest.Password, pgtest.Database, "sslmode=verify-full", trusted),
			"for another name",
		},
		"an unknown authority": {server.URL(pgtest.Database, "sslmode=verify-full"), "sslrootcert=FILE"},
	} {
		s, err := pgstore.Open(t.Context(), pgstore.Options{URL: tc.url, Schema: newSchema(), SweepEvery: -1})
		if err == nil {
			_ = s.Close()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: Open = %v, want %q", name, err, tc.want)
		}
	}
}

// TestSeveralHosts: of the hosts of a URL the one is used that takes writes, whether the others are gone or read-only.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	standby := pgtest.NewProxy(t, server.Address())
	standby.Rows = func(row *pgproto3.DataRow) {
		if len(row.Values) == 1 && string(row.Values[0]) == "off" { // transaction_read_only
			row.Values[0] = []byte("on")
		}
	}
	for name, hosts := range map[string]string{
		"one is gone":      closedAddress(t) + "," + server.Address(),
		"one is read-only": standby.Address() + "," + server.Address(),
	} {
		s, err := pgstore.Open(t.Context(),
			pgstore.Options{URL: pgtest.URLAt(hosts, pgtest.User, pgtest.Password, pgtest.Database), Schema: newSchema(), SweepEvery: -1})
		if err != nil {
			t.Errorf("%s: Open = %v", name, err)
			continue
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("%s: Check = %v", name, err)
		}
		_ = s.Close()
	}
	both := closedAddress(t) + "," + standby.Address()
	_, err := pgstore.Open(t.Context(),
		pgstore.Options{URL: pgtest.URLAt(both, pgtest.User, pgtest.Password, pgtest.Database), Schema: newSchema()})
	if err == nil || !strings.Contains(err.Error(), "no host of the URL takes writes") {
		t.Errorf("without a primary: Open = %v, want that no host takes writes", err)
	}
}
