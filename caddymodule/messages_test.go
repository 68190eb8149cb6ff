package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const opsSecret = "the-secret-of-the-administrator-here"

// configured is a server whose configuration API the client admin may use.
func configured(t *testing.T, extra string) *server {
	t.Helper()
	s := newServer(t)
	s.extra = extra + "\napi_client admin {\n\tsecret " + opsSecret + "\n\tapis configuration events credentials persons policies access access_decisions statistics storage sessions assurance\n}\n"
	return s
}

// call makes a request to an API as admin. body nil: none.
func (s *server) call(method, path string, body any, headers ...string) (*http.Response, string) {
	s.t.Helper()
	raw := []byte(nil)
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			s.t.Fatal(err)
		}
	}
	r := s.request(method, s.issuer()+path, strings.NewReader(string(raw)))
	r.SetBasicAuth("admin", opsSecret)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.do(r)
}

func (s *server) mustCall(method, path string, body any, want int) string {
	s.t.Helper()
	resp, text := s.call(method, path, body)
	if resp.StatusCode != want {
		s.t.Fatalf("%s %s = %d %s, want %d", method, path, resp.StatusCode, text, want)
	}
	return text
}

var heading = regexp.MustCompile(`<h1>([^<]*)</h1>`)

// title returns the language and the heading of the page that says that there is nothing, for a browser that asks for
// these languages.
func (s *server) title(languages string) (lang, title string) {
	s.t.Helper()
	r := s.request(http.MethodGet, s.issuer()+"/nowhere", nil)
	r.Header.Set("Accept-Language", languages)
	resp, body := s.do(r)
	m := heading.FindStringSubmatch(body)
	if m == nil {
		s.t.Fatalf("page = %d %s", resp.StatusCode, body)
	}
	return resp.Header.Get("Content-Language"), m[1]
}

func (s *server) wantTitle(languages, lang, title string) {
	s.t.Helper()
	if gotLang, got := s.title(languages); gotLang != lang || got != title {
		s.t.Errorf("page for %q = %s %q, want %s %q", languages, gotLang, got, lang, title)
	}
}

// TestCustomMessages: what the configuration API takes is on the very next page, by variant, country, language and
// default.
func TestCustomMessages(t *testing.T) {
	s := configured(t, "")
	s.mustLoad()
	const path, key = "/api/v2/config/custom-messages", "error.not_found.title"
	s.wantTitle("nl", "en", "Page not found")
	s.mustCall(http.MethodPut, path+"/nl/batch", map[string]string{key: "Niets <b>hier</b> {{.}} {env.HOME}"}, http.StatusNoContent)
	s.wantTitle("nl-NL", "nl", "Niets &lt;b&gt;hier&lt;/b&gt; {{.}} {env.HOME}")
	s.wantTitle("de", "en", "Page not found")
	s.mustCall(http.MethodPut, path+"/default/batch", map[string]string{key: "Nothing, by default"}, http.StatusNoContent)
	s.wantTitle("de", "en", "Nothing, by default")
	s.mustCall(http.MethodPut, path+"/nl_BE/batch", map[string]string{key: "Niets in België"}, http.StatusNoContent)
	s.wantTitle("nl-BE", "nl-BE", "Niets in België")
	s.mustCall(http.MethodPut, path+"/es_MX_informal/batch", map[string]string{key: "Nada, amigo"}, http.StatusNoContent)
	s.wantTitle("es-MX", "en", "Nothing, by default")
	s.mustCall(http.MethodDelete, path+"/nl/"+key, nil, http.StatusNoContent)
	s.wantTitle("nl", "nl-BE", "Niets in België") // the nearest that is left
	// The messages of version 1 come behind.
	s.mustCall(http.MethodPost, "/api/v2/config", map[string]any{"messages": map[string]any{"fr": map[string]string{key: "Rien"}, "nl_BE": map[string]string{key: "weaker"}}}, http.StatusNoContent)
	s.wantTitle("fr", "fr", "Rien")
	s.wantTitle("nl-BE", "nl-BE", "Niets in België")
	s.mustCall(http.MethodPut, path, map[string]any{"default": map[string]string{}, "locales": map[string]any{}}, http.StatusNoContent)
	s.wantTitle("en", "en", "Page not found")
}

