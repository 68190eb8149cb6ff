package caddymodule_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestDatabase: servers whose records are in a PostgreSQL database.
func TestDatabase(t *testing.T) {
	db, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Stop)
	for name, test := range map[string]func(t *testing.T, db *pgtest.Server){
		"what was revoked after a backup stays revoked": restoredTokensStayRevoked,
		"lost writes are not served":                    lostWritesAreNotServed,
	} {
		t.Run(name, func(t *testing.T) { test(t, db) })
	}
}

// useSchema makes a server keep its records in a schema of the database, and writes its configuration to a file.
func (s *server) useSchema(db *pgtest.Server, schema string) (config string) {
	s.t.Helper()
	s.storage = fmt.Sprintf("storage postgres %s {\n schema %s\n pool 4\n}", db.URL(pgtest.Database), schema)
	s.key = "encryption_key " + testKey
	config = filepath.Join(s.t.TempDir(), "caddy.json")
	writeFile(s.t, config, string(s.json()), 0o600)
	return config
}

func (s *server) revoke(token string) {
	s.t.Helper()
	r := s.request(http.MethodPost, s.issuer()+"/oauth/revoke", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", testSecret)
	if resp, body := s.do(r); resp.StatusCode != http.StatusOK {
		s.t.Fatalf("revoke: status = %d, %s", resp.StatusCode, body)
	}
}

// wants fails unless the API answers so with a token.
func (s *server) wants(status int, what, token string) {
	s.t.Helper()
	if got := s.enters(token); got != status {
		s.t.Errorf("%s: status = %d, want %d", what, got, status)
	}
}

// restoredTokensStayRevoked: what was revoked after a backup is not valid again in the database that it is restored
// into, nor is anything else of the backup.
func restoredTokensStayRevoked(t *testing.T, db *pgtest.Server) {
	s := newServer(t)
	config := s.useSchema(db, "served_before")
	s.mustLoad()
	revoked, other := s.token(), s.token()
	file := filepath.Join(t.TempDir(), "backup")
	s.run("", "backup", file)
	s.revoke(revoked)
	s.wants(http.StatusUnauthorized, "a revoked token", revoked)
	s.wants(http.StatusOK, "another token", other)
	if out, err := run(t, "", "restore", file, "--config", config); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore into the database in use = %s, %v", out, err)
	}
	s.stop()

	config = s.useSchema(db, "served_after")
	out, err := run(t, "", "restore", file, "--config", config)
	if err != nil || !strings.Contains(out, "Older tokens and sessions are ended") {
		t.Fatalf("restore = %s, %v", out, err)
	}
	s.mustLoad()
	s.wants(http.StatusUnauthorized, "a token that was revoked after the backup", revoked)
	s.wants(http.StatusUnauthorized, "another token of the backup", other)
	s.wants(http.StatusOK, "a token from after the restore", s.token())
	if out := s.run("", "events", "verify"); !strings.HasSuffix(out, "sound\n") {
		t.Errorf("events verify = %s", out)
	}
}

// lostWritesAreNotServed: after a failover to a database without the last writes, nobody is let in by what is left,
// every answer is 503, and the operator is told what to do; after that what was valid is not.
func lostWritesAreNotServed(t *testing.T, db *pgtest.Server) {
	const q = "served_lost."
	s := newServer(t)
	config := s.useSchema(db, "served_lost")
	s.mustLoad()
	token := s.token()
	s.wants(http.StatusOK, "a token", token)
	if out, err := run(t, "", "accept-loss", "--config", config); err == nil || !strings.Contains(err.Error(), "has lost nothing") {
		t.Errorf("accept-loss where nothing is lost = %s, %v", out, err)
	}
	db.Exec(t, pgtest.Database, "CREATE TABLE "+q+"old_kv AS TABLE "+q+"gatehouse_kv; CREATE TABLE "+q+"old_meta AS TABLE "+q+"gatehouse_meta")
	s.revoke(token)
	s.wants(http.StatusUnauthorized, "a revoked token", token)
	db.Exec(t, pgtest.Database, "BEGIN; DELETE FROM "+q+"gatehouse_kv; DELETE FROM "+q+"gatehouse_meta;"+
		"INSERT INTO "+q+"gatehouse_kv TABLE "+q+"old_kv; INSERT INTO "+q+"gatehouse_meta TABLE "+q+"old_meta; COMMIT;"+
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'gatehouse'")

	s.wants(http.StatusServiceUnavailable, "a token whose revocation was lost", token)
	if resp, body := s.get("/healthz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "it has lost what was answered: see caddy gatehouse accept-loss") {
		t.Errorf("healthz = %d %s", resp.StatusCode, body)
	}
	r := s.request(http.MethodPost, s.issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", testSecret)
	if resp, body := s.do(r); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new token: status = %d with Retry-After %q, %s, want 503", resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
	if out := s.run("", "nodes"); !strings.Contains(out, "WRONG") || !strings.Contains(out, "transactions of one server that were answered") {
		t.Errorf("nodes = %s", out)
	}
	s.stop()
	if err := s.load(); err == nil || !strings.Contains(err.Error(), "run `caddy gatehouse accept-loss`") {
		t.Errorf("a start without the last writes = %v", err)
	}
	s.stop()

	out, err := run(t, "", "accept-loss", "--config", config)
	if err != nil || !strings.Contains(out, "Older tokens and sessions are ended") {
		t.Fatalf("accept-loss = %s, %v", out, err)
	}
	s.mustLoad()
	s.wants(http.StatusUnauthorized, "a token whose revocation was lost", token)
	s.wants(http.StatusOK, "a token of now", s.token())
	if out := s.run("", "events", "list", "--type", "storage"); !strings.Contains(out, "Storage Loss Accepted") {
		t.Errorf("events list = %s", out)
	}
}
