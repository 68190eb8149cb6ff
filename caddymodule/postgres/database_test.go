package postgres_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestDatabase: servers whose records are in a PostgreSQL database.
func TestDatabase(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, db *pgtest.Server){
		"what was revoked after a backup stays revoked": restoredTokensStayRevoked,
		"lost writes are not served":                    lostWritesAreNotServed,
		"a strange database is refused":                 strangeDatabaseIsRefused,
		"requests take few round trips":                 requestsTakeFewTrips,
		"the events of two nodes are verified":          eventsOfTwoNodesAreVerified,
		"a proof counts once at two nodes":              aProofCountsOnce,
		"a device proves itself once at two nodes":      aDeviceProvesItselfOnce,
		"two nodes share a limit":                       twoNodesShareALimit,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// useSchema makes a server keep its records in a schema of the database, and writes its configuration to a file.
func useSchema(s *servertest.Server, db *pgtest.Server, schema string) (config string) {
	s.T.Helper()
	s.Storage = fmt.Sprintf("storage postgres %s {\n schema %s\n pool 4\n}", db.URL(pgtest.Database), schema)
	s.Key = "encryption_key " + servertest.TestKey
	config = filepath.Join(s.T.TempDir(), "caddy.json")
	servertest.WriteFile(s.T, config, string(s.JSON()), 0o600)
	return config
}

func revoke(s *servertest.Server, token string) {
	s.T.Helper()
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/revoke", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	if resp, body := s.Do(r); resp.StatusCode != http.StatusOK {
		s.T.Fatalf("revoke: status = %d, %s", resp.StatusCode, body)
	}
}

// wants fails unless the API answers so with a token.
func wants(s *servertest.Server, status int, what, token string) {
	s.T.Helper()
	if got := s.Enters(token); got != status {
		s.T.Errorf("%s: status = %d, want %d", what, got, status)
	}
}

// restoredTokensStayRevoked: what was revoked after a backup is not valid again in the database that it is restored
// into, nor is anything else of the backup.
func restoredTokensStayRevoked(t *testing.T, db *pgtest.Server) {
	s := servertest.NewServer(t)
	config := useSchema(s, db, "served_before")
	s.MustLoad()
	revoked, other := s.Token(), s.Token()
	file := filepath.Join(t.TempDir(), "backup")
	s.Run("", "backup", file)
	revoke(s, revoked)
	wants(s, http.StatusUnauthorized, "a revoked token", revoked)
	wants(s, http.StatusOK, "another token", other)
	if out, err := servertest.Run(t, "", "restore", file, "--config", config); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore into the database in use = %s, %v", out, err)
	}
	s.Stop()

	config = useSchema(s, db, "served_after")
	out, err := servertest.Run(t, "", "restore", file, "--config", config)
	if err != nil || !strings.Contains(out, "Older tokens and sessions are ended") {
		t.Fatalf("restore = %s, %v", out, err)
	}
	s.MustLoad()
	wants(s, http.StatusUnauthorized, "a token that was revoked after the backup", revoked)
	wants(s, http.StatusUnauthorized, "another token of the backup", other)
	wants(s, http.StatusOK, "a token from after the restore", s.Token())
	if out := s.Run("", "events", "verify"); !strings.HasSuffix(out, "sound\n") {
		t.Errorf("events verify = %s", out)
	}
}

// lostWritesAreNotServed: after a failover to a database without the last writes, no one is let in by what is left,
// every answer is 503, and the operator is told what to do; after that what was valid is not.
func lostWritesAreNotServed(t *testing.T, db *pgtest.Server) {
	const q = "served_lost."
	s := servertest.NewServer(t)
	config := useSchema(s, db, "served_lost")
	s.MustLoad()
	token := s.Token()
	wants(s, http.StatusOK, "a token", token)
	if out, err := servertest.Run(t, "", "accept-loss", "--config", config); err == nil || !strings.Contains(err.Error(), "has lost nothing") {
		t.Errorf("accept-loss where nothing is lost = %s, %v", out, err)
	}
	db.Exec(t, pgtest.Database, "CREATE TABLE "+q+"old_kv AS TABLE "+q+"gatehouse_kv; CREATE TABLE "+q+"old_meta AS TABLE "+q+"gatehouse_meta")
	revoke(s, token)
	wants(s, http.StatusUnauthorized, "a revoked token", token)
	db.Exec(t, pgtest.Database, "BEGIN; DELETE FROM "+q+"gatehouse_kv; DELETE FROM "+q+"gatehouse_meta;"+
		"INSERT INTO "+q+"gatehouse_kv TABLE "+q+"old_kv; INSERT INTO "+q+"gatehouse_meta TABLE "+q+"old_meta; COMMIT;"+
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'gatehouse'")

	wants(s, http.StatusServiceUnavailable, "a token whose revocation was lost", token)
	if resp, body := s.Get("/healthz"); resp.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "acknowledged writes were lost: see caddy gatehouse accept-loss") {
		t.Errorf("healthz = %d %s", resp.StatusCode, body)
	}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	if resp, body := s.Do(r); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new token: status = %d with Retry-After %q, %s, want 503", resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
	if out := s.Run("", "nodes"); !strings.Contains(out, "WRONG") || !strings.Contains(out, "transactions of one server that were answered") {
		t.Errorf("nodes = %s", out)
	}
	s.Stop()
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "run `caddy gatehouse accept-loss`") {
		t.Errorf("a start without the last writes = %v", err)
	}
	s.Stop()

	out, err := servertest.Run(t, "", "accept-loss", "--config", config)
	if err != nil || !strings.Contains(out, "Older tokens and sessions are ended") {
		t.Fatalf("accept-loss = %s, %v", out, err)
	}
	s.MustLoad()
	wants(s, http.StatusUnauthorized, "a token whose revocation was lost", token)
	wants(s, http.StatusOK, "a token of now", s.Token())
	if out := s.Run("", "events", "list", "--type", "storage"); !strings.Contains(out, "Storage Loss Accepted") {
		t.Errorf("events list = %s", out)
	}
}

