package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// posts is an upstream with forms, which keeps what is sent.
type posts struct {
	mu   sync.Mutex // guards seen
	seen []sentForm
}

type sentForm struct{ uri, kind, user, body string }

func (p *posts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		p.seen = append(p.seen, sentForm{r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("Remote-User"), string(body)})
		p.mu.Unlock()
		http.Redirect(w, r, "thanks", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'self'")
	fmt.Fprint(w, `<!doctype html><html lang="en"><title>Notes</title><main><h1>Notes</h1>
<form id="plain" method="post" action="save?draft=1&amp;x=%2F"><input name="title"><textarea name="text">draft</textarea><button>Save</button></form>
<form id="file" method="post" action="attach" enctype="multipart/form-data"><input type="file" name="f"><button>Attach</button></form></main></html>`)
}

func (p *posts) take() []sentForm {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.seen
	p.seen = nil
	return out
}

// TestKeptForm: a person types, the session is ended meanwhile, and what was typed reaches the site once all the same.
func TestKeptForm(t *testing.T) {
	t.Parallel()
	notes := new(posts)
	upstream := httptest.NewServer(notes)
	t.Cleanup(upstream.Close)
	s := startEdited(t, "", func(caddyfile string) string {
		before, site, _ := strings.Cut(caddyfile, "		login\n	}\n	reverse_proxy ")
		_, after, _ := strings.Cut(site, "\n")
		return before + "		login\n		replay on\n	}\n	reverse_proxy " + upstream.Listener.Addr().String() + "\n" + after
	})
	for name, scripts := range map[string]bool{"with scripts": true, "without scripts": false} {
		t.Run(name, func(t *testing.T) {
			b := s.browse(t)
			b.open(s.Wiki + "/notes/")
			b.signIn(person, s.Password)
			write := func() {
				b.open(s.Wiki + "/notes/")
				b.fill("[name=title]", "Entrée & sœur = 100 %")
				b.fill("[name=text]", "one\ntwo + three")
			}
			// The reference: what arrives while the session lasts.
			write()
			b.click("#plain button")
			want := notes.take()
			if len(want) != 1 || want[0].uri != "/notes/save?draft=1&x=%2F" {
				t.Fatalf("with a session %+v arrived", want)
			}
			write()
			s.endSessions()
			if !scripts {
				call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			}
			if status := b.click("#plain button"); status != http.StatusUnauthorized || !strings.Contains(b.text("main"), "kept for 10 minutes") {
				t.Fatalf("after the end of the session the form answers %d: %s", status, b.text("main"))
			}
			if scripts {
				look(b, "kept-form-")("signed-out")
			}
			b.click("main a.button")
			b.signIn(person, s.Password)
			if text := b.text("main"); !strings.Contains(text, "Send what you entered?") ||
				!strings.Contains(text, "/notes/save") || len(notes.take()) != 0 {
				t.Fatalf("after the sign-in at %s: %s", b.location(), text)
			}
			if scripts {
				look(b, "kept-form-")("question")
			}
			page := b.location()
			b.click("main form button")
			if got := b.location(); got != s.Wiki+"/notes/thanks" {
				t.Errorf("the answer leads to %s, want the one next to the form", got)
			}
			if got := notes.take(); len(got) != 1 || got[0] != want[0] {
				t.Errorf("after the sign-in %+v arrived, want once %+v", got, want[0])
			}
			if status := b.open(page); status != http.StatusGone || len(notes.take()) != 0 {
				t.Errorf("the page answers %d after the form was sent, want 410", status)
			}
			if scripts {
				look(b, "kept-form-")("gone")
			}
		})
	}
	t.Run("a small file", func(t *testing.T) {
		b := s.browse(t)
		b.open(s.Wiki + "/notes/")
		b.signIn(person, s.Password)
		content := "\x00\xff\r\n--" + strings.Repeat("bytes ", 20000)
		file := filepath.Join(t.TempDir(), "notes.bin")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.SetUploadFiles(chromedp.CSS("[name=f]"), []string{file}))
		s.endSessions()
		if status := b.click("#file button"); status != http.StatusUnauthorized {
			t.Fatalf("after the end of the session the form answers %d", status)
		}
		b.click("main a.button")
		b.signIn(person, s.Password)
		b.click("main form button")
		got := notes.take()
		if len(got) != 1 || got[0].uri != "/notes/attach" || !strings.HasPrefix(got[0].kind, "multipart/form-data; boundary=") ||
			!strings.Contains(got[0].body, content) || got[0].user != person {
			t.Errorf("%d forms arrived, want one with the whole file", len(got))
		}
	})
}

// endSessions ends the sessions of everybody, by command.
func (s *server) endSessions() {
	s.t.Helper()
	var all []struct {
		ID string `json:"id"`
	}
	if out := s.must("", "session", "list", "--json"); json.Unmarshal([]byte(out), &all) != nil || len(all) == 0 {
		s.t.Fatalf("session list = %s", out)
	}
	for _, session := range all {
		s.must("", "session", "end", "--", session.ID) // an id can begin with -
	}
}
