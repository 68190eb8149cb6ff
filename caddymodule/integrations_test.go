package caddymodule_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// loads checks that Caddy adapts and provisions a Caddyfile, with its records below a directory of the test.
func loads(t *testing.T, text string) {
	t.Helper()
	text = withEnvironment(text)
	if _, err := servertest.Adapt(t, text); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	// A database would have to be there. This storage has no place for a key file either.
	text = regexp.MustCompile(`storage postgres \S+`).ReplaceAllString(text, "storage memory keyless")
	text = strings.ReplaceAll(text, "/data/store", t.TempDir()+"/store")
	if err := servertest.ValidateCaddyfile(t, text); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// around is a Caddyfile for the blocks of an integration: clients are inside of the block gatehouse, sites next to it.
func around(block string) string {
	inside, sites := "", block
	if strings.HasPrefix(block, "client ") {
		inside, sites = block, ""
	}
	return "{\n\tgatehouse {\n\t\tissuer https://auth.example.com\n" + inside + "\t}\n}\n\nauth.example.com {\n\tgatehouse\n}\n\n" + sites
}

// TestIntegrations: each page of docs/integrations has the parts of the others, its source with a date, a line in
// docs/integrations.md that says the same, and a Caddyfile that loads; where `client add --for` knows the application,
// it makes the same client.
func TestIntegrations(t *testing.T) {
	files, err := filepath.Glob("../docs/integrations/*.md")
	if err != nil || len(files) < 25 {
		t.Fatalf("pages = %v, %v", files, err)
	}
	index, err := os.ReadFile("../docs/integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`\n\*(From|Tested with [^*\[]+; settings from) \[[^\]]+\]\(https://[^)]+\), \d{4}-\d\d-\d\d\.\*\n`)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(raw)
			if lines, words := strings.Count(text, "\n"), len(strings.Fields(text)); lines > 60 || words > 350 {
				t.Errorf("%d lines and %d words, want at most 60 and 350", lines, words)
			}
			var headings []string
			for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1) {
				headings = append(headings, m[1])
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
			want := []string{"Caddyfile", "Settings of " + title, "Roles by groups", "Sign-out", "What goes wrong"}
			if !slices.Equal(headings, want) {
				t.Errorf("headings = %q, want %q", headings, want)
			}
			if !source.MatchString(text) {
				t.Error("the page does not say whether it is tested, or from which documentation, with the date")
			}
			line := regexp.MustCompile(`\n\| ` + regexp.QuoteMeta(title) + ` \| \[integrations/` + name + `\.md\]\(integrations/` + name +
				`\.md\) \| .* \| (.*) \|\n`).FindStringSubmatch(string(index))
			if line == nil || (line[1] == "tested") != strings.Contains(text, "*Tested with ") {
				t.Errorf("docs/integrations.md lacks the page, or says otherwise whether it is tested: %q", line)
			}
			blocks := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(text, -1)
			if len(blocks) == 0 {
				t.Fatal("the page has no Caddyfile")
			}
			for _, b := range blocks {
				loads(t, around(b[1]))
				sameAsTemplate(t, name, b[1])
			}
		})
	}
}

// sameAsTemplate holds the client of a page against that of `client add --for`.
func sameAsTemplate(t *testing.T, name, block string) {
	t.Helper()
	if !slices.Contains(client.Libraries(), name) {
		return
	}
	address := regexp.MustCompile(`redirect_uris (https://[^/]+)/`).FindStringSubmatch(block)
	if address == nil {
		t.Fatal("the client has no redirect URI")
	}
	made := client.Client{ID: name}
	if err := made.For(name, address[1]); err != nil {
		t.Fatal(err)
	}
	d := caddyfile.NewTestDispenser(block)
	d.Next()
	got, err := client.Read(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.RedirectURIs, made.RedirectURIs) || !slices.Equal(got.PostLogoutRedirectURIs, made.PostLogoutRedirectURIs) ||
		!slices.Equal(got.Grants, made.Grants) || !slices.Equal(got.Scopes, made.Scopes) || got.IDTokenClaims != made.IDTokenClaims {
		t.Errorf("the client of the page = %+v, and `client add --for %s` makes %+v", got, name, made)
	}
}

// TestCaddyfilesOfPackages: Caddy loads each Caddyfile that packages, compose files and the Helm chart have.
func TestCaddyfilesOfPackages(t *testing.T) {
	files, err := filepath.Glob("../packaging/*[cC]addyfile")
	if err != nil || len(files) < 4 {
		t.Fatalf("Caddyfiles = %v, %v, want at least four", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { loads(t, string(raw)) })
	}
	if files, err = filepath.Glob("../packaging/charttest/testdata/*.yaml"); err != nil || len(files) < 3 {
		t.Fatalf("manifests = %v, %v, want at least three", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text, found := strings.Cut(string(raw), "\n  Caddyfile: |\n")
		text, _, _ = strings.Cut(text, "\n---\n")
		if !found {
			t.Fatalf("%s has no Caddyfile", file)
		}
		t.Run("chart "+filepath.Base(file), func(t *testing.T) { loads(t, strings.ReplaceAll("\n"+text, "\n    ", "\n")) })
	}
}
