// Package loopback decides for all of Gatehouse which host names and addresses mean this machine.
package loopback

import (
	"net/netip"
	"strings"
)

// Is reports whether a host, without port and brackets, is this machine: localhost and the names below it (RFC 6761
// 6.3), 127.0.0.0/8 and ::1 (RFC 1122 3.2.1.3, RFC 4291 2.5.3), and the same as IPv4 inside IPv6. Only these hosts can
// use http and connections without encryption.
//
// Other spellings do not count: a trailing dot, addresses of fewer than four parts or in another base (resolvers
// disagree about them), and 0.0.0.0, which is an address to listen on (RFC 1122 3.2.1.3).
func Is(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	host = strings.ToLower(host) // RFC 4343: names ignore case
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
