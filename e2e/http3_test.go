package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// TestRevocationOverHTTP3: streams over HTTP/3 have no connection that can be cut, and end all the same: an event
// stream and an upload, at once when their token is revoked, while those of another token go on.
func TestRevocationOverHTTP3(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 4)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if _, err := io.ReadFull(r.Body, make([]byte, 5)); err == nil {
				arrived <- struct{}{}
			}
			_, _ = io.Copy(io.Discard, r.Body) // until it ends
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", r.Proto)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer upstream.Close()

	s := &server{}
	s.Key, s.t, s.dir, s.secrets = "", t, t.TempDir(), map[string]string{}
	ports := freePorts(t, 4)
	pool := certify(t, s.dir)
	s.Issuer = fmt.Sprintf("https://localhost:%d", ports[0])
	secret := random(24)
	s.write(fmt.Sprintf(`{
	admin localhost:%d
	persist_config off
	skip_install_trust
	default_bind 127.0.0.1
	grace_period 1s
	auto_https disable_redirects
	https_port %d
	http_port %d
	gatehouse {
		issuer %s
		storage badger %s/data
		scope orders.read
		client reports {
			secret {env.TEST_SECRET}
			grants client_credentials
			scopes orders.read
		}
	}
}

%s {
	tls %s/cert.pem %s/key.pem
	gatehouse
}

https://localhost:%d {
	tls %s/cert.pem %s/key.pem
	protect orders.read
	reverse_proxy %s
}
`, ports[2], ports[0], ports[1], s.Issuer, s.dir, s.Issuer, s.dir, s.dir, ports[3], s.dir, s.dir, upstream.Listener.Addr()))
	s.secret("client secret", secret)
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, "TEST_SECRET="+secret)
	trust := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	plain := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	defer plain.CloseIdleConnections()
	s.until(t, plain, s.Issuer+"/healthz")

	post := func(path string, form url.Values) []byte {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Issuer+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth("reports", secret)
		resp, err := plain.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("POST %s: %d %s, %v", path, resp.StatusCode, body, err)
		}
		return body
	}
	token := func() string {
		var answer struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(post("/oauth/token", url.Values{"grant_type": {"client_credentials"}}), &answer); err != nil {
			t.Fatal(err)
		}
		s.secret("token", answer.AccessToken)
		return answer.AccessToken
	}

	transport := &http3.Transport{TLSClientConfig: trust}
	defer transport.Close()
	client := &http.Client{Transport: transport}
	site := fmt.Sprintf("https://localhost:%d", ports[3])
	ask := func(method, path, token string, body io.Reader) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, site+path, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return client.Do(req)
	}
	// open opens an event stream and an upload, and says when they end and how.
	open := func(token string) (events, upload <-chan error, leave func()) {
		t.Helper()
		resp, err := ask(http.MethodGet, "/events", token, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.Proto != "HTTP/3.0" {
			t.Fatalf("GET /events: %d over %s, want 200 over HTTP/3.0", resp.StatusCode, resp.Proto)
		}
		r := bufio.NewReader(resp.Body)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("the first event is %q, %v", line, err)
		}
		one, other := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, r)
			one <- err
		}()
		from, to := io.Pipe()
		go func() {
			resp, err := ask(http.MethodPost, "/upload", token, from)
			if err == nil {
				resp.Body.Close()
				err = fmt.Errorf("answered with %d", resp.StatusCode)
			}
			other <- err
		}()
		if _, err := io.WriteString(to, "begin"); err != nil {
			t.Fatal(err)
		}
		<-arrived
		return one, other, func() {
			resp.Body.Close()
			to.CloseWithError(errors.New("the test is over")) //nolint:errcheck // it never fails
		}
	}
	mine, others := token(), token()
	events, upload, done := open(mine)
	defer done()
	stays, goesOn, over := open(others)
	defer over()
	post("/oauth/revoke", url.Values{"token": {mine}})
	if err := <-events; err == nil {
		t.Error("the event stream ended as if it were whole")
	}
	if err := <-upload; err == nil || strings.Contains(err.Error(), "answered with 2") {
		t.Errorf("the upload ended with %v, want an error", err)
	}
	select {
	case err := <-stays:
		t.Errorf("the event stream of another token ended, too: %v", err)
	case err := <-goesOn:
		t.Errorf("the upload of another token ended, too: %v", err)
	default:
	}
	if resp, err := ask(http.MethodGet, "/events", mine, nil); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request with the revoked token: %v, %v, want 401", resp, err)
	} else {
		resp.Body.Close()
	}
}
