package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestAPIDetails sends every request of docs/api-details.md to the server of docs/api.md, from top to bottom, and
// compares the answers with those shown.
func TestAPIDetails(t *testing.T) {
	t.Parallel()
	const document = "docs/api-details.md"
	examples := read(t, "../docs/api.md")
	find := func(before, after string) string {
		t.Helper()
		_, rest, found := strings.Cut(examples, before)
		value, _, ends := strings.Cut(rest, after)
		if !found || !ends {
			t.Fatalf("docs/api.md does not say %s…%s", before, after)
		}
		return value
	}
	g := follow(t, "../docs/api.md", map[string]string{
		"CREDENTIALS_KEY": find("with the key\n`", "`"), "ADA_PASSWORD": find("the password `", "`"),
	}, nil)
	blocks := blocksOf(read(t, "../"+document))
	a, ran := newAnswers(), 0
	for i, b := range blocks {
		if b.lang == "text" && strings.Contains(b.text, "/oauth/authorize?") {
			g.signsInInDutch(a, strings.TrimSpace(g.local.Replace(b.text)))
			continue
		}
		if b.lang != "http" || strings.HasPrefix(b.text, "HTTP/") {
			continue
		}
		ran++
		if i+1 == len(blocks) || !strings.HasPrefix(blocks[i+1].text, "HTTP/") {
			t.Errorf("%s:%d: a request without an answer", document, b.line)
			continue
		}
		if err := g.exchange(a, b.text, blocks[i+1].text); err != nil {
			t.Errorf("%s:%d: %v", document, b.line, err)
		}
	}
	if ran < 7 {
		t.Errorf("%s shows %d requests, want more", document, ran)
	}
}

// signsInInDutch opens an authorization request whose pages are in Dutch, and remembers what the document calls the
// token that comes of it, and Ada.
func (g *guide) signsInInDutch(a *answers, address string) {
	t := g.t
	t.Helper()
	v := g.visit(t, "ada@example.com", g.value("ADA_PASSWORD"))
	resp := v.get(address)
	for range 5 {
		if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			resp = v.get(to.String())
		}
	}
	page, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(page), `<html lang="nl`) {
		t.Errorf("GET %s = %s, %v, want a page in Dutch: %.300s", address, resp.Status, err, page)
	}
	code := v.authorize(address).values.Get("code")
	res := g.form("/oauth/token", "shop", g.value("SHOP_SECRET"), url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {"https://shop.example.com/callback"},
	})
	var tokens struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&tokens); err != nil || tokens.Access == "" {
		t.Fatalf("Token = %s, %v", res.Status, err)
	}
	var person struct {
		Subject string `json:"sub"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(tokens.ID+"..", ".")[1])
	if err == nil {
		err = json.Unmarshal(payload, &person)
	}
	if err != nil || person.Subject == "" {
		t.Fatalf("the ID token names no one: %v", err)
	}
	document := read(t, "../docs/api-details.md")
	for pattern, here := range map[string]string{`ghat_[\w-]+`: tokens.Access, `/api/persons/([\w-]+)/`: person.Subject} {
		m := regexp.MustCompile(pattern).FindStringSubmatch(document)
		if m == nil {
			t.Fatalf("the document has no %s", pattern)
		}
		a.known[m[len(m)-1]] = here
	}
}

// placeholder are the credentials of an API client in a document: its id, and dots for the secret.
var placeholder = regexp.MustCompile(`Authorization: Basic (\S+)`)

// exchange sends a request of a document, written as HTTP, and compares the answer.
func (g *guide) exchange(a *answers, request, answer string) error {
	head, body, _ := strings.Cut(a.here(request), "\n\n")
	if m := placeholder.FindStringSubmatch(head); m != nil {
		raw, err := base64.StdEncoding.DecodeString(m[1])
		id, dots, _ := strings.Cut(string(raw), ":")
		if err != nil || dots != "..." {
			return fmt.Errorf("the credentials are %q, want an API client and dots", raw)
		}
		sent := base64.StdEncoding.EncodeToString([]byte(id + ":" + g.value(strings.ToUpper(id)+"_SECRET")))
		head = strings.Replace(head, m[1], sent, 1)
	}
	lines := strings.Split(head, "\n")
	method, target, _ := strings.Cut(strings.TrimSuffix(lines[0], " HTTP/1.1"), " ")
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.Issuer+target, strings.NewReader(strings.TrimSpace(body)))
	if err != nil {
		return err
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := g.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return a.answer(answer, resp, string(got))
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
	err = a.answer(want, resp, string(body))
	for _, v := range a.known {
		if strings.HasPrefix(v, "gh") && strings.Contains(v, "_") {
			g.secret("value in docs/api.md", v)
		}
	}
	return string(raw), err
}

// answer compares an answer with that of a document: its status, the headers that are shown, and its body.
func (a *answers) answer(want string, resp *http.Response, body string) error {
	head, wantBody, _ := strings.Cut(strings.TrimSpace(want), "\n\n")
	lines := strings.Split(head, "\n")
	if got := resp.Proto + " " + resp.Status; got != lines[0] {
		return fmt.Errorf("%s, want %s: %s", got, lines[0], body)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if err := a.text(value, resp.Header.Get(name)); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	switch {
	case wantBody != "":
		return a.json(wantBody, body)
	case body != "":
		return fmt.Errorf("a body: %s", body)
	}
	return nil
}
