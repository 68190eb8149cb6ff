package caddymodule_test

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/servertest"
)

// The secret that "client add" of the earlier version gave the client shop.
const secretOfBefore = "jQTP5nc_afVMD7xIzIyYpiRjSv4kJC6ez_hotV0Ev90" //nolint:gosec // of a client in a test

// ofBefore names a file of an earlier version; internal/compat says how it was made.
func ofBefore(name string) string {
	return filepath.Join("..", "internal", "compat", "testdata", name)
}

// TestServerOfBefore: a server starts on a store that the binary of an earlier version has written, and everything in
// it still works.
func TestServerOfBefore(t *testing.T) {
	s := servertest.Configured(t, "")
	s.Key = "encryption_key " + servertest.TestKey
	config := filepath.Join(s.Dir, "caddy.json")
	servertest.WriteFile(t, config, string(s.JSON()), 0o600)
	if out, err := servertest.Run(t, "", "restore", unpacked(t, ofBefore("server.backup.gz")), "--config", config); err != nil {
		t.Fatalf("restore = %s, %v", out, err)
	}
	s.MustLoad()

	t.Run("persons sign in", func(t *testing.T) {
		for username, password := range map[string]string{
			"demo@example.com": servertest.TestPassword, // of the Caddyfile
			"ann@example.com":  "The password of ann!",  // added by command
			"bob":              "The password of bob!",  // imported with a hash of another system
		} {
			if got := signsIn(t, s, username, password); got != "/account" {
				t.Errorf("%s comes to %s, want the account", username, got)
			}
		}
		if got := signsIn(t, s, "out@example.com", "The password of out!"); got == "/account" {
			t.Error("a blocked person signs in")
		}
		if got := signsIn(t, s, "ann@example.com", "a wrong password"); got == "/account" {
			t.Error("ann signs in with a wrong password")
		}
	})
	t.Run("groups and clients are there", func(t *testing.T) {
		for _, tc := range []struct{ command, want string }{
			{"person list", "out@example.com"},
			{"group list", "orders.audit"},
			{"client list", "shop"},
		} {
			if out := s.Run("", strings.Fields(tc.command)...); !strings.Contains(out, tc.want) {
				t.Errorf("%s = %s, want %q in it", tc.command, out, tc.want)
			}
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token",
			strings.NewReader(url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("shop", secretOfBefore)
		if resp, body := s.Do(r); resp.StatusCode != http.StatusOK {
			t.Errorf("a token for shop: %d %s", resp.StatusCode, body)
		}
	})
	t.Run("the events are sound", func(t *testing.T) {
		if out := s.Run("", "events", "verify"); !strings.HasSuffix(strings.TrimSpace(out), "sound") {
			t.Errorf("events verify = %s", out)
		}
	})
	t.Run("the settings are those of then", func(t *testing.T) {
		kept(t, "settings", settingsOfBefore(t), servertest.Decode[any](t, s.Run("", "config", "export")))
		if out := s.Run("", "config", "diff", ofBefore("settings.json")); strings.TrimSpace(out) != "0 members would change" {
			t.Errorf("config diff = %s", out)
		}
	})
}

// TestSettingsOfBefore: what "config export" of an earlier version has written is imported by a new server, and
// exported the same.
func TestSettingsOfBefore(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	s.Run("", "config", "import", ofBefore("settings.json"))
	kept(t, "settings", settingsOfBefore(t), servertest.Decode[any](t, s.Run("", "config", "export")))
}

func settingsOfBefore(t *testing.T) any {
	t.Helper()
	raw, err := os.ReadFile(ofBefore("settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Decode[any](t, string(raw))
}

// kept fails for every member of was that is lost or has another value. Members of is may be new.
func kept(t *testing.T, path string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if _, ok := is[name]; !ok {
				t.Errorf("%s.%s is lost", path, name)
				continue
			}
			kept(t, path+"."+name, was[name], is[name])
		}
	case []any:
		is, _ := is.([]any)
		if len(is) != len(was) {
			t.Errorf("%s has %d elements, had %d", path, len(is), len(was))
			return
		}
		for i := range was {
			kept(t, path+"[]", was[i], is[i])
		}
	default:
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s is %v, was %v", path, is, was)
		}
	}
}

// signsIn tells where a browser comes to that signs in for the account page.
func signsIn(t *testing.T, s *servertest.Server, username, password string) string {
	t.Helper()
	b := servertest.NewBrowser(t)
	page, body := b.Open(s.Issuer() + "/account")
	page, _ = b.Submit(page, body, url.Values{"username": {username}, "password": {password}})
	return page.Request.URL.Path
}

// unpacked returns a file with what a compressed one holds.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "backup")
	servertest.WriteFile(t, out, string(raw), 0o600)
	return out
}
