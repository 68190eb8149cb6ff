package pgtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Fate is the outcome of a statement.
type Fate int

// The fates of a statement.
const (
	Pass      Fate = iota
	Conflict       // it is answered by SQLSTATE 40001, and its transaction is undone
	CutBefore      // the connection is lost before the server sees it
	CutAfter       // the connection is lost after the server has done it, and all that was sent with it
	Refuse         // it is answered by SQLSTATE 0A000: there is no such feature
	Full           // it is answered by SQLSTATE 53100: the disk is full
)

// Proxy stands between a store and a server and decides what becomes of each statement.
type Proxy struct {
	// Rows changes what the server answers. nil: nothing. Set it before use.
	Rows func(*pgproto3.DataRow)

	listener net.Listener
	to       string

	mu     sync.Mutex // guards all below
	decide func(conn int, sql string) Fate
	silent bool // notifications are lost
	trips  int  // round trips so far
	conns  map[net.Conn]bool
	closed bool
	made   int // connections so far
	wg     sync.WaitGroup
}

// NewProxy returns a proxy in front of an address, until the test ends. Without Decide it lets all pass.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		_ = l.Close()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// Address returns the address on which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Decide sets what decides about each statement from now on, one at a time. conn tells connections apart. nil: all
// pass.
func (p *Proxy) Decide(fn func(conn int, sql string) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = fn
}

// Silence loses notifications of the server from now on, or no longer.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
}

func (p *Proxy) loses(kind byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return kind == 'A' && p.silent
}

// Trips returns how many round trips there were so far, those of the background too.
func (p *Proxy) Trips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

func (p *Proxy) fate(conn int, sql string) Fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return Pass
	}
	return p.decide(conn, sql)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			_, _ = client.Close(), server.Close()
		}
		p.conns[client], p.conns[server] = true, true
		p.made++
		number := p.made
		p.wg.Go(func() {
			(&relay{proxy: p, number: number, client: client, server: server, named: map[string]string{}}).run()
		})
		p.mu.Unlock()
	}
}

// relay is one connection.
type relay struct {
	proxy          *Proxy
	number         int
	client, server net.Conn
	named          map[string]string // prepared statements; of the goroutine of statements

	mu    sync.Mutex // guards what follows
	codes []string   // for errors that the server will send because we have spoilt a statement
	after bool       // cut when the server is ready
}

func (r *relay) run() {
	defer func() {
		_, _ = r.client.Close(), r.server.Close()
		r.proxy.mu.Lock()
		delete(r.proxy.conns, r.client)
		delete(r.proxy.conns, r.server)
		r.proxy.mu.Unlock()
	}()
	if !r.begin() {
		return
	}
	r.proxy.wg.Go(r.answers)
	r.statements()
}

// begin passes the first message on, and offers no TLS.
func (r *relay) begin() bool {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(r.client, head); err != nil {
			return false
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head))-8)
		if _, err := io.ReadFull(r.client, body); err != nil {
			return false
		}
		if code := binary.BigEndian.Uint32(head[4:]); code == 80877103 || code == 80877104 { // TLS, GSSAPI
			if _, err := r.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		}
		_, err := r.server.Write(append(head, body...))
		return err == nil
	}
}

// statements passes on what the client sends.
func (r *relay) statements() {
	defer r.server.Close() //nolint:errcheck // it ends the other direction
	for {
		kind, body, err := message(r.client)
		if err != nil {
			return
		}
		if kind == 'S' { // what was sent is done, and answered
			r.proxy.mu.Lock()
			r.proxy.trips++
			r.proxy.mu.Unlock()
		}
		sql, counts, err := r.statement(kind, body)
		if err != nil {
			return
		}
		if counts {
			switch r.proxy.fate(r.number, sql) {
			case Conflict:
				body, err = r.spoil(kind, body, "40001")
			case Refuse:
				body, err = r.spoil(kind, body, "0A000")
			case Full:
				body, err = r.spoil(kind, body, "53100")
			case CutBefore:
				_ = r.client.Close()
				return
			case CutAfter:
				r.mu.Lock()
				r.after = true
				r.mu.Unlock()
			case Pass:
			}
			if err != nil {
				return
			}
		}
		if !send(r.server, kind, body) {
			return
		}
	}
}

// statement returns the statement of a message that is about to be done: one without a name is when it is parsed, and a
// prepared one when it is bound.
func (r *relay) statement(kind byte, body []byte) (sql string, counts bool, err error) {
	switch kind {
	case 'P':
		var parse pgproto3.Parse
		if err := parse.Decode(body); err != nil {
			return "", false, err
		}
		if parse.Name != "" {
			r.named[parse.Name] = parse.Query
			return "", false, nil
		}
		return parse.Query, true, nil
	case 'B':
		var bind pgproto3.Bind
		if err := bind.Decode(body); err != nil {
			return "", false, err
		}
		sql, counts = r.named[bind.PreparedStatement]
	}
	return sql, counts, nil
}

// spoil makes the server refuse a statement, so it undoes the transaction; its error is given another code.
func (r *relay) spoil(kind byte, body []byte, code string) ([]byte, error) {
	r.mu.Lock()
	r.codes = append(r.codes, code)
	r.mu.Unlock()
	var raw []byte
	if kind == 'P' {
		var parse pgproto3.Parse
		if err := parse.Decode(body); err != nil {
			return nil, err
		}
		parse.Query = "spoilt"
		raw, _ = parse.Encode(nil)
	} else {
		var bind pgproto3.Bind
		if err := bind.Decode(body); err != nil {
			return nil, err
		}
		bind.PreparedStatement = "spoilt"
		raw, _ = bind.Encode(nil)
	}
	return raw[5:], nil
}

// answers passes on what the server sends.
func (r *relay) answers() {
	defer r.client.Close() //nolint:errcheck // it ends the other direction
	for {
		kind, body, err := message(r.server)
		if err != nil {
			return
		}
		r.mu.Lock()
		after := r.after
		if kind == 'E' && len(r.codes) > 0 {
			e := pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: r.codes[0], Message: "as the test wants"}
			if e.Code == "40001" {
				e.Message = "restart transaction: as the test wants"
			}
			r.codes = nil // what came after it was not looked at
			raw, _ := e.Encode(nil)
			body = raw[5:]
		}
		r.mu.Unlock()
		if after {
			if kind == 'Z' {
				return
			}
			continue
		}
		if kind == 'D' && r.proxy.Rows != nil {
			var row pgproto3.DataRow
			if err := row.Decode(body); err != nil {
				return
			}
			r.proxy.Rows(&row)
			raw, _ := row.Encode(nil)
			body = raw[5:]
		}
		if r.proxy.loses(kind) {
			continue
		}
		if !send(r.client, kind, body) {
			return
		}
	}
}

func message(from io.Reader) (kind byte, body []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint32(head[1:]))-4)
	_, err = io.ReadFull(from, body)
	return head[0], body, err
}

func send(to io.Writer, kind byte, body []byte) bool {
	b := make([]byte, 5, 5+len(body))
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)+4)) //nolint:gosec // as it was read
	_, err := to.Write(append(b, body...))
	return err == nil
}
