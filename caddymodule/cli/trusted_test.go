package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser/trustedtest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestUntrustCommand: the commands show the trusted browsers of a person, and end the trust in one or in all. An empty
// argument does not mean all.
func TestUntrustCommand(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Run("another password 1\n", "person", "add", "anna@example.com")
	type details struct {
		ID              string
		TrustedBrowsers []trustedbrowser.Info `json:"trusted_browsers"`
	}
	shown := func(who string) details {
		return servertest.Decode[details](t, s.Run("", "person", "show", who, "--json"))
	}
	demo, anna := shown("demo@example.com").ID, shown("anna@example.com").ID
	s.Stop()
	inStore(s, func(tx storage.Tx) error {
		for of, ids := range map[string][]string{demo: {"first", "second", "third"}, anna: {"annas"}} {
			for _, id := range ids {
				if err := trustedtest.Trust(tx, of, id, time.Now().UTC()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s.MustLoad()
	if n := len(shown("demo@example.com").TrustedBrowsers); n != 3 {
		t.Fatalf("%d trusted browsers are shown, want 3", n)
	}
	text := s.Run("", "person", "show", "demo@example.com")
	if !strings.Contains(text, "3 trusted browsers") || !strings.Contains(text, "192.0.2.77") ||
		strings.Contains(text, secret.Hash(trustedtest.Secret)) {
		t.Errorf("person show = %s", text)
	}
	if out := s.Run("", "person", "untrust", "demo@example.com", "second"); out != "browser second is no longer trusted\n" {
		t.Errorf("person untrust = %q", out)
	}
	s.Refused("no trusted browser second", "", "person", "untrust", "demo@example.com", "second")
	s.Refused("no trusted browser annas", "", "person", "untrust", "demo@example.com", "annas") // attack 887
	s.Refused("no person nobody", "", "person", "untrust", "nobody", "--all")
	for _, arguments := range [][]string{{}, {""}, {"first", "--all"}, {"", "--all"}} {
		s.Refused("--all", "", append([]string{"person", "untrust", "demo@example.com"}, arguments...)...)
		s.Refused("--all", "", append([]string{"person", "revoke-app-password", "demo@example.com"}, arguments...)...)
	}
	if n := len(shown("demo@example.com").TrustedBrowsers); n != 2 {
		t.Errorf("%d trusted browsers, want 2", n)
	}
	s.Run("", "person", "untrust", "demo@example.com", "--all")
	if demo, anna := shown("demo@example.com").TrustedBrowsers, shown("anna@example.com").TrustedBrowsers; len(demo) != 0 || len(anna) != 1 {
		t.Errorf("trusted are %+v and %+v, want only that of anna", demo, anna)
	}
	if out := s.Run("", "events", "list", "--type", "login.BrowserTrustEnded", "--since", "today"); !strings.HasSuffix(out, "\n2 events\n") {
		t.Errorf("events list = %s, want two", out)
	}
}

// inStore changes the store of a server that has stopped.
func inStore(s *servertest.Server, fn func(storage.Tx) error) {
	s.T.Helper()
	store, err := badgerstore.Open(s.T.Context(), badgerstore.Options{Dir: filepath.Join(s.Dir, "store")})
	if err != nil {
		s.T.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // what it has written is read again
	if err := store.Update(s.T.Context(), fn); err != nil {
		s.T.Fatal(err)
	}
}
