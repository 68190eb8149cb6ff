package doctor

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// markHeader tells the upstream which probe a request is.
const markHeader = "Gatehouse-Doctor"

const (
	maxHead   = 256 << 10        // bytes of a request or an answer that are read
	upstreams = 10 * time.Second // for one request to be read
)

// upstream stands in for the application and keeps the heads of requests as they arrive. It reads them itself, since a
// server would tidy them up.
type upstream struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu   sync.Mutex // guards seen
	seen map[string]*received
}

// received is a request that has arrived.
type received struct {
	line   string // method and target
	header [][2]string
}

func record(ctx context.Context, address string) (*upstream, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	u := &upstream{listener: l, seen: map[string]*received{}}
	u.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			u.conns.Go(func() { u.serve(conn) })
		}
	})
	return u, nil
}

func (u *upstream) address() string { return u.listener.Addr().String() }

func (u *upstream) close() {
	u.listener.Close() //nolint:errcheck // it only listened
	u.conns.Wait()
}

func (u *upstream) serve(conn net.Conn) {
	defer conn.Close()                                                  //nolint:errcheck // answered or given up
	if err := conn.SetDeadline(time.Now().Add(upstreams)); err != nil { //nolint:forbidigo // of a socket
		return
	}
	br := bufio.NewReader(io.LimitReader(conn, maxHead))
	a := new(received)
	for first := true; ; first = false {
		line, err := br.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch {
		case first:
			a.line, _, _ = strings.Cut(line, " HTTP/")
			continue
		case line != "":
			name, value, _ := strings.Cut(line, ":")
			a.header = append(a.header, [2]string{name, strings.TrimSpace(value)})
			continue
		}
		break
	}
	// Kept before it is answered: the proxy hands the answer on, and then it is asked for.
	u.mu.Lock()
	u.seen[a.value(markHeader)] = a
	u.mu.Unlock()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\nConnection: close\r\n\r\nrecorded\n")
}

// take returns the request of a probe, or nil.
func (u *upstream) take(id string) *received {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.seen[id]
	delete(u.seen, id)
	return a
}

// value returns the values of a header under exactly this name.
func (a *received) value(name string) string {
	var out []string
	for _, h := range a.header {
		if strings.EqualFold(h[0], name) && h[1] != "" {
			out = append(out, h[1])
		}
	}
	return strings.Join(out, ", ")
}

// carries returns the header that has the made-up value, among those that software takes for one of the names.
func (a *received) carries(marker string, names []string) string {
	for _, h := range a.header {
		same := func(name string) bool { return folded(name) == folded(h[0]) }
		if strings.Contains(h[1], marker) && slices.ContainsFunc(names, same) {
			return h[0]
		}
	}
	return ""
}

// folded writes the names alike that CGI, PHP and others take for one.
func folded(name string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return '-'
		}
		return unicode.ToLower(c)
	}, strings.TrimSpace(name))
}

// identity lists the identity headers without their values, which are no one's business here.
func (a *received) identity(names []string) string {
	var out []string
	for _, name := range names {
		if a.value(name) != "" {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return "no identity header"
	}
	return strings.Join(out, ", ")
}
