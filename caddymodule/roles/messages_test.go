package roles_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

var heading = regexp.MustCompile(`<h1>([^<]*)</h1>`)

// titled returns the language and the heading of the page that says that there is nothing, for a browser that asks for
// these languages.
func titled(s *servertest.Server, languages string) (lang, title string) {
	s.T.Helper()
	r := s.Request(http.MethodGet, s.Issuer()+"/nowhere", nil)
	r.Header.Set("Accept-Language", languages)
	resp, body := s.Do(r)
	m := heading.FindStringSubmatch(body)
	if m == nil {
		s.T.Fatalf("page = %d %s", resp.StatusCode, body)
	}
	return resp.Header.Get("Content-Language"), m[1]
}

func wantTitle(s *servertest.Server, languages, lang, title string) {
	s.T.Helper()
	if gotLang, got := titled(s, languages); gotLang != lang || got != title {
		s.T.Errorf("page for %q = %s %q, want %s %q", languages, gotLang, got, lang, title)
	}
}

// TestCustomMessages: what the configuration API takes is on the very next page, by variant, country, language and
// default.
func TestCustomMessages(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	const path, key = "/api/v2/config/custom-messages", "error.not_found.title"
	wantTitle(s, "nl", "en", "Page not found")
	s.MustCall(http.MethodPut, path+"/nl/batch", map[string]string{key: "Niets <b>hier</b> {{.}} {env.HOME}"}, http.StatusNoContent)
	wantTitle(s, "nl-NL", "nl", "Niets &lt;b&gt;hier&lt;/b&gt; {{.}} {env.HOME}")
	wantTitle(s, "de", "en", "Page not found")
	s.MustCall(http.MethodPut, path+"/default/batch", map[string]string{key: "Nothing, by default"}, http.StatusNoContent)
	wantTitle(s, "de", "en", "Nothing, by default")
	s.MustCall(http.MethodPut, path+"/nl_BE/batch", map[string]string{key: "Niets in België"}, http.StatusNoContent)
	wantTitle(s, "nl-BE", "nl-BE", "Niets in België")
	s.MustCall(http.MethodPut, path+"/es_MX_informal/batch", map[string]string{key: "Nada, amigo"}, http.StatusNoContent)
	wantTitle(s, "es-MX", "en", "Nothing, by default")
	s.MustCall(http.MethodDelete, path+"/nl/"+key, nil, http.StatusNoContent)
	wantTitle(s, "nl", "nl-BE", "Niets in België") // the nearest that is left
	// The messages of version 1 come after them.
	s.MustCall(http.MethodPost, "/api/v2/config",
		map[string]any{"messages": map[string]any{"fr": map[string]string{key: "Rien"}, "nl_BE": map[string]string{key: "weaker"}}},
		http.StatusNoContent)
	wantTitle(s, "fr", "fr", "Rien")
	wantTitle(s, "nl-BE", "nl-BE", "Niets in België")
	s.MustCall(http.MethodPut, path, map[string]any{"default": map[string]string{}, "locales": map[string]any{}}, http.StatusNoContent)
	wantTitle(s, "en", "en", "Page not found")
}

// TestLocales: the languages of the Caddyfile, the first of them by default.
func TestLocales(t *testing.T) {
	s := servertest.Configured(t, "")
	s.InIdentity = "locales nl de en"
	s.MustLoad()
	wantTitle(s, "", "nl", "Pagina niet gevonden")
	wantTitle(s, "de-AT", "de", "Seite nicht gefunden")
	wantTitle(s, "fr", "nl", "Pagina niet gevonden")
	wantTitle(s, "en-GB", "en", "Page not found")
}

// TestExtension: messages and files of the directory, read again by the API, and only whole.
func TestExtension(t *testing.T) {
	s := servertest.Configured(t, "")
	dir := filepath.Join(s.Dir, "extension")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	servertest.WriteFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":"Here is nothing"}`, 0o600)
	servertest.WriteFile(t, filepath.Join(dir, "hello.txt"), "hello", 0o600)
	servertest.WriteFile(t, filepath.Join(s.Dir, "secret.txt"), "secret", 0o600)
	s.InIdentity = "extension " + dir
	s.MustLoad()
	wantTitle(s, "en", "en", "Here is nothing")
	if resp, body := s.Get("/assets/ext/hello.txt"); resp.StatusCode != http.StatusOK || body != "hello" {
		t.Errorf("hello.txt = %d %q", resp.StatusCode, body)
	}
	// The configuration API is stronger.
	s.MustCall(http.MethodPut, "/api/v2/config/custom-messages/default/batch", map[string]string{"error.not_found.text": "By API"},
		http.StatusNoContent)
	wantTitle(s, "en", "en", "Here is nothing")

	const reload = "/api/config/extension/reload"
	servertest.WriteFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":`, 0o600)
	s.MustCall(http.MethodPost, reload, nil, http.StatusInternalServerError)
	wantTitle(s, "en", "en", "Here is nothing")
	servertest.WriteFile(t, filepath.Join(dir, "default.json"), `{"error.not_found.title":"Nothing new"}`, 0o600)
	servertest.WriteFile(t, filepath.Join(dir, "hello.txt"), "hello again", 0o600)
	wantTitle(s, "en", "en", "Here is nothing")
	s.MustCall(http.MethodPost, reload, nil, http.StatusOK)
	wantTitle(s, "en", "en", "Nothing new")
	if _, body := s.Get("/assets/ext/hello.txt"); body != "hello again" {
		t.Errorf("hello.txt = %q, want the new one", body)
	}
	t.Run("attack 256: reloads one after the other with traffic, and paths that lead outside", func(t *testing.T) {
		if err := os.Symlink(filepath.Join(s.Dir, "secret.txt"), filepath.Join(dir, "link.txt")); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 25 {
					if resp, body := s.Call(http.MethodPost, reload, nil); resp.StatusCode != http.StatusOK {
						t.Errorf("reload = %d %s", resp.StatusCode, body)
					}
					if resp, body := s.Get("/assets/ext/hello.txt"); resp.StatusCode != http.StatusOK || body != "hello again" {
						t.Errorf("hello.txt while reloading = %d %q", resp.StatusCode, body)
					}
				}
			})
		}
		wg.Wait()
		for _, path := range []string{
			"link.txt", "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "..%5csecret.txt", "hello.txt%00.png",
			"./hello.txt/../../secret.txt", "default.json",
		} {
			r := s.Request(http.MethodGet, s.Issuer()+"/assets/ext/x", nil)
			r.URL.Opaque = "//" + s.Addr + "/assets/ext/" + path
			if resp, body := s.Do(r); resp.StatusCode == http.StatusOK || body == "secret" {
				t.Errorf("GET %s = %d %.60q, want nothing", path, resp.StatusCode, body)
			}
		}
	})
	// Without the directory the pages are Gatehouse's own.
	s.InIdentity = "extension " + dir + "-gone"
	s.MustLoad()
	s.WantFinding("warning", "Caddyfile:", "identity: extension", "no such file")
	wantTitle(s, "en", "en", "Page not found")
}
