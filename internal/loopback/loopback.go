// Package loopback knows which hosts are this machine, in the one way that all of Gatehouse agrees on.
package loopback

import (
	"net/netip"
	"strings"
)

// Is tells whether a host, without port and brackets, is this machine: localhost and the names below it (RFC 6761 6.3), 127.0.0.0/8 and ::1 (RFC 1122
// 3.2.1.3, RFC 4291 2.5.3), and the same as IPv4 inside IPv6. Http and connections without encryption are for these alone.
//
// Other spellings are not: a dot at the end, addresses of fewer than four parts or in other bases, which each resolver reads in its own way, and 0.0.0.0,
// which is an address to listen at (RFC 1122 3.2.1.3).
func Is(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	host = strings.ToLower(host) // RFC 4343: names are the same in any case
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
