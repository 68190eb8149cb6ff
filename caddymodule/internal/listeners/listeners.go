// Package listeners tells whether another process listens where this one does. Caddy's sockets can be shared by several
// processes (SO_REUSEPORT), and then the system deals the connections out among them.
package listeners

import (
	"fmt"
	"net/netip"
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

// overlap tells whether a connection can reach both of two addresses.
func overlap(a, b netip.AddrPort) bool {
	x, y := a.Addr().Unmap(), b.Addr().Unmap()
	return a.Port() == b.Port() && (x == y || x.IsUnspecified() && (x.Is6() || y.Is4()) || y.IsUnspecified() && (y.Is6() || x.Is4()))
}
