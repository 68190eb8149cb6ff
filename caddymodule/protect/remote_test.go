package protect

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
)

// other is an authorization server elsewhere.
type other struct {
	*httptest.Server

	mu    sync.Mutex // guards all below
	good  map[string]bool
	away  bool
	asked map[string]int
	bound map[string]string // token -> what else is said of it
}

func startOther(t *testing.T) *other {
	t.Helper()
	o := &other{good: map[string]bool{}, bound: map[string]string{}, asked: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.PostFormValue("token")
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.asked[text]++; o.away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"active":%t,"sub":"1","username":"ada","usage_limit":9%s}`, o.good[text], o.bound[text])
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *other) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// site is the configuration of a site whose tokens are those of the other server.
func (o *other) site() string {
	return `"introspect":{"url":"` + o.URL + `","client":"ops","secret":"x"}`
}

// Open connections end when the authorization server elsewhere no longer vouches for their token.
func TestRemoteStreamEnds(t *testing.T) {
	g := startGateway(t)
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
	for _, tt := range []struct { // the last one leaves the server alone for a while
		name string
		end  func(token string)
	}{
		{"revoked", func(token string) { delete(g.other.good, token) }},
		{"the server is away", func(string) { g.other.away = true }},
	} {
		name, token := tt.name, strings.ReplaceAll(tt.name, " ", "-")
		g.other.set(func() { g.other.good[token], g.other.away = true, false })
		ws := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: remote.test", "Authorization: Bearer " + token}, handshake)...)
		if ws.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: status = %d, want 101", name, ws.StatusCode)
		}
		roundTrip(t, ws, "hello")
		conn := caddytest.Dial(t, g.addr)
		if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: remote.test\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 9)); err != nil {
			t.Fatalf("%s: the first event: %v", name, err)
		}
		g.other.set(func() { tt.end(token) })
		if rest, err := io.ReadAll(ws.br); err != nil || !bytes.HasPrefix(rest, []byte{0x88, 2, 3, 0xf0}) {
			t.Errorf("%s: the end of the connection was % x, %v, want a close frame 1008", name, rest, err)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: the stream ended as if it were whole", name)
		}
		g.take()
	}
}

// A token of the issuer here is nothing at a site of another server, and the other way round. A request asks the other
// server once, though it passes two handlers.
func TestRemoteAndLocal(t *testing.T) {
	g := startGateway(t, func(f *fakeAuthority) { f.patient = true })
	g.other.set(func() { g.other.good["theirs"] = true })
	g.refused(t, g.get(t, "remote.test", "/"), http.StatusUnauthorized)
	theirs := func(host string) answer {
		return g.raw(t, "GET / HTTP/1.1", "Host: "+host, "Authorization: Bearer theirs", "Remote-User: root")
	}
	g.refused(t, theirs("open.test"), http.StatusUnauthorized)
	for n := range 3 {
		if s := g.passed(t, theirs("remote.test")); !strings.Contains(s.raw, "Remote-User: ada\r\n") || strings.Contains(s.raw, "root") {
			t.Errorf("the upstream saw %q", s.raw)
		}
		g.other.set(func() {
			if got := g.other.asked["theirs"]; got != n+1 {
				t.Errorf("asked %d times for %d requests through two handlers", got, n+1)
			}
		})
	}
	g.other.set(func() { g.other.away = true })
	a := theirs("remote.test")
	g.refused(t, a, http.StatusServiceUnavailable)
	if a.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}
