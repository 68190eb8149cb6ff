package pgstore

import (
	"strings"
	"testing"
)

// TestServersThatCannotKeepAPromise are refused by what they say of themselves.
func TestServersThatCannotKeepAPromise(t *testing.T) {
	t.Parallel()
	good := server{version: "PostgreSQL 15.3", number: 150003, encoding: "UTF8", readOnly: "off", fsync: "on", pages: "on", postgres: true}
	if err := good.judge(); err != nil {
		t.Errorf("a good server: %v", err)
	}
	for name, tc := range map[string]struct {
		change func(*server)
		want   string
	}{
		"old":               {func(s *server) { s.version, s.number = "PostgreSQL 12.1", 120001 }, "13 or later"},
		"without fsync":     {func(s *server) { s.fsync = "off" }, "fsync = on"},
		"with torn pages":   {func(s *server) { s.pages = "off" }, "full_page_writes = on"},
		"a standby":         {func(s *server) { s.readOnly = "on" }, "name the primary"},
		"in another script": {func(s *server) { s.encoding = "LATIN1" }, "--encoding=UTF8"},
	} {
		s := good
		tc.change(&s)
		if err := s.judge(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	cockroach := server{version: "CockroachDB CCL v24.1.0", number: 130000, encoding: "UTF8", readOnly: "off"}
	if err := cockroach.judge(); err != nil {
		t.Errorf("a server without these settings: %v", err)
	}
}
