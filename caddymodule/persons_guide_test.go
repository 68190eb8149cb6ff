package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestPersonsGuide runs what docs/persons.md shows.
func TestPersonsGuide(t *testing.T) {
	raw, err := os.ReadFile("../docs/persons.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		examples[m[1]] = append(examples[m[1]], m[2])
	}
	for _, c := range examples["caddyfile"] {
		if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(c), map[string]any{"filename": "Caddyfile"}); err != nil {
			t.Errorf("Adapt: %v in\n%s", err, c)
		}
	}
	p := servertest.NewProvisioning(t)
	for i, path := range []string{"/Users", "/Groups"} {
		made(p, path, strings.Replace(examples["json"][i], `"staff"`, `"guests"`, 1)) // staff is there: demo is in it
	}
	if status, o := p.SCIM(http.MethodGet, `/Users?filter=userName%20eq%20"bjensen@example.com"`, ""); status != http.StatusOK ||
		o["totalResults"] != 1.0 {
		t.Errorf("GET = %d %v, want one person", status, o)
	}
	dir := t.TempDir()
	for kind, want := range map[string]string{"csv": "2 people: 2 created", "jsonl": "2 people: 2 created"} {
		file := filepath.Join(dir, "people."+kind)
		servertest.WriteFile(t, file, examples[kind][0], 0o600)
		if out := p.Run("", "import", file); !strings.Contains(out, want) {
			t.Errorf("import of %s = %s, want %s", kind, out, want)
		}
	}
	p.Token("legacy", p.Password("anna@example.com", "secret"))
}

// TestTokenOfADirectory: the client of the guide gets a token that a directory can send for months, which opens SCIM
// and nothing else, and ends when it is revoked.
func TestTokenOfADirectory(t *testing.T) {
	raw, err := os.ReadFile("../docs/persons.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(raw), "### A token for the directory")
	block := regexp.MustCompile(`(?s)\t\tclient directory \{\n.*?\n\t\t\}\n`).FindString(chapter)
	s := servertest.Configured(t, strings.Replace(block, "{env.DIRECTORY_SECRET}", servertest.TestSecret, 1))
	s.MustLoad()
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials&scope=scim"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("directory", servertest.TestSecret)
	_, body := s.Do(r) //nolint:bodyclose // it is read and closed
	var token struct {
		Access  string `json:"access_token"`
		Expires int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(body), &token); err != nil || token.Expires < 180*24*60*60 {
		t.Fatalf("token = %s, want one for half a year at least", body)
	}
	want := func(path string, status int) {
		t.Helper()
		r := s.Request(http.MethodGet, s.Issuer()+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token.Access)
		if resp, body := s.Do(r); resp.StatusCode != status { //nolint:bodyclose // it is read and closed
			t.Errorf("GET %s = %d %s, want %d", path, resp.StatusCode, body, status)
		}
	}
	want("/scim/v2/Users?count=1", http.StatusOK)
	want("/scim/v2/ServiceProviderConfig", http.StatusOK)
	want("/api/v2/config", http.StatusUnauthorized)
	want("/oauth/userinfo", http.StatusForbidden)
	s.Run("", "client", "revoke", "directory")
	want("/scim/v2/Users?count=1", http.StatusUnauthorized)
}
