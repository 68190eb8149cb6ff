// Package reloadlistener keeps sockets and connections open during reloads. Caddy opens a new socket for each
// configuration, and closes the old one with the connections that wait in it; net/http drops a request that it reads
// while it shuts down. With the listener wrapper of this package one socket stays for each address, and an idle
// connection moves to the newest configuration. docs/decisions/operation.md#reloads lists the limits.
package reloadlistener

import (
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/acceptloop"
)

func init() {
	caddy.RegisterModule(Wrapper{})
}

// How long a reload waits before the old server shuts down. New connections and requests go to the new server already.
const (
	// settleArriving is for requests to be read whole that have begun, or whose handshake of TLS has: a server that
	// shuts down drops them.
	settleArriving = 2 * time.Second
	settleRequests = time.Second                     // for the answers to the requests under way
	settleAgain    = settleArriving + settleRequests // after which no more is waited for
)

// Wrapper is the listener wrapper gatehouse, in front of TLS and of all other wrappers: a reload loses no connection
// that waits to be accepted, and over plain HTTP no request. Behind another wrapper it does nothing.
type Wrapper struct {
	// Where it stands in the Caddyfile, as file:line, for messages. Default: unknown.
	At string `json:"at,omitempty"`
}

// CaddyModule implements caddy.Module.
func (Wrapper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.gatehouse", New: func() caddy.Module { return new(Wrapper) }}
}

// UnmarshalCaddyfile reads
//
//	servers {
//		listener_wrappers {
//			gatehouse
//			tls
//		}
//	}
func (w *Wrapper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	w.At = fmt.Sprintf("%s:%d", d.File(), d.Line())
	if d.NextArg() {
		return d.Errf("gatehouse: unexpected argument %q", d.Val())
	}
	if d.NextBlock(d.Nesting()) {
		return d.Errf("gatehouse: it has no options, so no block")
	}
	return nil
}

// KeepsSockets implements routetree.SocketKeeper.
func (*Wrapper) KeepsSockets() {}

// Provision asks the servers to report the states of their connections.
func (*Wrapper) Provision(ctx caddy.Context) error {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			for _, s := range app.Servers {
				s.RegisterConnState(observe)
			}
		}
	}
	return nil
}

// places are the addresses that are listened on.
var places = struct {
	sync.Mutex
	open map[string]*place
}{open: map[string]*place{}}

// InUse reports whether a socket is kept for any address.
func InUse() bool {
	places.Lock()
	defer places.Unlock()
	return len(places.open) > 0
}

// place is one address.
type place struct {
	key      string
	socket   net.Listener // shared by all listeners; nil: each has its own
	arriving gauge        // connections with a request that the server has not read whole
	requests gauge        // connections with a request that the server is answering

	mu        sync.Mutex // guards listeners
	listeners []*listener
}

// listener is the place as one configuration sees it.
type listener struct {
	place  *place
	socket net.Listener // its own; nil: the shared one
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// isSocket reports whether ln is a socket as Caddy opens it. Otherwise it is the listener of another wrapper, or of a
// module for a network.
func isSocket(ln net.Listener) bool {
	t := reflect.TypeOf(ln)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == reflect.TypeFor[caddy.NetworkAddress]().PkgPath() || t.PkgPath() == reflect.TypeFor[net.TCPListener]().PkgPath()
}

// WrapListener implements caddy.ListenerWrapper. From now on requests go to the returned listener. It is ln itself if
// that is no socket of Caddy: what ln does to connections belongs to one configuration, and would be lost with the
// socket of another one.
func (*Wrapper) WrapListener(ln net.Listener) net.Listener {
	if !isSocket(ln) {
		return ln
	}
	l := &listener{addr: ln.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	key := ln.Addr().Network() + "/" + ln.Addr().String()
	places.Lock()
	p, running := places.open[key]
	if !running {
		p = &place{key: key, socket: pin(ln), arriving: newGauge(), requests: newGauge()}
		places.open[key] = p
	}
	l.place = p
	switch {
	case p.socket == nil:
		l.socket = ln
		go p.accept(ln)
	case running: // no connection is in it: the first socket is pinned
		_ = hide(ln) // not possible before Linux 5.7
		_ = ln.Close()
	default:
		go p.accept(p.socket)
	}
	p.mu.Lock()
	p.listeners = append(p.listeners, l)
	p.mu.Unlock()
	places.Unlock()
	if running {
		p.settle()
	}
	return l
}

// settle waits until the requests are answered that the old server has. Later ones are already the new server's, so
// this is soon, unless one takes long: net/http finishes it.
func (p *place) settle() {
	end := time.Now().Add(settleAgain)
	for {
		read := p.arriving.wait(settleArriving)
		answered := p.requests.wait(settleRequests)
		// An answer can end with another request behind it, of which net/http holds a byte.
		if !read || !answered || p.arriving.n.Load() == 0 || !time.Now().Before(end) {
			return
		}
	}
}

// gauge counts what is under way.
type gauge struct {
	n    *atomic.Int64
	zero chan struct{} // holds a token when n has become 0
}

func newGauge() gauge { return gauge{new(atomic.Int64), make(chan struct{}, 1)} }

func (g gauge) add() { g.n.Add(1) }

func (g gauge) done() {
	if g.n.Add(-1) > 0 {
		return
	}
	select {
	case g.zero <- struct{}{}:
	default:
	}
}

// wait returns when nothing is under way, or false after so long.
func (g gauge) wait(atMost time.Duration) bool {
	end := time.NewTimer(atMost)
	defer end.Stop()
	for g.n.Load() > 0 {
		select {
		case <-g.zero: // of an earlier time, perhaps
		case <-end.C:
			return false
		}
	}
	return true
}

// newest returns the listener of the newest configuration, nil without any.
func (p *place) newest() *listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.listeners); n > 0 {
		return p.listeners[n-1]
	}
	return nil
}

// accept takes connections off a socket until it is closed.
func (p *place) accept(socket net.Listener) {
	acceptloop.Run(socket, func(raw net.Conn) { p.give(&conn{Conn: raw, place: p, boundary: true}) })
}

// give hands a connection to the newest listener.
func (p *place) give(c *conn) {
	for {
		l := p.newest()
		if l == nil {
			_ = c.Conn.Close()
			return
		}
		c.owner = l
		select {
		case l.conns <- c:
			return
		case <-l.closed:
		}
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The last listener of a place closes its socket.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		p := l.place
		places.Lock()
		defer places.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		close(l.closed)
		for i, other := range p.listeners {
			if other == l {
				p.listeners = append(p.listeners[:i:i], p.listeners[i+1:]...)
				break
			}
		}
		if l.socket != nil {
			err = l.socket.Close()
		}
		if len(p.listeners) > 0 {
			return
		}
		delete(places.open, p.key)
		if p.socket != nil {
			err = p.socket.Close()
		}
	})
	return err
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

var (
	_ caddy.ListenerWrapper = (*Wrapper)(nil)
	_ caddy.Provisioner     = (*Wrapper)(nil)
	_ caddyfile.Unmarshaler = (*Wrapper)(nil)
	_ io.ReaderFrom         = (*conn)(nil)
)
