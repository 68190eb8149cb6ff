package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPIExamples runs every command of docs/api.md, from top to bottom, and compares the answers with those shown.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	document := read(t, "../docs/api.md")
	find := func(before, after string) string {
		t.Helper()
		_, rest, found := strings.Cut(document, before)
		value, _, ends := strings.Cut(rest, after)
		if !found || !ends {
			t.Fatalf("docs/api.md does not say %s…%s", before, after)
		}
		return value
	}
	g := follow(t, "../docs/api.md", map[string]string{
		"CREDENTIALS_KEY": find("with the key\n`", "`"), "ADA_PASSWORD": find("the password `", "`"),
	}, nil)
	if ran := g.curls("docs/api.md"); ran < 30 {
		t.Errorf("docs/api.md shows %d commands, want more", ran)
	}
}

// curls runs the commands of a document that are requests by curl, from top to bottom, and compares the answers with
// those shown. A block with an authorization request is opened in a browser. It returns the number of requests.
func (g *guide) curls(document string) (ran int) {
	t := g.t
	t.Helper()
	// curl reads it in the directory of the server
	if err := os.WriteFile(filepath.Join(g.dir, ".curlrc"), []byte("silent\nshow-error\ninclude\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAnswers()
	for i, b := range g.blocks {
		var next block
		if i+1 < len(g.blocks) {
			next = g.blocks[i+1]
		}
		switch {
		case b.lang == "sh" && strings.HasPrefix(b.text, "curl "):
			ran++
			if next.lang != "http" {
				next = block{text: "no answer"}
			}
			if got, err := g.curl(a, a.here(g.local.Replace(b.text)), g.local.Replace(next.text)); err != nil {
				t.Errorf("%s:%d: %v\n%s%s", document, b.line, err, b.text, got)
			}
		case b.lang == "text" && strings.Contains(b.text, "/oauth/authorize?"):
			r := g.visit(t, "ada@example.com", g.value("ADA_PASSWORD")).authorize(strings.TrimSpace(g.local.Replace(b.text)))
			here := r.address + "?" + r.values.Encode()
			want := strings.ReplaceAll(strings.TrimSpace(next.text), url.QueryEscape("https://auth.example.com"), url.QueryEscape(g.Issuer))
			if err := a.text(want, here); err != nil {
				t.Fatalf("%s:%d: %v", document, next.line, err)
			}
		}
	}
	return ran
}

// curl runs a command and compares its answer with the one of the document. It returns the answer.
func (g *guide) curl(a *answers, command, want string) (string, error) {
	cmd := exec.CommandContext(g.t.Context(), "sh", "-c", command) //nolint:gosec // of the document
	cmd.Env = environ(g.dir, g.vars...)
	raw, err := cmd.CombinedOutput()
	if err != nil {
		return string(raw), err
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(raw))), nil)
	if err != nil {
		return string(raw), err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return string(raw), err
	}
	head, wantBody, _ := strings.Cut(strings.TrimSpace(want), "\n\n")
	lines := strings.Split(head, "\n")
	if got := resp.Proto + " " + resp.Status; got != lines[0] {
		return string(raw), fmt.Errorf("%s, want %s", got, lines[0])
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if err := a.text(value, resp.Header.Get(name)); err != nil {
			return string(raw), fmt.Errorf("the header %s: %w", name, err)
		}
	}
	switch {
	case wantBody != "":
		err = a.json(wantBody, string(body))
	case len(body) > 0:
		err = fmt.Errorf("a body: %s", body)
	}
	for _, v := range a.known {
		if strings.HasPrefix(v, "gh") && strings.Contains(v, "_") {
			g.secret("value in docs/api.md", v)
		}
	}
	return string(raw), err
}
