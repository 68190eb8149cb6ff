package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExample runs Caddyfile.example as make run does, on other ports and with other data, and follows the instructions
// in its output.
func TestExample(t *testing.T) {
	t.Parallel()
	example := read(t, "../Caddyfile.example")
	script := read(t, "../scripts/run.sh")
	s := &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}
	moved := move(t, example)
	content := strings.Replace(moved(example), "{\n", fmt.Sprintf("{\n\tadmin localhost:%d\n", freePorts(t, 1)[0]), 1)
	s.write(content)
	if err := os.CopyFS(filepath.Join(s.dir, "example"), os.DirFS("../example")); err != nil {
		t.Fatal(err)
	}
	s.Issuer = find(t, moved(script), `http://localhost:\d+/oauth/token`, 0)
	s.Issuer = strings.TrimSuffix(s.Issuer, "/oauth/token")
	s.Wiki = find(t, moved(script), `A protected page +(http://\S+)/`, 1)
	s.API = find(t, moved(script), `"Authorization: Bearer \$TOKEN" (http://[^/]+)`, 1)
	username, password := find(t, script, `sign in as +(\S+)`, 1), find(t, script, ` with +(\S+)\n`, 1)
	id, clientSecret := find(t, script, `-u (\w+):(\S+)`, 1), find(t, script, `-u (\w+):(\S+)`, 2)
	s.secret("password", password)
	s.secret("client secret", clientSecret)
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir)
	s.await(s.Issuer + "/healthz")

	b := s.browse(t)
	b.open(s.Wiki + "/")
	b.signIn(username, password)
	if got := b.location(); got != s.Wiki+"/" || !strings.Contains(b.text("main"), username) {
		t.Fatalf("landed at %s, which says %q", got, b.text("main"))
	}
	if said := read(t, s.log); strings.Contains(said, "not formatted") {
		t.Errorf("the log of the first start warns:\n%s", said)
	}
	b.open(s.Wiki + "/shelf/2?book=3")
	if !strings.Contains(b.text("main"), "/shelf/2") {
		t.Errorf("the page does not show its path: %q", b.text("main"))
	}
	for _, scheme := range []string{"light", "dark"} {
		b.screen(1280, 800, scheme)
		b.shot("example-desktop-" + scheme)
		b.screen(390, 844, scheme)
		b.shot("example-phone-" + scheme)
	}

	form := "grant_type=client_credentials"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Issuer+"/oauth/token", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(id, clientSecret)
	token := body[struct {
		AccessToken string `json:"access_token"`
	}](t, send(t, s, req)).AccessToken
	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, s.API+"/orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if got := body[map[string]any](t, send(t, s, req)); len(got) == 0 {
		t.Error("the API answers an empty object")
	}
}

// TestDocumentedCaddyfiles adapts every Caddyfile in the documents, as caddy adapt does.
func TestDocumentedCaddyfiles(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob("../docs/start/*.md")
	if err != nil || len(guides) == 0 {
		t.Fatalf("docs/start has %d guides, %v", len(guides), err)
	}
	documents = append(documents, guides...)
	documents = append(documents, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md")
	shown := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	s := start(t, "")
	var n int
	for _, document := range documents {
		for _, m := range shown.FindAllStringSubmatch(read(t, document), -1) {
			n++
			resp, err := http.Post("http://"+s.Admin+"/adapt", "text/caddyfile", strings.NewReader(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s %v\n%s\n%s", document, resp.Status, err, answer, m[1])
			}
		}
	}
	if n < 3 {
		t.Errorf("found %d Caddyfiles in the documents, want at least three", n)
	}
}

// move returns a function that replaces each port of localhost in a text with a free one, always the same for the same
// port.
func move(t *testing.T, example string) func(string) string {
	t.Helper()
	ports := regexp.MustCompile(`\b84\d\d\b`)
	to := map[string]string{}
	var pairs []string
	for _, old := range ports.FindAllString(example, -1) {
		if to[old] == "" {
			to[old] = fmt.Sprint(freePorts(t, 1)[0])
			pairs = append(pairs, old, to[old])
		}
	}
	if len(to) < 3 {
		t.Fatalf("the example names the ports %v: this test looks for 84xx", to)
	}
	return strings.NewReplacer(pairs...).Replace
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func find(t *testing.T, text, pattern string, group int) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("scripts/run.sh does not say %s", pattern)
	}
	return m[group]
}

func send(t *testing.T, s *server, req *http.Request) *http.Response {
	t.Helper()
	resp, err := s.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
