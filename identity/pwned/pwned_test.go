package pwned_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/pwned"
)

const known = "correct horse battery staple"

func digits(password string) string {
	sum := sha1.Sum([]byte(password))
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// service answers with lines of hashes; asked holds what it was asked.
func service(t *testing.T, answer http.HandlerFunc) (srv *httptest.Server, asked *[]*http.Request) {
	t.Helper()
	asked = new([]*http.Request)
	srv = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r)
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

func list(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "%s:0\r\n%s:52\r\n%s:0\r\n", strings.Repeat("0", 35), digits(known)[5:], digits("only padding")[5:])
}

func checker(t *testing.T, c pwned.Config, client *http.Client) *pwned.Checker {
	t.Helper()
	b, err := pwned.New(c, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (w want) check(t *testing.T, b *pwned.Checker) {
	t.Helper()
	for password, want := range w {
		if got, err := b.Breached(t.Context(), password); got != want || err != nil {
			t.Errorf("Breached(%q) = %t, %v, want %t", password, got, err, want)
		}
	}
}

type want map[string]bool

func TestService(t *testing.T) {
	t.Parallel()
	srv, asked := service(t, list)
	b := checker(t, pwned.Config{URL: srv.URL + "/range/", Timeout: time.Minute}, srv.Client())
	want{known: true, "nobody knows this one": false, "only padding": false}.check(t, b)

	t.Run("attack 228: what goes to the service", func(t *testing.T) {
		*asked = nil
		want{known: true}.check(t, b)
		r := (*asked)[0]
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 || r.Method != http.MethodGet {
			t.Errorf("%s with %d bytes, %v, want a GET without a body", r.Method, len(body), err)
		}
		if want := "/range/" + digits(known)[:5]; r.RequestURI != want {
			t.Errorf("asked for %s, want %s", r.RequestURI, want)
		}
		if r.Header.Get("Add-Padding") != "true" {
			t.Errorf("Add-Padding = %q, want true", r.Header.Get("Add-Padding"))
		}
		for name := range r.Header {
			if !slices.Contains([]string{"Add-Padding", "User-Agent", "Accept-Encoding"}, name) {
				t.Errorf("the request has a header %s", name)
			}
		}
		stranger := checker(t, pwned.Config{URL: srv.URL + "/range/"}, nil) // which trusts the system's roots alone
		if _, err := stranger.Breached(t.Context(), known); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("Breached at a server with a certificate of its own = %v, want a refusal", err)
		}
	})
}

// TestServiceInTrouble has a service that answers nothing that can be used.
func TestServiceInTrouble(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"attack 229: 429":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) },
		"attack 229: 500":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusInternalServerError) },
		"attack 229: redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"attack 229: HTML":      func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><p>Hello") },
		"attack 229: nothing":   func(http.ResponseWriter, *http.Request) {},
		"attack 229: silence":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"attack 229: 100 MB":    flood,
		"attack 229: half line": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, digits(known)[5:20]) },
		"attack 229: drop":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, _ := service(t, answer)
			b := checker(t, pwned.Config{URL: srv.URL + "/", Timeout: 300 * time.Millisecond}, srv.Client())
			begin := time.Now()
			got, err := b.Breached(t.Context(), known)
			if err == nil || got || strings.Contains(err.Error(), digits(known)[:5]) {
				t.Errorf("Breached = %t, %v, want an error that tells no digits", got, err)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// flood writes lines until the connection is closed.
func flood(w http.ResponseWriter, _ *http.Request) {
	line := bytes.Repeat([]byte(strings.Repeat("A", 35)+":1\r\n"), 1000)
	for range 100 << 20 / len(line) {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestFileOfHashes looks up every line of files of many sizes, and what lies between.
func TestFileOfHashes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 10, 1000} {
		for name, line := range map[string]func(i int, h string) string{
			"bare":    func(_ int, h string) string { return h + "\n" },
			"counted": func(i int, h string) string { return fmt.Sprintf("%s:%d\r\n", h, i*i*i) },
			"lower":   func(i int, h string) string { return strings.ToLower(h) + ":" + strings.Repeat("9", i%20+1) + "\n" },
		} {
			hashes := make([]string, n)
			for i := range hashes {
				hashes[i] = digits(fmt.Sprintf("password %d", i))
			}
			slices.Sort(hashes)
			var b strings.Builder
			for i, h := range hashes {
				b.WriteString(line(i, h))
			}
			text := b.String()
			if n == 3 {
				text = strings.TrimRight(text, "\r\n") // the last line without an end
			}
			c := checker(t, pwned.Config{File: file(t, text)}, nil)
			for i := range n {
				for password, want := range map[string]bool{fmt.Sprintf("password %d", i): true, fmt.Sprintf("other %d", i): false} {
					if got, err := c.Breached(t.Context(), password); got != want || err != nil {
						t.Errorf("%s, %d lines: Breached(%q) = %t, %v, want %t", name, n, password, got, err, want)
					}
				}
			}
		}
	}
}

func TestFileOfPasswords(t *testing.T) {
	t.Parallel()
	c := checker(t, pwned.Config{File: file(t, "123456\r\n\npässword\n"+known+"\nletmein")}, nil)
	want{known: true, "123456": true, "pässword": true, "letmein": true, "": false, "Letmein": false}.check(t, c)
}

func TestFileAndService(t *testing.T) {
	t.Parallel()
	srv, asked := service(t, list)
	c := checker(t, pwned.Config{File: file(t, "letmein\n"), URL: srv.URL + "/", Timeout: time.Minute}, srv.Client())
	want{"letmein": true}.check(t, c)
	if len(*asked) != 0 {
		t.Error("the service was asked for what the file knows")
	}
	want{known: true, "nobody knows this one": false}.check(t, c)
}

// TestFileNeedsNoService: with a file alone no request is made.
func TestFileNeedsNoService(t *testing.T) {
	t.Parallel()
	c := checker(t, pwned.Config{File: file(t, "letmein\n")}, &http.Client{Transport: refusingTransport{t}})
	want{"letmein": true, known: false}.check(t, c)
}

type refusingTransport struct{ *testing.T }

func (r refusingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	r.Error("a request was made")
	return nil, context.Canceled
}

func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	unsorted := strings.Repeat("F", 40) + "\n" + strings.Repeat("0", 40) + "\n"
	for name, c := range map[string]pwned.Config{
		"a URL without a slash": {URL: "https://example.com/range"},
		"a URL with a user":     {URL: "https://u:p@example.com/"},
		"no URL":                {URL: "example.com/"},
		"no file":               {File: filepath.Join(t.TempDir(), "none")},
		"an empty file":         {File: file(t, "")},
		"a directory":           {File: t.TempDir()},
		"unsorted hashes":       {File: file(t, strings.Repeat(unsorted, 300))},
	} {
		b, err := pwned.New(c, nil)
		switch {
		case c.File == "" && err == nil:
			t.Errorf("New with %s succeeded", name)
		case c.File == "":
		case err != nil:
			t.Errorf("New with %s: %v", name, err)
		case b.Fault() == nil:
			t.Errorf("New with %s: Fault = nil", name)
		default:
			if known, err := b.Breached(t.Context(), "password"); known || err == nil {
				t.Errorf("Breached with %s = %v, %v, want an error", name, known, err)
			}
			if err := b.Close(); err != nil {
				t.Errorf("Close with %s: %v", name, err)
			}
		}
	}
}
