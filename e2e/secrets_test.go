package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// leaks names the secrets that a log holds, as they are or escaped for a URL or JSON.
func leaks(log []byte, secrets map[string]string) []string {
	var out []string
	for value, name := range secrets {
		inJSON, _ := json.Marshal(value) // a string always marshals
		for _, form := range []string{value, url.QueryEscape(value), strings.Trim(string(inJSON), `"`)} {
			if i := bytes.Index(log, []byte(form)); i >= 0 {
				around := log[max(0, i-200):min(len(log), i+len(form)+50)]
				out = append(out, fmt.Sprintf("the log holds a secret (%s): …%s…", name, bytes.ReplaceAll(around, []byte(form), []byte("<HERE>"))))
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestLeaks shows that the search would find what it looks for.
func TestLeaks(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"gh_abc/def": "a token", "never-seen": "a code"}
	for name, log := range map[string]string{
		"as it is": `{"msg":"x","token":"gh_abc/def"}`,
		"in a URL": `{"uri":"/cb?code=gh_abc%2Fdef&state=1"}`,
	} {
		if got := leaks([]byte("first\n"+log+"\nlast"), secrets); len(got) != 1 || strings.Contains(got[0], "abc") {
			t.Errorf("leaks(%s) = %q, want one that does not repeat the secret", name, got)
		}
	}
	if got := leaks([]byte("nothing"), secrets); len(got) != 0 {
		t.Errorf("leaks(nothing) = %q", got)
	}
}

// secret remembers a value that no log may hold.
func (s *server) secret(name, value string) {
	if len(value) < 8 {
		return // too short to be one, and it would be found by chance
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[value] = name
}

// client returns an HTTP client that follows no redirect and remembers the secrets of what passes.
func (s *server) client() *http.Client {
	return &http.Client{
		Transport:     watch{s, http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// watch is a transport that tells the server's secrets apart: cookies, codes in addresses, tokens in JSON.
type watch struct {
	s    *server
	next http.RoundTripper
}

func (w watch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for _, c := range resp.Cookies() {
		w.s.secret("cookie "+c.Name, c.Value)
	}
	if u, err := resp.Location(); err == nil {
		w.s.secretsOf(u)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		var members map[string]any
		if json.Unmarshal(body, &members) == nil {
			for _, name := range []string{"access_token", "refresh_token", "id_token"} {
				if v, ok := members[name].(string); ok {
					w.s.secret(name, v)
				}
			}
		}
	}
	return resp, nil
}

// secretsOf remembers the one-time codes and tokens of an address.
func (s *server) secretsOf(u *url.URL) {
	for name, values := range u.Query() {
		if strings.Contains(name, "code") && !strings.HasPrefix(name, "code_challenge") || strings.Contains(name, "token") {
			for _, v := range values {
				s.secret("query parameter "+name, v)
			}
		}
	}
}
