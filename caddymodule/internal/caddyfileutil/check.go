package caddyfileutil

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The checks of single values are the same for a Caddyfile, JSON and a placeholder. Each says what is wrong and what to
// do, and never repeats a secret. Whether a client is valid as a whole is for client.Client.Validate to say.

const minSecret = 32 // characters of a client secret

// ErrNotSupported is the error of an option that is known and has no effect yet.
var ErrNotSupported = errors.New("is not supported yet")

// ParseIssuer returns the issuer as it appears in every token and page: no trailing slash, lower-case host, no default
// port.
func ParseIssuer(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("want an absolute URL such as https://auth.example.com")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("scheme %s is not https", u.Scheme)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("want scheme and host only, without user, query or fragment")
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("a path (%s) is not supported: cookies and discovery need a host of their own, such as https://auth.example.com", u.Path)
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return nil, errors.New("http is for loopback hosts only (localhost, 127.0.0.1, [::1]): use https")
	case strings.HasSuffix(u.Hostname(), "."):
		return nil, errors.New("leave out the dot at the end of the host")
	}
	for _, c := range u.Host {
		if c >= utf8.RuneSelf {
			return nil, errors.New("write the host in its ASCII form (xn--...)")
		}
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "" || (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") {
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"+port), ":")
	}
	return &url.URL{Scheme: u.Scheme, Host: host}, nil
}

// CheckIssuer accepts what ParseIssuer reads.
func CheckIssuer(s string) error {
	_, err := ParseIssuer(s)
	return err
}

// CheckDuration accepts a positive duration, days included.
func CheckDuration(s string) error {
	d, err := caddy.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like 30s, 15m, 12h or 30d", s)
	}
	if d <= 0 {
		return fmt.Errorf("%q must be longer than zero", s)
	}
	return nil
}

var numerals = []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}

// ParseCount reads a whole number.
func ParseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if i := slices.Index(numerals, strings.ToLower(s)); i >= 0 {
		return 0, fmt.Errorf("write the number as %d, in digits", i)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

// Between accepts a whole number from low to high.
func Between(low, high int) func(string) error {
	return func(s string) error {
		n, err := ParseCount(s)
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("%d is not between %d and %d", n, low, high)
		}
		return err
	}
}

// CheckSecret checks only the length. The secret must be random: `caddy gatehouse secret` prints one.
func CheckSecret(s string) error {
	if n := utf8.RuneCountInString(s); n < minSecret {
		return fmt.Errorf("has %d characters, want at least %d: `caddy gatehouse secret` prints a good one", n, minSecret)
	}
	return nil
}

// CheckPHC accepts a password hash as an Argon2id or bcrypt PHC string.
func CheckPHC(s string) error {
	if secret.CheckPHC(s) != nil {
		return errors.New("want an Argon2id or bcrypt PHC string of usual cost, such as one that begins with $argon2id$v=19$m=19456,t=2,p=1$")
	}
	return nil
}

// CheckScope is the scope-token of RFC 6749 3.3.
func CheckScope(s string) error {
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return fmt.Errorf("%q is not a scope (RFC 6749 3.3): printable ASCII without spaces, quotes and backslashes", s)
		}
	}
	return nil
}

// CheckURI accepts an absolute URI without fragment (RFC 6749 3.1.2). Package authz has further rules for redirect
// URIs.
func CheckURI(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || (u.Host == "" && u.Path == "" && u.Opaque == "") {
		return fmt.Errorf("%q is not an absolute URI", s)
	}
	if strings.Contains(s, "#") {
		return fmt.Errorf("%q has a fragment", s)
	}
	return nil
}

// OneOf accepts one of the words.
func OneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%q is not known, want one of: %s", s, strings.Join(words, ", "))
		}
		return nil
	}
}

// CheckSecondFactor accepts when a sign-in needs a second step.
var CheckSecondFactor = OneOf(authn.SecondFactorWhenSetUp, authn.SecondFactorAlways, authn.SecondFactorOnDemand)

// CheckLevel accepts an authentication level.
var CheckLevel = Between(1, 4)

// ParseNetwork reads an address or a network.
func ParseNetwork(s string) (netip.Prefix, error) {
	if n, err := netip.ParsePrefix(s); err == nil {
		return short(n), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		if meant := meantNetwork(s); meant != "" {
			return netip.Prefix{}, fmt.Errorf("%q is not an address or network: write %s", s, meant)
		}
		return netip.Prefix{}, fmt.Errorf("%q is not an address or network such as 10.0.0.0/8", s)
	}
	return short(netip.PrefixFrom(a, a.BitLen())), nil
}

// short returns a network of IPv4 in its short form, in which addresses are compared.
func short(n netip.Prefix) netip.Prefix {
	if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), n.Bits()-96)
	}
	return n
}

// meantNetwork returns the network that was probably meant: by parts of an address, by a * or by a mask. "": unknown.
func meantNetwork(s string) string {
	addr, bits, _ := strings.Cut(s, "/")
	if mask, err := netip.ParseAddr(bits); err == nil && mask.Is4() {
		ones, _ := net.IPMask(mask.AsSlice()).Size()
		bits = strconv.Itoa(ones)
	}
	parts := strings.Split(strings.TrimSuffix(addr, "."), ".")
	if len(parts) > 1 && parts[len(parts)-1] == "*" && bits == "" {
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "*" })
		bits = strconv.Itoa(8 * len(parts))
	}
	for len(parts) < 4 {
		parts = append(parts, "0")
	}
	n, err := netip.ParsePrefix(strings.Join(parts, ".") + "/" + bits)
	if err != nil || n.Bits() == 0 {
		return ""
	}
	return n.Masked().String()
}

// CheckTrusted accepts the network of peers that are believed. One that holds everyone, or half of the internet, makes
// anyone believed.
func CheckTrusted(s string) error {
	n, err := ParseNetwork(s)
	if err != nil {
		return err
	}
	if tooWide(n) {
		return fmt.Errorf("%s would trust strangers: name the networks of the proxies, such as 10.0.0.0/8 or fd00::/8", s)
	}
	return nil
}

// tooWide reports whether a network is larger than any that one operator has.
func tooWide(n netip.Prefix) bool {
	if n.Addr().Unmap().Is4() {
		bits := n.Bits()
		if n.Addr().Is4In6() {
			bits -= 96
		}
		return bits < 8
	}
	return n.Bits() < 16 && !netip.MustParsePrefix("fc00::/7").Contains(n.Addr()) && !netip.MustParsePrefix("fe80::/10").Contains(n.Addr()) ||
		n.Bits() < 7
}

// CheckProviderID checks the form of a provider's id, which appears in URLs.
func CheckProviderID(s string) error {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q is not the id of a provider: letters, digits, dots, - and _", s)
		}
	}
	if s == "" || len(s) > 64 {
		return errors.New("the id of a provider has 1 to 64 characters")
	}
	return nil
}
