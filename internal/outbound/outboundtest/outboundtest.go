// Package outboundtest has, for tests, addresses to which strangers must not make us connect, and the servers at them.
package outboundtest

import (
	"net"
	"sync/atomic"
	"testing"
)

// Hosts are addresses of this machine, of its network, and of networks that are not public, in every spelling. They
// stand in an address of the web as they are.
var Hosts = []string{
	"127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "localhost",
	"0.0.0.0", "0", "[::1]", "[::]",
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]",
	"[fe80::1%25lo]", "[fd00::1]", "[fec0::1]",
	"169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1",
	"203.0.113.1", "224.0.0.1", "240.0.0.1",
	"255.255.255.255", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "[5f00::1]",
}

// Inside listens at all addresses of this machine that are its own alone. It returns the port, and how many connections
// came.
func Inside(t testing.TB) (port string, met func() int64) {
	t.Helper()
	var count atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	if _, port, err = net.SplitHostPort(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	take := func(l net.Listener) {
		t.Cleanup(func() { l.Close() }) //nolint:errcheck,gosec // of a test
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				count.Add(1)
				conn.Close() //nolint:errcheck,gosec // of a test
			}
		}()
	}
	take(l)
	if l, err := net.Listen("tcp", "[::1]:"+port); err == nil { //nolint:noctx // a machine without IPv6 has none
		take(l)
	}
	return port, count.Load
}
