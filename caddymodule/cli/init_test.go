package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/initwizard"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// init writes a Caddyfile that is accepted and says what it needs. A second run loses nothing.
func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "caddy") // which init makes
	out, err := servertest.Run(t, "", "init", "--domain", "Wiki.Example.com", "--upstream", "localhost:9001", "--email",
		"ada@example.com", "--dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"wiki.example.com and auth.wiki.example.com lead to this machine", "80 and 443", "caddy run --config " + filepath.Join(dir, "Caddyfile"),
		"caddy gatehouse admin invite ada@example.com\n", "https://auth.wiki.example.com/admin",
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
	if !strings.Contains(strings.Join(strings.Fields(adapted), ""), `"wrapper":"gatehouse"},{"wrapper":"tls"}]`) {
		t.Errorf("init wrote no listener wrapper, so reloads lose requests:\n%s", raw)
	}
	if err := servertest.Validate(t, []byte(adapted)); err != nil {
		t.Errorf("validate: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || !strings.Contains(string(raw), "\n\t\t\tadmin ada@example.com\n") ||
		!strings.Contains(string(raw), "\n\t\t\tinvitations on\n") {
		t.Errorf("init left %v (%v), want one Caddyfile with an owner of the console, which switches invitations on:\n%s", files, err, raw)
	}
	_, err = servertest.Run(t, "", "init", "--domain", "other.example.com", "--upstream", "localhost:9001", "--email",
		"bob@example.com", "--dir", dir)
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
	answer := servertest.Decode[struct{ Issuer, Caddyfile string }](t,
		must(servertest.Run(t, "", "init", "--domain", "a.example.com", "--upstream", "localhost:9001", "--email", "ada@example.com",
			"--dir", t.TempDir(), "--json")))
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

// A question whose answer is empty or refused is asked again. Nothing is asked if the Caddyfile exists.
func TestInitAsksAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := servertest.Run(t, "\nwiki\nwiki.example.com\nlocalhost\n9001\n\nada\nada@example.com\n", "init", "--dir", dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	if err != nil || !strings.Contains(string(raw), "\nwiki.example.com {") ||
		!strings.Contains(string(raw), "reverse_proxy localhost:9001\n") {
		t.Errorf("init wrote, after all answers, %s, %v", raw, err)
	}
	if _, err := servertest.Run(t, "", "init", "--dir", dir); err == nil || !strings.Contains(err.Error(), "exists, and is not overwritten") {
		t.Errorf("init without answers where the Caddyfile exists = %v, want that it exists", err)
	}
}

// What was pasted, or is written as people write it, is taken for what it means.
func TestInitAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		read     func(string) (string, error)
		in, want string
	}{
		"an address of a page":   {initwizard.Host, " http://Wiki.example.com/foo?x=1#y ", "wiki.example.com"},
		"an address with a port": {initwizard.Host, "https://wiki.example.com:443/", "wiki.example.com"},
		"a dot at the end":       {initwizard.Host, "wiki.example.com.", "wiki.example.com"},
		"another alphabet":       {initwizard.Host, "https://Bücher.example.com/x", "xn--bcher-kva.example.com"},
		"this machine":           {initwizard.Host, "localhost", "localhost"},
		"a name of this machine": {initwizard.Host, "wiki.localhost", "wiki.localhost"},
		"a port":                 {initwizard.Upstream, "9001", "localhost:9001"},
		"a port with a colon":    {initwizard.Upstream, ":9001", "localhost:9001"},
		"a URL as upstream":      {initwizard.Upstream, "HTTP://localhost:9001/", "http://localhost:9001"},
		"an upstream of TLS":     {initwizard.Upstream, "https://10.0.0.5", "https://10.0.0.5"},
		"an upstream by IPv6":    {initwizard.Upstream, "[::1]:9001", "[::1]:9001"},
		"an upstream by name":    {initwizard.Upstream, "wiki_1:80", "wiki_1:80"},
		"an e-mail link":         {initwizard.Email, "mailto:ada@example.com", "ada@example.com"},
		"an e-mail with a name":  {initwizard.Email, "Ada <ada@example.com>", "ada@example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := tt.read(tt.in); err != nil || got != tt.want {
				t.Errorf("%q = %q, %v, want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

// Bad input to init is a clear error, and nothing is written: what is typed can add no line to the Caddyfile.
func TestInitRefuses(t *testing.T) {
	good := map[string]string{"domain": "wiki.example.com", "upstream": "localhost:9001", "email": "ada@example.com"}
	for name, tt := range map[string]struct{ flag, value, want string }{
		"an address":          {"domain", "10.0.0.1", "is an IP address"},
		"a short name":        {"domain", "wiki", "is not a full name, and gets no certificate: write it like wiki.example.com"},
		"a short issuer":      {"issuer", "auth", "is not a full name"},
		"another port":        {"domain", "https://wiki.example.com:8443/", "names the port 8443"},
		"a user":              {"domain", "https://ada@wiki.example.com", "is not the name of a host"},
		"a number at an end":  {"domain", "wiki.10", "is not the name of a host"},
		"a block":             {"domain", "a.example.com {\n}\nb.example.com", "is not the name of a host"},
		"a wildcard":          {"domain", "*.example.com", "is not the name of a host"},
		"an empty answer":     {"domain", "", "no domain given"},
		"upstream with more":  {"upstream", "localhost:9001\n\trespond hello", "is not an address such as"},
		"upstream of no use":  {"upstream", "ftp://x", "is not an address such as"},
		"upstream of no text": {"upstream", "{env.HOME}", "is not an address such as"},
		"no e-mail address":   {"email", "ada", "is not an e-mail address"},
		"e-mail at no name":   {"email", "ada@wiki", "is not an e-mail address"},
		"e-mail with braces":  {"email", "{a}@example.com", "is not an e-mail address"},
		"the same host":       {"issuer", "wiki.example.com", "a host of their own"},
		"no directory":        {"dir", "nowhere/conf", "there is no directory"},
		"a strange port":      {"upstream", "localhost:99999", "99999"},
		"no port":             {"upstream", "localhost", "where Caddy itself listens: name the port of the site, such as localhost:9001"},
		"the port of Caddy":   {"upstream", "https://127.0.0.1", "is port 443 of this machine"},
		"the site itself":     {"upstream", "https://wiki.example.com", "is served by Caddy itself"},
		"the sign-in pages":   {"upstream", "auth.wiki.example.com:9001", "is served by Caddy itself"},
		"upstream and path":   {"upstream", "http://10.0.0.5/wiki", "has a path, which an upstream cannot have: write http://10.0.0.5"},
		"port 0":              {"upstream", "0", "ports are from 1 to 65535"},
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
