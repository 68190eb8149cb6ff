// Package compat reads what earlier versions of Gatehouse have stored. A new version adds files of its own to testdata
// and keeps these. Those there are of commit bdd59f4.
//
// records.backup.gz is a backup of a store with records of every table:
//   - While the tests of authz, identity and internal/event ran, Table.Create and Table.Put wrote to a file each record
//     that set a member not seen before, with its key, stored bytes and expiry.
//   - Of these a small set was chosen that has every kind of event, every unit of the configuration and every member
//     that a test sets. Each test has its own store, so some keys were equal: events got other numbers, other records
//     " again" at the end of the key.
//   - NewTable added a record under the key "every member" to each table, with all members set by reflection.
//   - A program wrote them into a badgerstore with the clock at 2026-11-21 12:00 UTC, opened that again, and called
//     Backup.
//
// These records belong to many stores and are sealed by several keys, so they can only be read one by one.
//
// server.backup.gz and settings.json are what "gatehouse backup" and "gatehouse config export" of the built binary
// wrote. Its Caddyfile was that of the server in caddymodule's tests, with an encryption key and a site behind
// "protect { login }". It had imported settings of every kind with a key pair, added persons (with a password, imported
// with a salted SHA-1, blocked), a group and a client by command, and made an action token. A browser had signed in
// as ann with a wrong and then with the right password, had allowed the client everything, and had opened the site; the
// client had redeemed the code and the refresh token. caddymodule's TestServerOfBefore starts a server on it.
package compat

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	_ "github.com/gatehouse-id/gatehouse/authz"
	_ "github.com/gatehouse-id/gatehouse/caddymodule/alert"
	_ "github.com/gatehouse-id/gatehouse/caddymodule/backup"
	_ "github.com/gatehouse-id/gatehouse/caddymodule/manage"
	_ "github.com/gatehouse-id/gatehouse/identity/access"
	_ "github.com/gatehouse-id/gatehouse/identity/access/notice"
	_ "github.com/gatehouse-id/gatehouse/identity/account"
	_ "github.com/gatehouse-id/gatehouse/identity/actiontoken"
	_ "github.com/gatehouse-id/gatehouse/identity/api"
	_ "github.com/gatehouse-id/gatehouse/identity/config"
	_ "github.com/gatehouse-id/gatehouse/identity/enrol"
	_ "github.com/gatehouse-id/gatehouse/identity/federation"
	_ "github.com/gatehouse-id/gatehouse/identity/front"
	_ "github.com/gatehouse-id/gatehouse/identity/keypair"
	_ "github.com/gatehouse-id/gatehouse/identity/notify"
	_ "github.com/gatehouse-id/gatehouse/identity/person"
	_ "github.com/gatehouse-id/gatehouse/identity/proof"
	_ "github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	_ "github.com/gatehouse-id/gatehouse/identity/session"
	_ "github.com/gatehouse-id/gatehouse/identity/stepup"
	_ "github.com/gatehouse-id/gatehouse/internal/cluster"
	_ "github.com/gatehouse-id/gatehouse/internal/decision"
	_ "github.com/gatehouse-id/gatehouse/internal/event"
	_ "github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	_ "github.com/gatehouse-id/gatehouse/storage/transfer"
)

