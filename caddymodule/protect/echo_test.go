package protect

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

// echo is an upstream that keeps what it really received.
type echo struct {
	addr string

	mu      sync.Mutex // guards what follows
	seen    []seen
	answers map[string]string // by path, the raw answer
}

type seen struct {
	raw     string // of head and body
	method  string
	target  string
	header  [][2]string
	body    string
	trailer http.Header
}

// values returns the values of every header line whose name some server reads as name.
func (s seen) values(name string) (out []string) {
	for _, h := range s.header {
		if fieldname.Same(h[0], name) {
			out = append(out, h[1])
		}
	}
	return out
}

func startEcho(t testing.TB) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String(), answers: map[string]string{}}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(conn, &raw))
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		s := seen{raw: raw.String(), method: req.Method, target: req.RequestURI, body: string(body), trailer: req.Trailer}
		for _, line := range strings.Split(head, "\r\n")[1:] {
			k, v, _ := strings.Cut(line, ":")
			s.header = append(s.header, [2]string{k, strings.TrimSpace(v)})
		}
		raw.Reset()
		e.mu.Lock()
		e.seen = append(e.seen, s)
		answer := cmp.Or(e.answers[req.URL.Path], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		e.mu.Unlock()
		if strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
			answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
		if req.URL.Path == "/ticks" {
			tick := time.NewTicker(fakeRecheck / 4)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, "data: 2\n\n"); err != nil {
					return
				}
			}
		}
		if strings.HasPrefix(answer, "HTTP/1.1 101") || strings.Contains(answer, "text/event-stream") {
			io.Copy(conn, br) //nolint:errcheck // until one side ends it
			return
		}
	}
}

// take returns what has arrived since the last take.
func (e *echo) take() []seen {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.seen
	e.seen = nil
	return s
}

func (e *echo) reply(path, raw string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[path] = raw
}
