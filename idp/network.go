package idp

import (
	"net/netip"
	"slices"
)

// Within reports whether an address is in one of the networks, which hold addresses in their short form.
func Within(networks []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}