// newer are the tables that the version of the test data did not have, gone those that nothing has ever written to.
var (
	newer = []string{
		"authz_app_password", "authz_app_password_of", "authz_app_password_usage",
		"authz_client_alg", "authz_client_document", "authz_grants", "authz_logout_queue", "authz_parked_body", "authz_parked_form", "authz_posted", "authz_posted_logout", "authz_tally", "cluster_identity", "cluster_lane", "cluster_lease", "cluster_lease_end", "cluster_node", "decision_difference", "decision_difference_next", "decision_next", "decision_slot", "event_listing", "event_posting", "authz_device", "authz_device_begun", "authz_device_tries", "authz_device_user", "authz_device_visit", "authz_par", "authz_par_open", "authz_dpop", "authz_dpop_running", "authz_trusted_seen", "authz_client_registration",
		"authz_signal_delivery", "authz_signal_item", "authz_signal_leftover", "authz_signal_stream", "authz_signal_subject",
		"identity_access_request", "identity_configured", "identity_external_stable", "identity_group_step", "identity_handover", "identity_partition_group_name",
		"identity_block_end", "identity_sessions", "session_place", "session_place_step", "refusal_next", "refusal_slot", "storage_copy",
		"identity_phone_code", "identity_phone_code_key", "identity_trusted_browser",
		"alert", "alert_state", "backup_made", "backup_schedule", "backup_tested", "config_before", "config_last", "manage_import_file", "manage_import_report", "manage_import_slot", "manage_import_whom", "manage_chain_check", "manage_job", "manage_job_left", "manage_job_open",
		"identity_access_notice", "identity_wait",
		"identity_lookup", "identity_lookup_due", "identity_lookup_of", "identity_lookup_step", "identity_value", "tally", "tally_active", "tally_due", "tally_last",
		"identity_sp_answered", "identity_sp_farewell", "identity_sp_grant", "identity_sp_holder", "identity_sp_logout", "identity_sp_name", "identity_sp_request", "identity_sp_visit", "identity_sp_visitor",
	}
	gone = []string{"authz_api_client"}
)

// TestRecordsOfBefore: every record of the earlier version decodes as the record type that its table has now, and
// loses nothing when it is written again. A record type may gain members; it must not lose, rename or renumber one.
func TestRecordsOfBefore(t *testing.T) {
	t.Parallel()
	tables := map[string][]storage.TableInfo{}
	for _, table := range storage.Tables() {
		tables[table.Name] = append(tables[table.Name], table)
	}
	found := map[string]int{}
	for _, rec := range append(records(t, "records.backup.gz"), records(t, "server.backup.gz")...) {
		name, key, _ := strings.Cut(string(rec.Key), "/")
		found[name]++
		if slices.Contains(gone, name) && tables[name] == nil {
			continue
		}
		if tables[name] == nil {
			t.Errorf("table %s: unknown", name)
			continue
		}
		if err := readable(tables[name], rec.Value); err != nil {
			t.Errorf("table %s, key %q: %v", name, key, err)
		}
	}
	for name := range tables {
		if isNewer := slices.Contains(newer, name); isNewer == (found[name] > 0) {
			t.Errorf("table %s: %d records in the test data, listed as newer: %t", name, found[name], isNewer)
		}
	}
}

// TestEventsOfBefore: clients of the API and of webhooks know events by type and name, which stay as they were.
func TestEventsOfBefore(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, rec := range records(t, "records.backup.gz") {
		if !bytes.HasPrefix(rec.Key, []byte("event_log/")) {
			continue
		}
		var e struct {
			Type string `cbor:"t"`
			Name string `cbor:"n"`
		}
		if err := decoding.Unmarshal(rec.Value, &e); err != nil {
			t.Fatal(err)
		}
		types[e.Type] = e.Name
	}
	for kind, name := range types {
		invented := !strings.HasSuffix(kind, "Event") || strings.Contains(kind, "SomethingNew") // by a test
		if !invented && !strings.Contains(string(list), "| `"+kind+"` | "+name+" |") {
			t.Errorf("event %s, %s: docs/events.md does not list it", kind, name)
		}
	}
	if len(types) < 60 {
		t.Errorf("%d types of events in the test data, want those of every kind", len(types))
	}
}

