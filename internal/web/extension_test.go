package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// put writes files below dir, given as pairs of name and content.
func put(t *testing.T, dir string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(dir, filepath.FromSlash(pairs[i]))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(pairs[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func extended(t *testing.T, dir string, log *zap.Logger) (*web.Renderer, error) {
	t.Helper()
	return web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: zeros{}, Extension: dir, Log: log})
}

func fetch(p *web.Renderer, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
	r.URL.Path = path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.Assets().ServeHTTP(w, r)
	return w
}

func TestExtension(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "nl.json", `{"sign_in.title":"Hoi"}`, "default.json", `{"sign_in.title":"Hi"}`, "es_ES.json", `{"sign_in.title":"Hola"}`,
		"hello.txt", "hello", "img/deep/a.PNG", "not really", "script.js", "x", "page.html", "x", ".hidden.txt", "x",
		".git/a.txt", "x", "img/x.json", "x")
	p, err := extended(t, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]shown{"": {"en", "Hi"}, "nl": {"nl", "Hoi"}, "es": {"en", "Hi"}, "es_ES": {"es-ES", "Hola"}} {
		var locales []string
		if asked != "" {
			locales = []string{asked}
		}
		if got := signIn(t, p, "", locales...); got != want && asked != "es" {
			t.Errorf("sign-in page in %q = %q, want %q", asked, got, want)
		}
	}
	w := fetch(p, "/assets/ext/hello.txt")
	if w.Code != http.StatusOK || w.Body.String() != "hello" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		w.Header().Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("hello.txt = %d %q %v", w.Code, w.Body, w.Header())
	}
	if again := fetch(p, "/assets/ext/hello.txt", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("hello.txt with its ETag = %d, want 304", again.Code)
	}
	for path, want := range map[string]int{
		"/assets/ext/img/deep/a.PNG": 200, "/assets/ext/script.js": 404, "/assets/ext/page.html": 404, "/assets/ext/.hidden.txt": 404,
		"/assets/ext/.git/a.txt": 404,
		"/assets/ext/img/x.json": 404, "/assets/ext/nl.json": 404, "/assets/ext/": 404, "/assets/ext": 404,
	} {
		if w := fetch(p, path); w.Code != want {
			t.Errorf("GET %s = %d, want %d", path, w.Code, want)
		}
	}
	// Changes take effect after a reload, all at once.
	put(t, dir, "nl.json", `{"sign_in.title":"Hallo"}`, "hello.txt", "hello again")
	if got := signIn(t, p, "", "nl"); got.title != "Hoi" {
		t.Errorf("before the reload: %q, want the old title", got)
	}
	if err := p.ReloadExtension(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := signIn(t, p, "", "nl"); got.title != "Hallo" {
		t.Errorf("after the reload: %q, want the new title", got)
	}
	if w := fetch(p, "/assets/ext/hello.txt"); w.Body.String() != "hello again" {
		t.Errorf("hello.txt = %q, want the new one", w.Body)
	}
}