// TestLocales: the languages of the Caddyfile, the first of them by default.
func TestLocales(t *testing.T) {
	s := configured(t, "")
	s.inIdentity = "locales nl de en"
	s.mustLoad()
	s.wantTitle("", "nl", "Pagina niet gevonden")
	s.wantTitle("de-AT", "de", "Seite nicht gefunden")
	s.wantTitle("fr", "nl", "Pagina niet gevonden")
	s.wantTitle("en-GB", "en", "Page not found")
}

// TestExtension: messages and files of the directory, read again by the API, and only whole.
func TestExtension(t *testing.T) {
	s := configured(t, "")
	dir := filepath.Join(s.dir, "extension")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":"Here is nothing"}`, 0o600)
	writeFile(t, filepath.Join(dir, "hello.txt"), "hello", 0o600)
	writeFile(t, filepath.Join(s.dir, "secret.txt"), "secret", 0o600)
	s.inIdentity = "extension " + dir
	s.mustLoad()
	s.wantTitle("en", "en", "Here is nothing")
	if resp, body := s.get("/assets/ext/hello.txt"); resp.StatusCode != http.StatusOK || body != "hello" {
		t.Errorf("hello.txt = %d %q", resp.StatusCode, body)
	}
	// The configuration API is stronger.
	s.mustCall(http.MethodPut, "/api/v2/config/custom-messages/default/batch", map[string]string{"error.not_found.text": "By API"}, http.StatusNoContent)
	s.wantTitle("en", "en", "Here is nothing")

	const reload = "/api/config/extension/reload"
	writeFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":`, 0o600)
	s.mustCall(http.MethodPost, reload, nil, http.StatusInternalServerError)
	s.wantTitle("en", "en", "Here is nothing")
	writeFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":"Nothing new"}`, 0o600)
	writeFile(t, filepath.Join(dir, "hello.txt"), "hello again", 0o600)
	s.wantTitle("en", "en", "Here is nothing")
	s.mustCall(http.MethodPost, reload, nil, http.StatusOK)
	s.wantTitle("en", "en", "Nothing new")
	if _, body := s.get("/assets/ext/hello.txt"); body != "hello again" {
		t.Errorf("hello.txt = %q, want the new one", body)
	}
	t.Run("attack 256: reloads one after the other with traffic, and paths that lead outside", func(t *testing.T) {
		if err := os.Symlink(filepath.Join(s.dir, "secret.txt"), filepath.Join(dir, "link.txt")); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					if resp, body := s.call(http.MethodPost, reload, nil); resp.StatusCode != http.StatusOK {
						t.Errorf("reload = %d %s", resp.StatusCode, body)
					}
					if resp, body := s.get("/assets/ext/hello.txt"); resp.StatusCode != http.StatusOK || body != "hello again" {
						t.Errorf("hello.txt while reloading = %d %q", resp.StatusCode, body)
					}
				}
			})
		}
		wg.Wait()
		for _, path := range []string{"link.txt", "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "..%5csecret.txt", "hello.txt%00.png", "./hello.txt/../../secret.txt", "default.json"} {
			r := s.request(http.MethodGet, s.issuer()+"/assets/ext/x", nil)
			r.URL.Opaque = "//" + s.addr + "/assets/ext/" + path
			if resp, body := s.do(r); resp.StatusCode == http.StatusOK || body == "secret" {
				t.Errorf("GET %s = %d %.60q, want nothing", path, resp.StatusCode, body)
			}
		}
	})
	// A directory that is gone stops the next configuration, not this one.
	s.inIdentity = "extension " + dir + "-gone"
	if err := s.load(); err == nil {
		t.Error("load with a directory that is not there = nil, want an error")
	}
	s.wantTitle("en", "en", "Nothing new")
}
