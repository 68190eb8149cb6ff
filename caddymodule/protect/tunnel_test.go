package protect

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

var handshake = []string{
	"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
}

func TestProtectAttacksOnUpgrades(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "attack 196: a WebSocket without token, with one, and revoked while it is open", func(t *testing.T) {
		g.refused(t, g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: staff.test"}, handshake)...), http.StatusUnauthorized)
		g.refused(t, g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: wiki.localhost:" + g.port}, handshake)...),
			http.StatusUnauthorized)
		for name, end := range map[string]func(in *token.Introspection){
			"revoked":       func(in *token.Introspection) { in.Active = false },
			"group removed": func(in *token.Introspection) { in.Person.Groups = nil },
		} {
			raw := newToken(t, secret.AccessToken)
			g.fake.set(func() { g.fake.tokens[raw] = person(1, "staff") })
			a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: staff.test", "Authorization: Bearer " + raw}, handshake)...)
			if a.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: status = %d, want 101", name, a.StatusCode)
			}
			roundTrip(t, a, "hello")
			asked := 0
			g.fake.set(func() { asked = g.fake.asked })
			roundTrip(t, a, "again")
			g.fake.set(func() { end(g.fake.tokens[raw]) })
			rest, err := io.ReadAll(a.br)
			if err != nil || !bytes.HasPrefix(rest, []byte{0x88, 2, 3, 0xf0}) {
				t.Errorf("%s: the end of the connection was % x, %v, want a close frame 1008", name, rest, err)
			}
			g.fake.set(func() {
				if g.fake.asked == asked {
					t.Errorf("%s: nobody looked again", name)
				}
			})
		}
		if recheckEvery+time.Second > 5*time.Second {
			t.Errorf("open connections are looked at every %v, which is too late", recheckEvery)
		}
		g.take()
		// One that stays good stays open, by cookie too.
		c := g.session(t, "wiki.localhost", person(1))
		a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: wiki.localhost:" + g.port, "Cookie: " + c}, handshake)...)
		asked := 0
		g.fake.set(func() { asked = g.fake.asked })
		for looked := false; !looked; {
			roundTrip(t, a, "still here")
			g.fake.set(func() { looked = g.fake.asked >= asked+3 })
		}
		s := g.take()
		if len(s) != 1 {
			t.Fatalf("the upstream saw %d requests, want 1", len(s))
		}
		none(t, s[0], "Cookie")
		one(t, s[0], "Remote-User", demoName)
		a.conn.Close()
	})
	// The client says what it accepts, so this does not decide whether its stream is looked at again.
	for name, accept := range map[string]string{"an event stream": "text/event-stream", "a stream that never pauses": "*/*"} {
		t.Run(name+" ends with its token", func(t *testing.T) {
			g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
			g.reply("/ticks", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
			path := map[string]string{"text/event-stream": "/events", "*/*": "/ticks"}[accept]
			raw := newToken(t, secret.AccessToken)
			g.fake.set(func() { g.fake.tokens[raw] = person(1) })
			conn := caddytest.Dial(t, g.addr)
			if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: open.test\r\nAccept: "+accept+"\r\nAuthorization: Bearer "+
				raw+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			first := make([]byte, 9)
			if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "data: 1\n\n" {
				t.Fatalf("the first event is %q, %v: it was held back", first, err)
			}
			g.fake.set(func() { delete(g.fake.tokens, raw) })
			if _, err := io.ReadAll(res.Body); err == nil {
				t.Log("the stream ended cleanly")
			} else if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
				t.Error("the stream goes on")
			}
			g.take()
		})
	}
	g.attack(t, "attack 197: other protocols, broken handshakes and early data", func(t *testing.T) {
		for _, lines := range [][]string{
			{"Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"},
			{"Upgrade: foo", "Connection: Upgrade"},
			{"Upgrade: websocket, foo", "Connection: Upgrade"},
			{"Upgrade: websocket", "Upgrade: foo", "Connection: Upgrade"},
			{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 12", "Sec-WebSocket-Key: eA=="},
			{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"},
			{"Upgrade: TLS/1.2", "Connection: upgrade"},
		} {
			early := "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: open.test\r\nAuthorization: Bearer " + g.user
			conn := caddytest.Dial(t, g.addr)
			a := exchange(t, conn, strings.Join(slices.Concat([]string{"GET /up HTTP/1.1", "Host: open.test", "Authorization: Bearer " + g.user},
				lines), "\r\n")+early+"\r\n\r\n")
			if !a.Close {
				t.Errorf("%q: the connection goes on", lines)
			}
			s := g.passed(t, a)
			none(t, s, "Upgrade", "HTTP2-Settings")
			if s.target != "/up" {
				t.Errorf("the upstream saw %q", s.target)
			}
			// What was sent ahead of a refusal is no request either.
			conn = caddytest.Dial(t, g.addr)
			a = exchange(t, conn, strings.Join(slices.Concat([]string{"GET /up HTTP/1.1", "Host: open.test"}, lines), "\r\n")+early+"\r\n\r\n")
			if g.refused(t, a, http.StatusUnauthorized); !a.Close {
				t.Errorf("%q: the connection goes on after 401", lines)
			}
		}
		a := g.raw(t, "POST /up HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user, "Upgrade: websocket", "Connection: Upgrade",
			"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==", "Content-Length: 0")
		none(t, g.passed(t, a), "Upgrade")
		// An upstream that leaves HTTP without being asked gets no tunnel.
		g.reply("/trick", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n")
		conn := caddytest.Dial(t, g.addr)
		if _, err := io.WriteString(conn, "GET /trick HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\nAuthorization: Bearer "+g.user+
			"\r\n\r\nping"); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(conn); err != nil || strings.Contains(string(all), "ping") || strings.HasPrefix(string(all), "HTTP/1.1 101") {
			t.Errorf("a raw tunnel stands: %q, %v", all, err)
		}
	})
}

func roundTrip(t *testing.T, a answer, text string) {
	t.Helper()
	if _, err := io.WriteString(a.conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(a.br, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v, want %q", got, err, text)
	}
}

// h2 sends one request over HTTP/2 with prior knowledge, field by field as given, and returns its status, or "error"
// when the stream or the connection was ended.
func (g *gateway) h2(t *testing.T, body []byte, fields ...string) string {
	t.Helper()
	conn := caddytest.Dial(t, g.addr)
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(conn, conn)
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
		EndStream: body == nil,
	}); err != nil {
		t.Fatal(err)
	}
	if body != nil {
		if err := fr.WriteData(1, true, body); err != nil {
			t.Fatal(err)
		}
	}
	status := ""
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			status = f.Value
		}
	})
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return "error"
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if _, err := dec.Write(f.HeaderBlockFragment()); err != nil {
				t.Fatal(err)
			}
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "error"
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if err := fr.WriteSettingsAck(); err != nil {
					return "error"
				}
			}
		}
	}
}

