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

// minSecret is the least length of a secret: a shorter one would be found by chance.
const minSecret = 8

// leaks returns the names of the secrets in a log, plain or escaped for a URL or JSON. It reads the log once, for all
// secrets.
func leaks(log []byte, secrets map[string]string) []string {
	type form struct{ text, secret string }
	start := func(text []byte) [minSecret]byte { return [minSecret]byte(text[:minSecret]) }
	forms := map[[minSecret]byte][]form{}
	for value := range secrets {
		inJSON, _ := json.Marshal(value) // a string always marshals
		texts := []string{value, url.QueryEscape(value), string(inJSON[1 : len(inJSON)-1])}
		slices.Sort(texts)
		for _, text := range slices.Compact(texts) {
			forms[start([]byte(text))] = append(forms[start([]byte(text))], form{text, value})
		}
	}
	var out []string
	found := map[string]bool{}
	for i := range max(0, len(log)-minSecret+1) {
		for _, f := range forms[start(log[i:])] {
			if found[f.secret] || !bytes.HasPrefix(log[i:], []byte(f.text)) {
				continue
			}
			found[f.secret] = true
			around := log[max(0, i-200):min(len(log), i+len(f.text)+50)]
			out = append(out, fmt.Sprintf("the log holds a secret (%s): …%s…", secrets[f.secret],
				bytes.ReplaceAll(around, []byte(f.text), []byte("<HERE>"))))
		}
	}
	slices.Sort(out)
	return out
}

// TestLeaks checks that the search works.
func TestLeaks(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"gh_abc/def": "a token", "never-seen": "a code"}
	for name, log := range map[string]string{
		"as it is": `{"msg":"x","token":"gh_abc/def"}`,
		"in a URL": `{"uri":"/cb?code=gh_abc%2Fdef&state=1"}`,
		"twice":    `gh_abc/def gh_abc/def`,
	} {
		if got := leaks([]byte("first\n"+log+"\nlast"), secrets); len(got) != 1 || strings.Contains(got[0], "abc") {
			t.Errorf("leaks(%s) = %q, want one that does not repeat the secret", name, got)
		}
	}
	if got := leaks([]byte("the end is gh_abc/def"), secrets); len(got) != 1 {
		t.Errorf("leaks at the end = %q, want one", got)
	}
	for _, log := range []string{"", "nothing", "nothing like it", "gh_abc/de"} {
		if got := leaks([]byte(log), secrets); len(got) != 0 {
			t.Errorf("leaks(%q) = %q, want none", log, got)
		}
	}
}

// secret records a value that must not be in any log.
func (s *server) secret(name, value string) {
	if len(value) < minSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[value] = name
}

// client returns an HTTP client that follows no redirects and records the secrets in requests and answers.
func (s *server) client() *http.Client {
	return &http.Client{
		Transport:     watch{s, http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// watch is a transport that records the server's secrets: cookies, codes in addresses, tokens in JSON.
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

// secretsOf records the one-time codes and tokens in an address.
func (s *server) secretsOf(u *url.URL) {
	for name, values := range u.Query() {
		if strings.Contains(name, "code") && !strings.HasPrefix(name, "code_challenge") || strings.Contains(name, "token") {
			for _, v := range values {
				s.secret("query parameter "+name, v)
			}
		}
	}
}
