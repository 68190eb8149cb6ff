// Package listeners reports whether another process listens on the same address. Processes can share Caddy's sockets
// (SO_REUSEPORT), and the system then distributes the connections among them.
package listeners

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Listener is a listening socket of another process.
type Listener struct {
	Addr netip.AddrPort
	PID  int // 0: unknown
}

// String names the process as far as it is known.
func (l Listener) String() string {
	if l.PID == 0 {
		return fmt.Sprintf("another process listens at %s too", l.Addr)
	}
	return fmt.Sprintf("another process (%d) listens at %s too", l.PID, l.Addr)
}

// overlap reports whether a connection can reach both of two addresses.
func overlap(a, b netip.AddrPort) bool {
	x, y := a.Addr().Unmap(), b.Addr().Unmap()
	return a.Port() == b.Port() && (x == y || x.IsUnspecified() && (x.Is6() || y.Is4()) || y.IsUnspecified() && (y.Is6() || x.Is4()))
}

// Addresses are the TCP addresses of Caddy's listeners. A name stands for the loopback addresses or is left out.
func Addresses(listen []string) (out []netip.AddrPort) {
	for _, l := range listen {
		addr, err := caddy.ParseNetworkAddressWithDefaults(l, "tcp", 0)
		if err != nil || addr.Network != "tcp" && addr.Network != "tcp4" && addr.Network != "tcp6" {
			continue
		}
		host, err := netip.ParseAddr(strings.Trim(addr.Host, "[]"))
		switch {
		case addr.Host == "":
			host = netip.IPv6Unspecified()
		case addr.Host == "localhost":
			host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case err != nil:
			continue
		}
		for port := addr.StartPort; port <= addr.EndPort && port != 0 && port-addr.StartPort < 100; port++ {
			out = append(out, netip.AddrPortFrom(host, uint16(port))) //nolint:gosec // Caddy has checked it
		}
	}
	return out
}