// TestExtensionRefusals: an error in the directory is a finding at the start, which leaves out what is wrong alone, and
// makes a reload keep the old state.
func TestExtensionRefusals(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		"not JSON":         {"nl.json", `{`},
		"not text":         {"nl.json", `{"sign_in.title":1}`},
		"nested":           {"nl.json", `{"sign_in":{"title":"x"}}`},
		"twice":            {"nl.json", `{"a":"x","a":"y"}`},
		"control":          {"nl.json", `{"a":"\u0000"}`},
		"key":              {"nl.json", `{"a b":"x"}`},
		"no locale":        {"messages.json", `{}`},
		"locale twice":     {"nl_NL.json", `{}`, "nl-nl.json", `{}`},
		"too large a file": {"a.txt", strings.Repeat("x", 1<<20+1)},
		"too deep":         {"a/b/c/d/e/f/g/h/i/j.txt", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "default.json", `{"sign_in.title":"Good"}`, "good.txt", "good")
			p, err := extended(t, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, files...)
			put(t, dir, "good.txt", "changed")
			if err := p.ReloadExtension(t.Context()); err == nil {
				t.Error("ReloadExtension = nil, want an error")
			}
			if got := signIn(t, p, ""); got.title != "Good" {
				t.Errorf("title = %q, want the old one", got.title)
			}
			if w := fetch(p, "/assets/ext/good.txt"); w.Body.String() != "good" {
				t.Errorf("good.txt = %q, want the old one", w.Body)
			}
			started, err := extended(t, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			if started.ExtensionFault() == nil {
				t.Error("ExtensionFault = nil, want an error")
			}
			if got := signIn(t, started, ""); got.title != "Good" {
				t.Errorf("title after the start = %q, want that of the files that can be used", got.title)
			}
			if w := fetch(started, "/assets/ext/a.txt"); w.Code != http.StatusNotFound {
				t.Errorf("GET a.txt = %d, want 404", w.Code)
			}
		})
	}
	gone, err := extended(t, filepath.Join(t.TempDir(), "gone"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if gone.ExtensionFault() == nil {
		t.Error("ExtensionFault without the directory = nil, want an error")
	}
}

func TestExtensionStaysInside(t *testing.T) {
	t.Parallel()
	t.Run("attack 256: ways out of the extension directory", func(t *testing.T) {
		t.Parallel()
		outside, dir := t.TempDir(), t.TempDir()
		put(t, outside, "secret.txt", "secret", "nl.json", `{"sign_in.title":"stolen"}`)
		put(t, dir, "a.txt", "a")
		for name, target := range map[string]string{
			"link.txt": filepath.Join(outside, "secret.txt"),
			"up.txt":   "../" + filepath.Base(outside) + "/secret.txt", "dir": outside,
			"nl.json": filepath.Join(outside, "nl.json"), "in.txt": "a.txt",
		} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		core, logs := observer.New(zap.WarnLevel)
		p, err := extended(t, dir, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		if logs.Len() != 5 {
			t.Errorf("%d warnings, want one for each of the 5 links", logs.Len())
		}
		for _, path := range []string{
			"/assets/ext/link.txt", "/assets/ext/up.txt", "/assets/ext/dir/secret.txt", "/assets/ext/in.txt",
			"/assets/ext/../" + filepath.Base(outside) + "/secret.txt",
			"/assets/ext/..%2fsecret.txt", "/assets/ext/./a.txt", "/assets/ext//a.txt", "/assets/ext/a.txt/", "/assets/ext/a.txt\x00",
			`/assets/ext/..\secret.txt`, "/assets/ext/dir/../a.txt",
			"/assets/ext/" + outside + "/secret.txt",
		} {
			if w := fetch(p, path); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "secret\n") {
				t.Errorf("GET %q = %d %.40q, want 404", path, w.Code, w.Body)
			}
		}
		if got := signIn(t, p, "", "nl"); got.title != "Sign in" {
			t.Errorf("title = %q, want ours", got.title)
		}
		if w := fetch(p, "/assets/ext/a.txt"); w.Code != http.StatusOK {
			t.Errorf("a.txt = %d, want 200", w.Code)
		}
	})
	t.Run("attack 256: a hundred reloads while pages are shown", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		put(t, dir, "default.json", `{"sign_in.title":"v0","sign_in.submit":"v0"}`, "v.txt", "v0")
		p, err := extended(t, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					if err := p.ReloadExtension(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for range 100 {
					r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
					w := httptest.NewRecorder()
					p.Render(w, r, views()["sign_in"])
					if file := fetch(p, "/assets/ext/v.txt"); w.Code != 200 || file.Code != 200 || !strings.Contains(w.Body.String(), "v0") {
						t.Errorf("page = %d, file = %d while reloading", w.Code, file.Code)
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("too many files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		for i := range 1001 {
			put(t, dir, fmt.Sprintf("%d.txt", i), "x")
		}
		p, err := extended(t, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.ExtensionFault(); err == nil || !strings.Contains(err.Error(), "more than 1000 files") {
			t.Errorf("ExtensionFault = %v, want the bound of the files", err)
		}
	})
}

// TestExtensionFilesThatAreBroken: what is wrong with a file of texts has its line.
func TestExtensionFilesThatAreBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"no comma":               {"{\n\"a\": \"x\"\n\n\"b\": \"y\"\n}", "nl.json:4: not JSON: invalid character '\"' after object key:value pair"},
		"comma at the end":       {"{\n\"a\": \"x\",\n}", "nl.json:3: not JSON: invalid character '}'"},
		"a line break in a text": {"{\n\"a\": \"x\ny\"\n}", "nl.json:2: not JSON: invalid character '\\n' in string literal"},
		"comment":                {"{\r\n\"a\": \"x\",\r\n// b\r\n}", "nl.json:3: not JSON: invalid character '/'"},
		"not closed":             {"{\n\"a\": \"x\"\n", "nl.json:2: not JSON: unexpected end"},
		"two values":             {"{\n}\n{}", "nl.json:3: not JSON: invalid character '{' after top-level value"},
		"empty":                  {"", "nl.json:1: not JSON: unexpected end"},
		"Latin-1":                {"{\n\"a\": \"caf\xe9\"}", "nl.json:2: not JSON: not UTF-8"},
		"a number":               {"{\n\"a\": \"x\",\n\"sign_in.title\": 1}", "nl.json:3: \"sign_in.title\": must be a string"},
		"texts in texts":         {"{\n\"a\": \"x\",\n\"sign_in\": {\n\"title\": \"x\"}}", "nl.json:3: \"sign_in\": must be a string"},
		"twice":                  {"{\n\"a\": \"x\",\n\"a\": \"y\"}", "nl.json:3: \"a\": "},
		"a list":                 {"\n[]", "nl.json:1: must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "nl.json", c.file)
			p, err := extended(t, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.ExtensionFault(); got == nil || !strings.HasPrefix(got.Error(), c.want) {
				t.Errorf("ExtensionFault = %v\nwant %s…", got, c.want)
			}
		})
	}
}

// TestExtensionNamesTexts: a text that no page would show is left out and named with its line, the others of the file
// count, and keys of names that an operator chooses, or that nothing here is like, are kept.
func TestExtensionNamesTexts(t *testing.T) {
	t.Parallel()
	const file = "{\n\t\"sign_in.title\": \"Kom binnen\",\n\t\"sign_in.tilte\": \"Kom in\",\n\n\t\"scope.orders.read\": \"Orders\",\n" +
		"\t\"another.system.greeting\": \"x\", \"sign_in.pasword\": \"y\",\n\t\"a b\": \"\"\n}\n"
	for _, name := range []string{"default.json", "en.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, name, file)
			p, err := extended(t, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			const meant = "it is the key of no text: did you mean "
			want := name + ":3: \"sign_in.tilte\": " + meant + "sign_in.title?\n" + name + ":6: \"sign_in.pasword\": " + meant +
				"sign_in.password?\n" + name + ":7: \"a b\": the key must have 1 to 128 letters, digits and . _ : -"
			if got := p.ExtensionFault(); got == nil || got.Error() != want {
				t.Errorf("ExtensionFault = %v\nwant %s", got, want)
			}
			if err := p.ReloadExtension(t.Context()); err == nil || !strings.Contains(err.Error(), name+":3:") {
				t.Errorf("ReloadExtension = %v, want the line", err)
			}
			if got := signIn(t, p, "").title; got != "Kom binnen" {
				t.Errorf("title = %q, want the text of the file", got)
			}
		})
	}
}
