package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/servertest"
)

// init writes a Caddyfile that is accepted and says what it needs. A second run loses nothing.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	out, err := servertest.Run(t, "", "init", "--domain", "Wiki.Example.com", "--upstream", "localhost:9001", "--email", "ada@example.com", "--dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"wiki.example.com and auth.wiki.example.com lead to this machine", "80 and 443", "caddy run --config " + filepath.Join(dir, "Caddyfile"),
		"caddy gatehouse person invite ada@example.com --groups admins",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("init lacks %q:\n%s", want, out)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	adapted, err := servertest.Adapt(t, string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := servertest.Validate(t, []byte(adapted)); err != nil {
		t.Errorf("validate: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || !strings.Contains(string(raw), "invitations on") {
		t.Errorf("init left %v (%v), want one Caddyfile that switches invitations on:\n%s", files, err, raw)
	}
	_, err = servertest.Run(t, "", "init", "--domain", "other.example.com", "--upstream", "localhost:9001", "--email", "bob@example.com", "--dir", dir)
	if err == nil || !strings.Contains(err.Error(), "exists, and is not overwritten") {
		t.Errorf("init again = %v", err)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "Caddyfile")); err != nil || string(again) != string(raw) {
		t.Errorf("the Caddyfile was changed: %v", err)
	}
}

func TestInitAsks(t *testing.T) {
	dir := t.TempDir()
	out, err := servertest.Run(t, "wiki.example.com\nhttps://10.0.0.5\nada@example.com\n", "init", "--dir", dir)
	if err != nil || !strings.Contains(out, "auth.wiki.example.com") {
		t.Fatalf("init = %s, %v", out, err)
	}
	answer := servertest.Decode[struct{ Issuer, Caddyfile string }](t, must(servertest.Run(t, "", "init", "--domain", "a.example.com", "--upstream", "localhost:9001", "--email", "ada@example.com", "--dir", t.TempDir(), "--json")))
	if answer.Issuer != "auth.a.example.com" || answer.Caddyfile == "" {
		t.Errorf("init --json = %+v", answer)
	}
}

func must(out string, err error) string {
	if err != nil {
		panic(err)
	}
	return out
}

// Bad input to init is a clear error, and nothing is written: what is typed can add no line to the Caddyfile.
func TestInitRefuses(t *testing.T) {
	good := map[string]string{"domain": "wiki.example.com", "upstream": "localhost:9001", "email": "ada@example.com"}
	for name, tt := range map[string]struct{ flag, value, want string }{
		"a URL":              {"domain", "https://wiki.example.com", "is not the name of a host"},
		"a path":             {"domain", "wiki.example.com/x", "is not the name of a host"},
		"an address":         {"domain", "10.0.0.1", "is not the name of a host"},
		"another alphabet":   {"domain", "wïki.example.com", "is not the name of a host"},
		"a block":            {"domain", "a.example.com {\n}\nb.example.com", "is not the name of a host"},
		"a wildcard":         {"domain", "*.example.com", "is not the name of a host"},
		"an empty answer":    {"domain", "", "no domain given"},
		"upstream with more": {"upstream", "localhost:9001\n\trespond hello", "is not an address such as"},
		"upstream of no use": {"upstream", "ftp://x", "is not an address such as"},
		"upstream by {env}":  {"upstream", "{env.HOME}", "is not an address such as"},
		"no e-mail address":  {"email", "ada", "is not an e-mail address"},
		"e-mail with a name": {"email", "Ada <ada@example.com>", "is not an e-mail address"},
		"e-mail with braces": {"email", "{a}@example.com", "is not an e-mail address"},
		"the same host":      {"issuer", "wiki.example.com", "a host of their own"},
		"no directory":       {"dir", "nowhere", "there is no directory"},
		"a strange port":     {"upstream", "localhost:99999", "99999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"init"}
			for flag, value := range good {
				if flag != tt.flag {
					args = append(args, "--"+flag, value)
				}
			}
			out, err := servertest.Run(t, "", append(args, "--"+tt.flag, tt.value)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("init = %s, %v, want an error with %q", out, err, tt.want)
			}
			if left, _ := filepath.Glob("*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
