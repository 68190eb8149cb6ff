// Package outbound makes requests to configured addresses, limited in time and size, without redirects and compression.
// An address that does not come from the operator must belong to a public host.
package outbound

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Timeout is for a whole exchange.
	Timeout = 5 * time.Second
	// MaxBody is the largest answer in bytes that Body reads.
	MaxBody = 1 << 20
)

// ErrAddress says that a host has an address that is not public.
var ErrAddress = errors.New("the address is not a public one")

// errTooLarge says that an answer is larger than MaxBody.
var errTooLarge = errors.New("the answer is too large")

// New returns a client. trusted says that the operator has written the addresses, so they can belong to an intranet.
// Otherwise each address is checked when the connection is made, after its name was resolved, so a name cannot change
// its address in between. allow are networks that the operator has opened in addition to the public ones.
func New(trusted bool, allow ...netip.Prefix) *http.Client {
	dialer := NewDialer(trusted, allow...)
	return &http.Client{
		Timeout: Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: Timeout,
			ResponseHeaderTimeout: Timeout, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// NewDialer returns what New connects with, for protocols other than HTTP.
func NewDialer(trusted bool, allow ...netip.Prefix) *net.Dialer {
	dialer := &net.Dialer{Timeout: Timeout}
	if !trusted {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return check(address, allow) }
	}
	return dialer
}

// Body reads an answer of at most MaxBody bytes. It does not close it.
func Body(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if err == nil && len(body) > MaxBody {
		err = errTooLarge
	}
	return body, err
}

// Fresh returns how long an answer can be used, by its own account. (RFC 9111 4.2)
func Fresh(h http.Header, now time.Time) time.Duration {
	for part := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return 0
			}
			age, _ := strconv.ParseUint(h.Get("Age"), 10, 31)
			return time.Duration(seconds)*time.Second - time.Duration(age)*time.Second //nolint:gosec // 31 bits
		}
	}
	if expires, err := http.ParseTime(h.Get("Expires")); err == nil {
		return expires.Sub(now)
	}
	return 0
}

// reserved are the networks that are neither public nor known to netip: IANA's special-purpose registries (RFC 6890),
// and the prefixes that carry an IPv4 address inside an IPv6 one.
var reserved = func() (list []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}()

// check refuses an address (host and port) that is neither public nor allowed.
func check(address string, allow []netip.Prefix) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	plain := ap.Addr().Unmap().WithZone("")
	if isPublic(plain) || slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return nil
	}
	return ErrAddress
}

// isPublic reports whether an address is public. The address has no zone, and is not an IPv4 address in IPv6 form.
func isPublic(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range reserved {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
