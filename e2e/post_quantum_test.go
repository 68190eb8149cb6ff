package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPostQuantumGuide follows docs/post-quantum.md: another implementation of ML-DSA, in Node.js, makes the key of a
// client, signs with it, and verifies the client's access token and the assertion that it causes at a site.
func TestPostQuantumGuide(t *testing.T) {
	t.Parallel()
	var (
		mu  sync.Mutex
		got string // the last assertion
	)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = r.Header.Get("Remote-Assertion")
	}))
	t.Cleanup(app.Close)
	dir := t.TempDir()
	modules(t, dir)
	for _, b := range blocksOf(read(t, "../docs/post-quantum.md")) {
		if b.file != "" {
			if err := os.WriteFile(filepath.Join(dir, b.file), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	node := func(env []string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", args...) //nolint:gosec // of the test
		cmd.Dir, cmd.Env = dir, environ(dir, env...)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := node(nil, "robot.mjs", "key"); err != nil {
		t.Fatalf("node robot.mjs key: %v\n%s", err, out)
	}
	g := follow(t, "../docs/post-quantum.md", nil, map[string]string{
		"localhost:9000": app.Listener.Addr().String(), "/etc/caddy/robot.json": filepath.Join(dir, "robot.json"),
	})
	origin := g.local.Replace("https://api.example.com")
	token, err := node([]string{"ISSUER=" + g.Issuer}, "robot.mjs", "token")
	if err != nil || strings.Count(token, ".") != 2 {
		t.Fatalf("node robot.mjs token: %v\n%s", err, token)
	}
	header := map[string]string{"Authorization": "Bearer " + token}
	if status, answer := ask(t, origin, "", "GET", "/reports", header); status != http.StatusOK {
		t.Fatalf("the access token at the site = %d %s", status, answer)
	}
	mu.Lock()
	assertion := got
	mu.Unlock()
	verify := func(text, audience, typ, alg string) (string, error) {
		program := fmt.Sprintf(`import { verify } from './mldsa.mjs'
console.log((await verify(%q, { issuer: %q, audience: %q, typ: %q, alg: %q })).sub)`, text, g.Issuer, audience, typ, alg)
		file := fmt.Sprintf("verify-%s.mjs", random(8))
		if err := os.WriteFile(filepath.Join(dir, file), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		return node(nil, file)
	}
	end := strings.LastIndexByte(token, '.')
	for _, tt := range []struct {
		name, text, audience, typ, alg string
		good                           bool
	}{
		{"the access token", token, g.Issuer, "at+jwt", "ML-DSA-44", true},
		{"the assertion", assertion, origin, "gate+jwt", "ML-DSA-44", true},
		{"the access token as an assertion", token, g.Issuer, "gate+jwt", "ML-DSA-44", false},
		{"another algorithm", token, g.Issuer, "at+jwt", "ML-DSA-65", false},
		{"another audience", assertion, g.Issuer, "gate+jwt", "ML-DSA-44", false},
		{"a changed signature", token[:end+1] + "AAAA" + token[end+5:], g.Issuer, "at+jwt", "ML-DSA-44", false},
		{"a part of it", token[:end+3000], g.Issuer, "at+jwt", "ML-DSA-44", false},
	} {
		out, err := verify(tt.text, tt.audience, tt.typ, tt.alg)
		if (err == nil) != tt.good || tt.good && out != "robot" {
			t.Errorf("%s: %v, %s, want good = %t", tt.name, err, out, tt.good)
		}
	}
	// Another key under the same name authenticates no one.
	if err := os.Remove(filepath.Join(dir, "robot.key")); err != nil {
		t.Fatal(err)
	}
	if out, err := node(nil, "robot.mjs", "key"); err != nil {
		t.Fatalf("node robot.mjs key: %v\n%s", err, out)
	}
	if out, err := node([]string{"ISSUER=" + g.Issuer}, "robot.mjs", "token"); err == nil || !strings.Contains(out, "invalid_client") {
		t.Errorf("a token by another key: %v\n%s", err, out)
	}
}