func TestProtectAttacksOverHTTP2(t *testing.T) {
	g := startGateway(t)
	request := func(more ...string) []string {
		return slices.Concat([]string{
			":method", "GET", ":scheme", "http", ":authority", "open.test", ":path", "/x", "authorization",
			"Bearer " + g.user,
		}, more)
	}
	refused := func(t *testing.T, name, got string, want ...string) {
		t.Helper()
		if s := g.take(); !slices.Contains(want, got) || len(s) > 0 {
			t.Errorf("%s: %s, the upstream saw %d requests, want one of %q and none", name, got, len(s), want)
		}
	}
	passed := func(t *testing.T, got string) seen {
		t.Helper()
		s := g.take()
		if got != "200" || len(s) != 1 {
			t.Fatalf("status = %s, the upstream saw %d requests, want 200 and 1", got, len(s))
		}
		return s[0]
	}
	g.attack(t, "attack 186: identity as a pseudo header or trailer of HTTP/2", func(t *testing.T) {
		one(t, passed(t, g.h2(t, nil, request("remote-user", "admin", "remote_user", "admin")...)), "Remote-User", demoName)
		refused(t, "pseudo header", g.h2(t, nil, slices.Concat([]string{":remote-user", "admin"}, request())...), "error", "400")
		s := passed(t, g.h2(t, []byte("hi"), request("trailer", "remote-user")...))
		one(t, s, "Remote-User", demoName)
	})
	g.attack(t, "attack 198: CONNECT over HTTP/2 without a token", func(t *testing.T) {
		refused(t, "extended", g.h2(t, []byte{}, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "open.test",
			":path", "/ws"), "401", "400", "405", "error")
		refused(t, "plain", g.h2(t, []byte{}, ":method", "CONNECT", ":authority", "open.test"), "405", "400", "error")
		refused(t, "plain with token", g.h2(t, []byte{}, ":method", "CONNECT", ":authority", "open.test", "authorization", "Bearer "+g.user),
			"405", "400", "error")
		refused(t, "another protocol",
			g.h2(t, []byte{}, ":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "http", ":authority", "open.test", ":path", "/",
				"authorization", "Bearer "+g.user), "405", "400", "error")
	})
	g.attack(t, "attack 199: broken HTTP/2 requests", func(t *testing.T) {
		for name, more := range map[string][]string{
			"upper case": {"X-Upper", "1"}, "line break": {"x", "a\r\nremote-user: admin"}, "NUL": {"x", "a\x00b"},
			"transfer-encoding": {"transfer-encoding", "chunked"},
			"connection":        {"connection", "x-auth-user"}, "duplicate path": {":path", "/other"},
		} {
			refused(t, name, g.h2(t, nil, request(more...)...), "error", "400")
		}
		refused(t, "duplicate method", g.h2(t, nil, slices.Concat([]string{":method", "POST"}, request())...), "error", "400")
		refused(t, "wrong length", g.h2(t, []byte("longer than five"), ":method", "POST", ":scheme", "http", ":authority", "open.test", ":path",
			"/x", "content-length", "5"), "error", "400", "401")
		// Host next to :authority selects nothing.
		got := g.h2(t, nil, ":method", "GET", ":scheme", "http", ":authority", "open.test", ":path", "/public/x", "host", "public.test")
		refused(t, "host", got, "401", "400", "error")
		// Cookies in crumbs are one header.
		c := g.session(t, "wiki.localhost", person(1))
		s := passed(t, g.h2(t, nil, ":method", "GET", ":scheme", "http", ":authority", "wiki.localhost:"+g.port, ":path", "/", "cookie", "a=1",
			"cookie", c, "cookie", "b=2"))
		one(t, s, "Cookie", "a=1; b=2")
	})
	g.attack(t, "attack 217: request targets that are no path", func(t *testing.T) {
		for _, path := range []string{"", "x", "public/x", "*", "http://open.test/x", "//"} {
			got := g.h2(t, nil, ":method", "GET", ":scheme", "http", ":authority", "open.test", ":path", path)
			refused(t, path, got, "400", "401", "error")
		}
		for _, target := range []string{"x", "public/x", "", "?x"} {
			g.refused(t, g.raw(t, "GET "+target+" HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user), http.StatusBadRequest)
		}
	})
}
