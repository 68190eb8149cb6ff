package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The tests of docs/start run what the guides say, on ports of this machine.

// asks are the commands of a guide that begin so.
func (g *guide) asks(begin string) []string {
	var out []string
	for _, b := range g.blocks {
		if b.lang == "sh" && strings.HasPrefix(b.text, begin) {
			out = append(out, strings.TrimSpace(g.local.Replace(b.text)))
		}
	}
	return out
}

// caddy runs a command of the guide that begins with caddy, at its own server.
func (g *guide) caddy(command string) string {
	g.t.Helper()
	args := append(strings.Fields(command)[1:], "--address", g.Admin)
	out, err := g.gatehouse("", args...)
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// register runs the command of a guide that adds a client, and returns the secret that it prints.
func (g *guide) register(id string) string {
	g.t.Helper()
	commands := g.asks("caddy gatehouse client add " + id + " ")
	if len(commands) != 1 {
		g.t.Fatalf("the guide adds the client %s by %q, want one command", id, commands)
	}
	m := regexp.MustCompile(`(?m)^secret (\S+)$`).FindStringSubmatch(g.caddy(commands[0]))
	if m == nil {
		return "" // a public client
	}
	g.secret("secret of the client "+id, m[1])
	return m[1]
}

// save writes the files that the guide says to save, below a directory.
func (g *guide) save(dir string) {
	g.t.Helper()
	var n int
	for _, b := range g.blocks {
		if b.file == "" {
			continue
		}
		n++
		name := filepath.Join(dir, filepath.FromSlash(b.file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // below a directory of the test
			g.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(g.local.Replace(b.text)), 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
	if n == 0 {
		g.t.Fatal("the guide says nothing to save")
	}
}

// launch runs an application of a guide until the end of the test, and waits until it answers at its address.
func (g *guide) launch(address, dir string, env []string, command string, args ...string) {
	t := g.t
	t.Helper()
	out := new(lockedBuffer)
	cmd := exec.Command(command, args...) //nolint:gosec // of the tests
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, out, out, environ(g.dir, env...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v: make install", command, err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-gone
		if t.Failed() {
			t.Logf("the application said:\n%s", tail([]byte(out.String()), 3000))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			return
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("%s ended: %v: make install\n%s", command, err, out.String())
		case <-ctx.Done():
			t.Fatalf("%s does not answer at %s\n%s", command, address, out.String())
		case <-tick.C:
		}
	}
}

// followApp is follow for a guide with an application at an address of localhost, which it returns as it is here.
func followApp(t *testing.T, document, address string) (g *guide, here string) {
	t.Helper()
	here = fmt.Sprintf("http://localhost:%d", freePorts(t, 1)[0])
	return follow(t, document, nil, map[string]string{address: here}), here
}

// TestWikiStart follows docs/start/wiki.md: from init to the first administrator in the console, and a reader at the
// wiki.
func TestWikiStart(t *testing.T) {
	t.Parallel()
	g := &guide{server: &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}, blocks: blocksOf(read(t, "../docs/start/wiki.md"))}
	etc := filepath.Join(g.dir, "etc") // which init makes
	g.local = strings.NewReplacer("/etc/caddy", etc)
	init := strings.Fields(g.asks("sudo caddy gatehouse init")[0])
	if out, err := g.gatehouse("", init[2:]...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	written := read(t, filepath.Join(etc, "Caddyfile"))
	if want := g.local.Replace(g.first("caddyfile")); written != want {
		t.Fatalf("init wrote\n%s\nwant what the guide shows:\n%s", written, want)
	}

	ports := freePorts(t, 3)
	g.Issuer, g.Wiki, g.Admin = fmt.Sprintf("http://localhost:%d", ports[0]), fmt.Sprintf("http://localhost:%d", ports[1]),
		fmt.Sprintf("localhost:%d", ports[2])
	options := fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n\tpersist_config off\n\tgrace_period 100ms\n\tdefault_bind 127.0.0.1\n", g.Admin)
	g.write(strings.NewReplacer("https://auth.wiki.example.com", g.Issuer, "auth.wiki.example.com {", g.Issuer+" {",
		"wiki.example.com {", g.Wiki+" {",
		"localhost:9001", echo(t), "\n{\n", "\n"+options).Replace(written))
	g.run(filepath.Join(g.dir, "Caddyfile"), g.dir)
	g.await(g.Issuer + "/healthz")

	invite := g.asks("caddy gatehouse admin invite ada@example.com")
	link := regexp.MustCompile(regexp.QuoteMeta(g.Issuer) + `/reset\?token=([\w.~-]+)`).FindStringSubmatch(g.caddy(invite[0]))
	if link == nil {
		t.Fatalf("%s printed no link", invite[0])
	}
	g.secret("link of the administrator", link[1])
	b := g.browse(t)
	b.authenticator()
	b.open(link[0])
	password := random(12)
	g.secret("password of ada", password)
	b.fill("#password", password)
	b.click("main form button:not([type])")
	b.signIn("ada@example.com", password)
	b.click(`a[href*="/passkeys/add"]`)
	b.click(passkeyButton)
	b.until(`document.querySelectorAll("ol.codes li").length === 10`)
	b.click("main .buttons a")
	b.reaches(g.Issuer + "/admin")
	if !b.has(`a[href="/admin/persons"]`) {
		t.Errorf("the console shows\n%s", b.text("body"))
	}
	b.open(g.Wiki + "/")
	if got := b.seen(); got.User != "ada@example.com" || got.Groups != "gatehouse-owner" || got.Email != "ada@example.com" {
		t.Errorf("the wiki was told %+v", got)
	}
	b.open(g.Issuer + "/account")
	if !strings.HasPrefix(b.location(), g.Issuer+"/account") {
		t.Errorf("the account page is at %s", b.location())
	}

	invite = g.asks("caddy gatehouse person invite ben@example.com")
	link = regexp.MustCompile(regexp.QuoteMeta(g.Issuer) + `/invitation\?token=([\w.~-]+)`).FindStringSubmatch(g.caddy(invite[0]))
	if link == nil {
		t.Fatalf("%s printed no link", invite[0])
	}
	g.secret("link of the invitation", link[1])
	b = g.browse(t)
	b.open(link[0])
	b.fill("#password", password)
	b.click("main form button:not([type])")
	b.reaches(g.Issuer + "/account")
	b.open(g.Wiki + "/")
	if got := b.seen(); got.User != "ben@example.com" || got.Groups != "readers" {
		t.Errorf("the wiki was told %+v", got)
	}
	if out := g.caddy("caddy gatehouse check"); !strings.Contains(out, "No problems found") && !strings.Contains(out, "mail") {
		t.Logf("check says\n%s", out)
	}
}

// TestProtectedAPIStart follows docs/start/protected-api.md: the requests by curl, and the program.
func TestProtectedAPIStart(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"caller": r.Header.Get("Remote-Client"),
			"orders": []any{map[string]any{"id": 1, "item": "a gate"}},
		})
	}))
	t.Cleanup(api.Close)
	g := follow(t, "../docs/start/protected-api.md", nil, map[string]string{"localhost:9000": api.Listener.Addr().String()})
	g.curls("docs/start/protected-api.md")

	dir := t.TempDir()
	g.save(dir)
	out, err := g.goRun(filepath.Join(dir, "reports.go"))
	if err != nil || !strings.HasPrefix(out, "200 OK ") || !strings.Contains(out, `"caller":"reports"`) {
		t.Errorf("the program printed %s, %v", out, err)
	}
}

// goRun builds and runs a program of one file with the modules of these tests.
func (g *guide) goRun(file string) (string, error) {
	g.t.Helper()
	bin := g.goBuild(file)
	cmd := exec.CommandContext(g.t.Context(), bin) //nolint:gosec // built here
	cmd.Env = environ(g.dir, g.vars...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goBuild builds a program of one file with the modules of these tests.
func (g *guide) goBuild(file string) string {
	g.t.Helper()
	bin := strings.TrimSuffix(file, ".go")
	cmd := exec.CommandContext(g.t.Context(), "go", "build", "-o", bin, file) //nolint:gosec // of a guide
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}