// strangeDatabaseIsRefused: a server does not start on a database that is not its own, says why and what to do, and
// writes nothing.
func strangeDatabaseIsRefused(t *testing.T, db *pgtest.Server) {
	for name, tc := range map[string]struct {
		setup string    // after the tables of an empty store
		more  string    // lines of the storage
		typo  [2]string // in the URL
		want  []string
	}{
		"a misspelt option": {typo: [2]string{"sslmode=", "sslmod="}, want: []string{"option", "sslmod", "check how it is written"}},
		"an unknown mode": {
			typo: [2]string{"sslmode=disable", "sslmode=off"},
			want: []string{"cannot be read", "sslmode", "postgres://USER"},
		},
		"another protocol":        {typo: [2]string{"postgres://", "mysql://"}, want: []string{"cannot be read", "postgres://USER"}},
		"another user":            {typo: [2]string{"gatehouse:", "gatehose:"}, want: []string{"refuses user or password"}},
		"no such database":        {typo: [2]string{"/gatehouse?", "/gatehose?"}, want: []string{"no such database", "createdb"}},
		"an unknown host":         {typo: [2]string{"127.0.0.1", "db.invalid"}, want: []string{"db.invalid", "check its name"}},
		"a port without a server": {typo: [2]string{db.Address(), "127.0.0.1:1"}, want: []string{"does not answer", "is it running"}},
		"newer tables": {
			setup: "UPDATE gatehouse_meta SET value = '9' WHERE name = 'format'",
			want:  []string{"newer version of Gatehouse (format 9", "start that version"},
		},
		"newer records": {want: []string{"its records have format 9, this version reads", "use that version"}},
		"another cluster": {
			more: "cluster test",
			want: []string{`that of the cluster "gatehouse", this node is of "test"`, "correct the URL"},
		},
		"foreign tables": {
			setup: "ALTER TABLE gatehouse_kv ADD more int",
			want:  []string{"tables of another application", "use another database"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema := "strange_" + strings.ReplaceAll(name, " ", "_")
			s := servertest.NewServer(t)
			useSchema(s, db, schema)
			s.Storage = strings.TrimSuffix(s.Storage, "}") + " " + tc.more + "\n}"
			if tc.typo[0] != "" {
				if !strings.Contains(s.Storage, tc.typo[0]) {
					t.Fatalf("%s has no %s", s.Storage, tc.typo[0])
				}
				s.Storage = strings.Replace(s.Storage, tc.typo[0], tc.typo[1], 1)
			}
			other := openSchema(t, db, schema)
			if name == "newer records" {
				err := other.Update(t.Context(), func(tx storage.Tx) error {
					return tx.Put([]byte("cluster_identity/store"), servertest.Encode(t, map[int]any{1: "0123", 2: nil, 3: 9, 99: "unknown"}), time.Time{})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			db.Exec(t, pgtest.Database, "SET search_path = "+schema+"; "+tc.setup)
			before := db.Dump(t, pgtest.Database)
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.Caddyfile()), map[string]any{"filename": "Caddyfile"})
			if err == nil {
				err = s.Load()
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("load = %v, want %q", err, want)
				}
			}
			if err != nil && (strings.Contains(err.Error(), pgtest.Password) || strings.Contains(err.Error(), "ss%2Fword")) {
				t.Errorf("load = %v, which tells the password", err)
			}
			if after := db.Dump(t, pgtest.Database); !slices.Equal(before, after) {
				t.Error("the server that was refused has written something")
			}
			s.Stop()
		})
	}
}

