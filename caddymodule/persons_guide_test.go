package caddymodule_test

import (
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
	for kind, want := range map[string]string{"csv": "2 persons: 2 created", "jsonl": "2 persons: 2 created"} {
		file := filepath.Join(dir, "people."+kind)
		servertest.WriteFile(t, file, examples[kind][0], 0o600)
		if out := p.Run("", "import", file); !strings.Contains(out, want) {
			t.Errorf("import of %s = %s, want %s", kind, out, want)
		}
	}
	p.Token("legacy", p.Password("anna@example.com", "secret"))
}
