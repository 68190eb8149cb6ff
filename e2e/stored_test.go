package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var store = flag.Bool("store", false, "write the directory that later versions have to open, before a release")

// kept are the secrets of a stored directory, and its contents that a later version must find. They open nothing else.
type kept struct {
	Key, Password, ClientSecret, PersonID string
	Events                                int
}

const storedVersion = "testdata/stored-v0.1.0"

// TestStoredDirectory opens the directory that v0.1.0 has written: people sign in with their passwords, a client that
// was added by a command gets tokens, groups are there, and the chain of events is whole. Until the release -store
// writes the directory again where records change, and never after it.
func TestStoredDirectory(t *testing.T) {
	t.Parallel()
	if *store {
		t.Run("write", keepStored)
	}
	var was kept
	if err := json.Unmarshal([]byte(read(t, storedVersion+".json")), &was); err != nil {
		t.Fatal(err)
	}
	s := newStored(&was)
	s.place(t)
	unpackStored(t, filepath.Join(s.dir, "data"))
	s.serve()

	if got := must(t, s, "person", "show", "ada", "--json"); !strings.Contains(got, was.PersonID) || !strings.Contains(got, `"readers"`) {
		t.Errorf("ada is %s, want the id %s and the group readers", got, was.PersonID)
	}
	for _, name := range []string{"ada", person} {
		back := s.visit(t, name, was.Password).authorize(s.Issuer + "/oauth/authorize?" + url.Values{
			"response_type": {"code"}, "client_id": {"shop"}, "redirect_uri": {s.Callback}, "scope": {"openid profile"}, "state": {"x"},
		}.Encode())
		if back.values.Get("code") == "" {
			t.Errorf("%s comes back with %v", name, back.values)
		}
	}
	resp := s.form("/oauth/token", "job", was.ClientSecret, url.Values{"grant_type": {"client_credentials"}})
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the stored client gets %s", resp.Status)
	}
	must(t, s, "events", "verify")
	if n := strings.Count(must(t, s, "events", "list", "--json"), `"person.PersonCreatedEvent"`); n < was.Events {
		t.Errorf("%d people were made by the events, want at least %d", n, was.Events)
	}
}

// newStored returns a server that is not started, with the secrets of a stored directory.
func newStored(was *kept) *server {
	return &server{
		Callback: "http://127.0.0.1:1/callback", Echo: "127.0.0.1:1", Password: was.Password, Key: was.Key,
		ShopSecret: random(32), ReportsSecret: random(32), OpsSecret: random(32),
	}
}

// must runs a command of caddy gatehouse at the server.
func must(t *testing.T, s *server, args ...string) string {
	t.Helper()
	out, err := s.gatehouse("", append(append([]string{"gatehouse"}, args...), "--address", s.Admin)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// keepStored writes a directory of this version with some of everything.
func keepStored(t *testing.T) {
	t.Helper()
	was := kept{Key: base64.StdEncoding.EncodeToString([]byte(random(24))), Password: random(12), Events: 1}
	s := newStored(&was)
	s.place(t)
	t.Cleanup(func() { // after the server has ended
		if err := packStored(filepath.Join(s.dir, "data"), &was); err != nil {
			t.Error(err)
		}
	})
	s.serve()
	must(t, s, "group", "add", "readers")
	out, err := s.gatehouse(was.Password+"\n", "gatehouse", "person", "add", "ada", "--name", "Ada Berg", "--groups", "readers",
		"--address", s.Admin)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := regexp.MustCompile(`"id": ?"([0-9a-f-]{36})"`).FindStringSubmatch(must(t, s, "person", "show", "ada", "--json"))
	secret := regexp.MustCompile(`(?m)^secret (\S+)$`).FindStringSubmatch(
		must(t, s, "client", "add", "job", "--grants", "client_credentials", "--scopes", apiScope, "--default-scopes", apiScope))
	if id == nil || secret == nil {
		t.Fatal("the commands print no id or no secret")
	}
	was.PersonID, was.ClientSecret = id[1], secret[1]
	s.visit(t, "ada", was.Password).authorize(s.Issuer + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {"shop"}, "redirect_uri": {s.Callback}, "scope": {"openid profile"},
	}.Encode())
}

// packStored writes the directory of a server that has ended.
func packStored(dir string, was *kept) error {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close()); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(was, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(storedVersion+".tar.gz", packed.Bytes(), 0o600),
		os.WriteFile(storedVersion+".json", append(raw, '\n'), 0o600))
}

// unpackStored unpacks the stored directory.
func unpackStored(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(storedVersion + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name)) //nolint:gosec // of this repository
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, raw, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