func openSchema(t *testing.T, db *pgtest.Server, schema string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), pgstore.Options{URL: db.URL(pgtest.Database), Schema: schema, Pool: 2, SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// twoNodesShareALimit: a caller that comes to one of two nodes alone gets more than that node's half of the limit,
// since nodes lease to each other by the database. Both together never let more pass than the limit and a slice.
func twoNodesShareALimit(t *testing.T, db *pgtest.Server) {
	r, err := limit.ParseRate("1000/s")
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := limit.NewBucket(r, 100)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*limit.Counters
	for range 2 {
		c := limit.NewCounters(openSchema(t, db, "limits_of_two"), time.Now, zap.NewNop())
		c.Quotas.Nodes = func() int { return 2 }
		go c.Run(t.Context())
		nodes = append(nodes, c)
	}
	began, passed, best := time.Now(), 0, 0
	for window := 0; best <= 600; window++ {
		from, here := time.Now(), 0
		for now := from; now.Sub(from) < time.Second; now = time.Now() {
			for i, c := range nodes {
				if (i == 0 || window < 2) && c.Take(false, limit.Key{Rule: 1, Name: "shop"}, bucket, now).OK { // later one node alone
					passed++
					here++
				}
			}
		}
		if most := 100 + int(time.Since(began).Seconds()*1000) + 50 + 1000 + 2; passed > most {
			t.Fatalf("%d passed, want at most %d", passed, most)
		}
		if window >= 2 {
			best = max(best, here)
		}
		if window == 60 {
			t.Fatalf("one node alone let at most %d pass in a second, want more than its half of 1000", best)
		}
	}
}

// eventsOfTwoNodesAreVerified: what two nodes append at the same time is in one list, and in a chain for each of them,
// in which it is found when an event was removed or changed, or two have changed places.
func eventsOfTwoNodesAreVerified(t *testing.T, db *pgtest.Server) {
	s := servertest.NewServer(t)
	useSchema(s, db, "events_of_two")
	s.MustLoad()
	other := openSchema(t, db, "events_of_two")
	node, err := cluster.Join(t.Context(), other, cluster.Options{Host: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	rec := &audit.Recorder{Now: time.Now, Random: rand.Reader, Lane: node.Lane}
	var both sync.WaitGroup
	both.Go(func() {
		for range 10 {
			e, err := rec.New(audit.Type{Type: "test.OtherNodeEvent", Name: "Other Node"}, audit.Self)
			if err == nil {
				err = other.Update(t.Context(), func(tx storage.Tx) error { return rec.Append(tx, e) })
			}
			if err != nil {
				t.Errorf("an event of the other node: %v", err)
			}
		}
	})
	for i := range 10 {
		s.Run("a password of somebody\n", "person", "add", fmt.Sprintf("person%d", i))
	}
	both.Wait()
	servertest.Eventually(t, "all events are sealed", func() bool {
		out := s.Run("", "events", "verify")
		return strings.HasSuffix(out, "sound\n") && !strings.Contains(out, "not sealed")
	})
	if out := s.Run("", "events", "verify"); !strings.Contains(out, "default/node2: 10 events in ") ||
		!strings.Contains(out, "written by  elsewhere") {
		t.Errorf("events verify = %s, want the chain of the other node and who writes it", out)
	}
	listed := s.Run("", "events", "list", "--limit", "1000")
	if strings.Count(listed, "Other Node") != 10 || strings.Count(listed, "Person Created") < 10 {
		t.Errorf("events list = %s, want the events of both", listed)
	}

	var keys, values [][]byte
	err = other.View(t.Context(), func(tx storage.Tx) error {
		keys, values = nil, nil
		for r, err := range tx.Scan(storage.Range{Prefix: []byte("event_log/")}) {
			if err != nil {
				return err
			}
			if bytes.Contains(r.Key, []byte("kept")) {
				keys, values = append(keys, r.Key), append(values, r.Value)
			}
		}
		return nil
	})
	if err != nil || len(keys) < 20 {
		t.Fatalf("%d events, %v", len(keys), err)
	}
	write := func(at int, value []byte) {
		t.Helper()
		err := other.Update(t.Context(), func(tx storage.Tx) error {
			if value == nil {
				return tx.Delete(keys[at])
			}
			return tx.Put(keys[at], value, time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wrong := func(what string) {
		t.Helper()
		if out, err := servertest.Run(t, "", "events", "verify", "--address", s.Admin); err == nil || !strings.Contains(out, "WRONG") {
			t.Errorf("events verify after %s = %s, %v, want that it is found", what, out, err)
		}
	}
	ofOther := func(v []byte) bool { return bytes.Contains(v, []byte("test.OtherNodeEvent")) }
	for whose, at := range map[string]int{
		"the other node": slices.IndexFunc(values, ofOther),
		"the server":     slices.IndexFunc(values, func(v []byte) bool { return bytes.Contains(v, []byte("PersonCreatedEvent")) }),
	} {
		if at < 0 || at+1 == len(keys) {
			t.Fatal(errors.New("there is no event of " + whose))
		}
		write(at, nil)
		wrong("an event of " + whose + " was removed")
		changed := slices.Clone(values[at])
		changed[bytes.Index(changed, []byte("127.0.0.1"))] = '2'
		write(at, changed)
		wrong("an event of " + whose + " was changed")
		write(at, values[at+1])
		write(at+1, values[at])
		wrong("an event of " + whose + " has changed places with the next one")
		write(at, values[at])
		write(at+1, values[at+1])
	}
	if out := s.Run("", "events", "verify"); !strings.HasSuffix(out, "sound\n") {
		t.Errorf("events verify with all as it was = %s", out)
	}
}
