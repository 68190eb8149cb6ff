package reloadlistener

import (
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection as one server sees it. While it stands between two requests it can move: the server reads that
// it was closed, and the newest listener gets the connection with whatever has arrived. No byte is given to two
// servers.
type conn struct {
	net.Conn
	place *place
	owner *listener

	gone    atomic.Bool // it has moved or is closed; set while mu is held
	reading atomic.Bool // below another one, such as that of TLS: the server has read the first request, and has not begun to answer

	mu       sync.Mutex // guards the fields below
	head     []byte     // what is to be read first
	begin    []byte     // the first bytes that the server has read
	boundary bool       // between two requests: nothing was read yet, or the server says that it is idle
	waiting  bool       // for the first byte of a request, and the server's reader holds nothing
	counted  phase      // what it counts as in its place
}

// phase is the state of a connection while a reload waits.
type phase string

const (
	quiet    phase = ""
	arriving phase = "arriving" // a handshake, or a request that the server has not read whole
	request  phase = "request"
)

// preface is the beginning of a connection of HTTP/2. It stays with its server, which tells the client where to stop.
const preface = "PRI"

// readerRoom is the number of bytes that the reader of net/http asks for when it holds nothing. While it holds the
// beginning of a request, sent ahead by the client, it has less room (bufio.Reader): such a connection must not move.
const readerRoom = 4096

// Read gives the bytes of a request to the server, or to the newest one if the request begins with them.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if c.gone.Load() {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.waiting = c.boundary && (len(c.begin) == 0 || len(p) == readerRoom)
	switch {
	case c.waiting:
		c.count(quiet)
	case c.boundary: // the server has read the first byte of a request while it answered the one before
		c.count(arriving)
	}
	waiting, n := c.waiting, copy(p, c.head)
	c.head = c.head[n:]
	c.mu.Unlock()
	var err error
	if n == 0 {
		n, err = c.Conn.Read(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	if c.boundary && n > 0 {
		c.count(arriving) // before the newest is asked for: a reload sees the request, or the request sees the reload
	}
	switch newest := c.place.newest(); {
	case c.gone.Load(): // Close has found it waiting
		c.move(p[:n])
		return 0, net.ErrClosed
	case n == 0:
		return n, err
	case waiting && newest != nil && newest != c.owner:
		c.gone.Store(true)
		c.move(p[:n])
		return 0, io.EOF
	}
	if missing := len(preface) - len(c.begin); missing > 0 {
		c.begin = append(c.begin, p[:min(n, missing)]...)
	}
	if c.boundary = false; c.http2() {
		c.count(quiet)
	}
	return n, err
}

func (c *conn) http2() bool { return string(c.begin) == preface }

// move hands the connection over with the bytes that were read of it last. c.mu is held, and c is gone.
func (c *conn) move(read []byte) {
	c.count(quiet)
	_ = c.Conn.SetDeadline(time.Time{})
	next := &conn{Conn: c.Conn, place: c.place, boundary: true, head: slices.Concat(read, c.head)}
	go c.place.give(next)
}

// count tells the place what is under way. c.mu is held.
func (c *conn) count(as phase) {
	if as == c.counted {
		return
	}
	was := c.counted
	c.counted = as
	switch as { // first the new one, so a reload does not pass between the two
	case arriving:
		c.place.arriving.add()
	case request:
		c.place.requests.add()
	}
	switch was {
	case arriving:
		c.place.arriving.done()
	case request:
		c.place.requests.done()
	}
}

// Close closes the connection, or moves it if a server that shuts down closes it between two requests.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone.Swap(true) {
		return nil
	}
	c.count(quiet)
	newest := c.place.newest()
	switch {
	case !c.boundary || newest == nil || newest == c.owner:
	case c.waiting:
		return c.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes Read, which moves it
	case len(c.begin) == 0: // the server has read nothing
		c.move(nil)
		return nil
	}
	return c.Conn.Close()
}

// below returns the connection around which TLS, other listener wrappers and Caddy have put theirs, nil for another's.
func below(nc net.Conn) *conn {
	for range 8 {
		switch outer := nc.(type) {
		case *conn:
			return outer
		case interface{ NetConn() net.Conn }: // of TLS
			nc = outer.NetConn()
		case interface{ Raw() net.Conn }: // of the PROXY protocol
			nc = outer.Raw()
		default: // many embed the interface, such as that of Caddy's listener wrapper http_redirect
			v := reflect.Indirect(reflect.ValueOf(nc))
			if v.Kind() != reflect.Struct {
				return nil
			}
			inner := v.FieldByName("Conn")
			if !inner.IsValid() || !inner.CanInterface() {
				return nil
			}
			nc, _ = inner.Interface().(net.Conn)
		}
	}
	return nil
}

// observe is told the states of connections by the servers.
func observe(nc net.Conn, state http.ConnState) {
	c, plain := nc.(*conn)
	if !plain {
		if c = below(nc); c == nil {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gone.Load() || c.http2():
	case !plain: // it cannot move any more: the one around it has read of it, the keys of TLS or who the client is
		// net/http says that a connection is active, and drops the request when it shuts down in that moment.
		switch {
		case state != http.StateActive:
			c.count(quiet)
		case c.counted == arriving:
			c.count(request)
			c.reading.Store(true)
		}
	case state == http.StateActive:
		if c.counted == arriving {
			c.count(request)
		}
	case state == http.StateIdle:
		c.boundary = true // it counts until the server reads again: before that it could not move
	case state == http.StateHijacked:
		c.count(quiet)
	}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.gone.Load() {
		return 0, net.ErrClosed
	}
	if c.reading.Load() && c.reading.Swap(false) {
		c.mu.Lock()
		c.count(quiet)
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// ReadFrom lets the system copy files.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if c.gone.Load() {
		return 0, net.ErrClosed
	}
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c}, r)
}

// CloseWrite ends what is sent, where the connection can.
func (c *conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && !c.gone.Load() {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// SetDeadline implements net.Conn. A server that has let go of the connection changes nothing any more.
func (c *conn) SetDeadline(t time.Time) error { return c.deadline(c.Conn.SetDeadline, t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.deadline(c.Conn.SetReadDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.deadline(c.Conn.SetWriteDeadline, t) }

func (c *conn) deadline(set func(time.Time) error, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone.Load() {
		return net.ErrClosed
	}
	return set(t)
}