// TestEveryTableIsChecked: the imports above name every package that has tables.
func TestEveryTableIsChecked(t *testing.T) {
	t.Parallel()
	var known []string
	for _, table := range storage.Tables() {
		known = append(known, table.Name)
	}
	call := regexp.MustCompile(`storage\.NewTable\[[^\n]*\]\("(\w+)"\)`)
	count := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		harness := strings.HasSuffix(d.Name(), "test")
		if d.IsDir() && path != "../.." && (harness || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllSubmatch(text, -1) {
			count++
			if !slices.Contains(known, string(m[1])) {
				t.Errorf("%s: table %s is not checked: import the package here", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < len(known) {
		t.Errorf("found %d tables in the files, %d are registered", count, len(known))
	}
}

// TestLossIsSeen: the comparison notices a member that is lost or has another value, and lets new ones pass.
func TestLossIsSeen(t *testing.T) {
	t.Parallel()
	type inner struct {
		A string `cbor:"1,keyasint,omitempty"`
	}
	type stored struct {
		Name  string            `cbor:"1,keyasint"`
		Many  []inner           `cbor:"2,keyasint"`
		Words map[string]string `cbor:"3,keyasint"`
	}
	was := stored{Name: "n", Many: []inner{{A: "a"}, {}}, Words: map[string]string{"x": "1", "y": "2"}}
	for name, tc := range map[string]struct {
		is   any
		lost bool
	}{
		"same": {is: was},
		"new members": {is: struct {
			stored
			New string `cbor:"4,keyasint"`
		}{stored: was}},
		"lost":        {is: map[int]any{1: was.Name, 2: was.Many}, lost: true},
		"renumbered":  {is: map[int]any{4: was.Name, 2: was.Many, 3: was.Words}, lost: true},
		"lost within": {is: stored{Name: "n", Many: []inner{{}, {}}, Words: was.Words}, lost: true},
		"shorter":     {is: stored{Name: "n", Many: was.Many[:1], Words: was.Words}, lost: true},
		"other value": {is: stored{Name: "m", Many: was.Many, Words: was.Words}, lost: true},
		"bytes":       {is: map[int]any{1: []byte("n"), 2: was.Many, 3: was.Words}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := cbor.Marshal(was)
			if err != nil {
				t.Fatal(err)
			}
			b, err := cbor.Marshal(tc.is)
			if err != nil {
				t.Fatal(err)
			}
			if err := keeps(a, b); (err != nil) != tc.lost {
				t.Errorf("keeps = %v, want an error: %t", err, tc.lost)
			}
		})
	}
}

// records returns the records of a backup, restored by the engine of now.
func records(t *testing.T, backupFile string) []storage.Record {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", backupFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	backup, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	o := badgerstore.Options{
		Dir: filepath.Join(t.TempDir(), "store"), SweepEvery: -1,
		Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
	}
	if err := badgerstore.Restore(t.Context(), o, backup, nil); err != nil {
		t.Fatal(err)
	}
	s, err := badgerstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var all []storage.Record
	err = s.View(t.Context(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			all = append(all, rec)
		}
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// readable tells whether every record type of a table reads a value, and one of them keeps all of it: another one may
// want less of the same record.
func readable(types []storage.TableInfo, raw []byte) error {
	var lost error
	kept := false
	for _, table := range types {
		again, err := table.Recode(raw)
		if err != nil {
			return err
		}
		err = keeps(raw, again)
		kept = kept || err == nil
		lost = errors.Join(lost, err)
	}
	if kept {
		return nil
	}
	return lost
}

var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode() // as in storage
	if err != nil {
		panic(err)
	}
	return mode
}()

// keeps returns an error unless again has everything that raw has, with the same values. The order of members is free:
// that of a Go map is random.
func keeps(raw, again []byte) error {
	if bytes.Equal(raw, again) {
		return nil
	}
	var was, is any
	if err := errors.Join(decoding.Unmarshal(raw, &was), decoding.Unmarshal(again, &is)); err != nil {
		return err
	}
	return within("record", was, is)
}

func within(path string, was, is any) error {
	switch was := was.(type) {
	case map[any]any:
		is, ok := is.(map[any]any)
		if !ok {
			return fmt.Errorf("%s: is %T now", path, is)
		}
		for k, v := range was {
			at := fmt.Sprintf("%s, member %v", path, k)
			now, ok := is[k]
			if !ok {
				return fmt.Errorf("%s: lost", at)
			}
			if err := within(at, v, now); err != nil {
				return err
			}
		}
		return nil
	case []any:
		is, ok := is.([]any)
		if !ok || len(is) != len(was) {
			return fmt.Errorf("%s: %d elements are %v now", path, len(was), is)
		}
		for i := range was {
			if err := within(fmt.Sprintf("%s, element %d", path, i), was[i], is[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(was, is) {
		return fmt.Errorf("%s: was %v, is %v now", path, was, is)
	}
	return nil
}
