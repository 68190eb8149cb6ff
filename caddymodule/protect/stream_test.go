package protect

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// ends are the ways in which a credential that has been accepted is not accepted any more.
var ends = map[string]func(f *fakeAuthority, raw string){
	"revoked":                func(f *fakeAuthority, raw string) { delete(f.tokens, raw) },
	"the lookup fails":       func(f *fakeAuthority, _ string) { f.err = errors.New("storage is down") },
	"the lookup panics":      func(f *fakeAuthority, _ string) { f.panics = true },
	"nobody is there to ask": func(f *fakeAuthority, _ string) { f.gone = errors.New("the configuration has stopped") },
}

func (f *fakeAuthority) fix() { f.set(func() { f.err, f.panics, f.gone = nil, false, nil }) }

// A WebSocket that stands open ends when its credential can no longer be told to be good.
func TestWebSocketEnds(t *testing.T) {
	g := startGateway(t)
	for name, end := range ends {
		raw := newToken(t, secret.AccessToken)
		g.fake.set(func() { g.fake.tokens[raw] = person(1) })
		a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: open.test", "Authorization: Bearer " + raw}, handshake)...)
		if a.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: status = %d, want 101", name, a.StatusCode)
		}
		roundTrip(t, a, "hello")
		g.fake.set(func() { end(g.fake, raw) })
		if rest, err := io.ReadAll(a.br); err != nil || !bytes.HasPrefix(rest, []byte{0x88, 2, 3, 0xf0}) {
			t.Errorf("%s: the end of the connection was % x, %v, want a close frame 1008", name, rest, err)
		}
		g.fake.fix()
		g.take()
	}
	g.handled(t, "/ws", len(ends))
}

// handled waits until Caddy has ended so many requests for a path. When it stops, it closes the connections that it has
// left to protocols of their own, without a lock against what copies them.
func (g *gateway) handled(t *testing.T, path string, n int) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(g.log)
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, `"handled request"`) && strings.Contains(line, `"uri":"`+path+`"`) {
				ended++
			}
		}
		if ended >= n {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d requests for %s have ended, want %d", ended, path, n)
		}
	}
}

// A stream that says nothing ends with its credential, whatever its client has said that it accepts: an agent names
// JSON first, a script of a page names nothing.
func TestIdleStreamEnds(t *testing.T) {
	// Chunks, because the proxy looks for more behind a body of known length once that is sent, and counts what it reads
	// without a lock for Caddy's access log.
	const chunked = "Transfer-Encoding: chunked"
	g := startGateway(t)
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\ndata: 1\n\n")
	for what, lines := range map[string][]string{
		"EventSource":      {"GET /events HTTP/1.1", "Accept: text/event-stream"},
		"an agent":         {"POST /events HTTP/1.1", "Accept: application/json, text/event-stream", "Content-Length: 0"},
		"several lines":    {"GET /events HTTP/1.1", "Accept: application/json", "Accept: text/event-stream"},
		"a script":         {"GET /events HTTP/1.1", "Accept: */*"},
		"a script with":    {"POST /events HTTP/1.1", chunked, "Accept: application/json"},
		"without a header": {"GET /events HTTP/1.1"},
	} {
		for name, end := range ends {
			raw := newToken(t, secret.AccessToken)
			g.fake.set(func() { g.fake.tokens[raw] = person(1) })
			conn := caddytest.Dial(t, g.addr)
			request := strings.Join(slices.Concat(lines, []string{"Host: open.test", "Authorization: Bearer " + raw}), "\r\n") + "\r\n\r\n"
			if slices.Contains(lines, chunked) {
				request += "2\r\n{}\r\n0\r\n\r\n"
			}
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			first := make([]byte, 9)
			if _, err := io.ReadFull(res.Body, first); err != nil {
				t.Fatalf("%s: the first event: %v", what, err)
			}
			g.fake.set(func() { end(g.fake, raw) })
			_, err = io.ReadAll(res.Body)
			if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
				t.Errorf("%s, %s: the stream goes on", what, name)
			}
			res.Body.Close()
			g.fake.fix()
			g.take()
		}
	}
}

// The same over HTTP/2, where only the stream ends.
func TestIdleStreamEndsOverHTTP2(t *testing.T) {
	g := startGateway(t)
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = person(1) })
	conn := caddytest.Dial(t, g.addr)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "GET"},
		{":scheme", "http"},
		{":authority", "open.test"},
		{":path", "/events"},
		{"accept", "*/*"},
		{"authorization", "Bearer " + raw},
	} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(fr.WriteSettings(),
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("the stream goes on: %v", err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			if f.StreamEnded() {
				return
			}
			g.fake.set(func() { delete(g.fake.tokens, raw) })
		case *http2.RSTStreamFrame:
			return
		}
	}
}

// A download from the server's own disk is cut off like one that an upstream sends.
func TestDownloadOfFileEnds(t *testing.T) {
	g := startGateway(t)
	const large, endless = 64 << 20, 1 << 40
	for name, size := range map[string]int64{"large": large, "endless": endless} {
		name = filepath.Join(filepath.Dir(g.log), name)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, size)); err != nil {
			t.Fatal(err)
		}
	}
	download := func(name string, size int64, revoke bool) (int64, error) {
		t.Helper()
		raw := newToken(t, secret.AccessToken)
		g.fake.set(func() { g.fake.tokens[raw] = person(1) })
		conn := caddytest.Dial(t, g.addr)
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /"+name+" HTTP/1.1\r\nHost: files.test\r\nAuthorization: Bearer "+raw+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK || res.ContentLength != size {
			t.Fatalf("status = %d, length %d, want 200 and %d", res.StatusCode, res.ContentLength, size)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		g.fake.set(func() {
			if revoke {
				delete(g.fake.tokens, raw)
			}
		})
		return io.Copy(io.Discard, res.Body)
	}
	if n, err := download("large", large, false); n != large-1 || err != nil {
		t.Errorf("a download that is allowed ends after %d bytes with %v", n+1, err)
	}
	if n, err := download("endless", endless, true); err == nil || isTimeout(err) {
		t.Errorf("a download goes on to its end (%d bytes, %v) though the token was revoked", n+1, err)
	}
}

// Our cookies in a second line of the Cookie header let in, or are taken out, like those of the first.
func TestCookiesInSecondLine(t *testing.T) {
	g := startGateway(t)
	const host = "wiki.localhost"
	c := g.session(t, host, person(1))
	s := g.passed(t, g.open(t, host, "/", "Cookie: a=1", "Cookie: "+c+"; b=2"))
	for _, line := range s.values("Cookie") {
		if strings.Contains(line, "gh-") {
			t.Errorf("the upstream saw Cookie %q", line)
		}
	}
	if got := strings.Join(s.values("Cookie"), "; "); got != "a=1; b=2" {
		t.Errorf("the upstream saw Cookie %q, want the others", got)
	}
	// On the way of a request that needs no session they are taken out as well.
	s = g.passed(t, g.raw(t, "GET /public/x HTTP/1.1", "Host: public.test", "Cookie: a=1", "Cookie: "+c))
	one(t, s, "Cookie", "a=1")
	// Two values of one name are none.
	other := cookie.For(g.origin(host)).Name(kindSession) + "=" + newToken(t, secret.SiteSession)
	g.refused(t, g.open(t, host, "/", "Cookie: "+c, "Cookie: "+other), http.StatusFound)
}
