package reloadlistener

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"
)

// TestReloadWaitsNoLongerThanItsRequests: a reload goes on in the moment in which the last request is answered, and
// after a while without it.
func TestReloadWaitsNoLongerThanItsRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answered, want time.Duration }{
		"soon":  {1500 * time.Microsecond, 1500 * time.Microsecond},
		"later": {settleRequests - time.Nanosecond, settleRequests - time.Nanosecond},
		"never": {time.Hour, settleRequests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{arriving: newGauge(), requests: newGauge()}
				for range 3 { // of an earlier time
					p.requests.add()
					p.requests.done()
				}
				p.requests.add()
				p.requests.add()
				begin := time.Now()
				time.AfterFunc(time.Microsecond, p.requests.done)
				time.AfterFunc(tt.answered, p.requests.done)
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestReloadWaitsForWhatArrives: a request that is read slowly is answered, and one that never ends does not hold a
// reload up for long.
func TestReloadWaitsForWhatArrives(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ read, want time.Duration }{
		"slow":  {settleArriving - time.Nanosecond, settleArriving - time.Nanosecond + settleRequests},
		"never": {time.Hour, settleArriving},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{arriving: newGauge(), requests: newGauge()}
				c := &conn{place: p}
				c.count(arriving)
				begin := time.Now()
				time.AfterFunc(tt.read, func() { c.count(request) })
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestReloadWaitsForARequestBehindAnAnswer: a request that turns up while the answer to the one before is awaited is
// answered too, and a client that never stops does not hold a reload up for long.
func TestReloadWaitsForARequestBehindAnAnswer(t *testing.T) {
	t.Parallel()
	const turn = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		requests int
		want     time.Duration
	}{
		"one":     {1, 3 * turn},
		"another": {2, 5 * turn},
		"endless": {1000, settleAgain + turn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{arriving: newGauge(), requests: newGauge()}
				c := &conn{place: p}
				c.count(request)
				begin := time.Now()
				var client sync.WaitGroup
				defer client.Wait()
				client.Go(func() {
					for range tt.requests {
						<-time.After(turn)
						c.count(arriving)
						<-time.After(turn)
						c.count(request)
					}
					<-time.After(turn)
					c.count(quiet)
				})
				p.settle()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("waited %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestReloadWaitsForAHeldByte: while net/http answers, it reads a byte ahead. If that is the first one of the next
// request, a reload waits for the rest: the connection is closed with the byte otherwise.
func TestReloadWaitsForAHeldByte(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		room int
		want int64
	}{"nothing is held": {readerRoom, 0}, "a byte is held": {readerRoom - 1, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer client.Close()
				p := &place{arriving: newGauge(), requests: newGauge()}
				c := &conn{Conn: server, place: p, boundary: true, begin: []byte("POS")}
				c.count(request)
				go func() { _, _ = c.Read(make([]byte, tt.room)) }()
				synctest.Wait()
				if n := p.arriving.n.Load(); n != tt.want || p.requests.n.Load() != 0 {
					t.Errorf("%d requests arrive and %d are answered, want %d and 0", n, p.requests.n.Load(), tt.want)
				}
			})
		})
	}
}

// single is a listener at which one connection has arrived.
type single struct {
	net.Listener
	c net.Conn
}

func (l single) Accept() (net.Conn, error) { return l.c, nil }

// TestObservedBelowOtherWrappers: a connection below those of other wrappers does not count as one that arrives for as
// long as it is open, which each reload would wait for. It does not move between two requests: who the client is was
// said at its beginning.
func TestObservedBelowOtherWrappers(t *testing.T) {
	t.Parallel()
	secure := func(nc net.Conn) net.Conn { return tls.Server(nc, &tls.Config{MinVersion: tls.VersionTLS13}) }
	for name, tt := range map[string]struct {
		wrapper caddy.ListenerWrapper
		around  func(net.Conn) net.Conn
	}{
		"proxy_protocol":          {new(proxyprotocol.ListenerWrapper), nil},
		"proxy_protocol with TLS": {new(proxyprotocol.ListenerWrapper), secure},
		"http_redirect with TLS":  {new(caddyhttp.HTTPRedirectListenerWrapper), secure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server := net.Pipe()
			defer client.Close()
			p := &place{arriving: newGauge(), requests: newGauge()}
			c := &conn{Conn: server, place: p, begin: []byte("PRO")}
			outer, err := tt.wrapper.WrapListener(single{c: c}).Accept()
			if err != nil {
				t.Fatal(err)
			}
			if tt.around != nil {
				outer = tt.around(outer)
			}
			c.count(arriving)
			observe(outer, http.StateActive)
			if arrive, answered := p.arriving.n.Load(), p.requests.n.Load(); arrive != 0 || answered != 1 {
				t.Errorf("%d requests arrive and %d are answered, want 0 and 1", arrive, answered)
			}
			observe(outer, http.StateIdle)
			if arrive, answered := p.arriving.n.Load(), p.requests.n.Load(); arrive != 0 || answered != 0 || c.boundary {
				t.Errorf("%d requests arrive, %d are answered, can move: %t; want 0, 0 and false", arrive, answered, c.boundary)
			}
		})
	}
}
