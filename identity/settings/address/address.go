// Package address parses URLs as browsers do, and rejects those that programs read differently.
package address

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// Most bounds the bytes of a URL.
const Most = 2048

var (
	errURL     = coded.New("url", "must be an https URL as a browser writes it: a lower case ASCII host, no user, no default port, no dot segments, no backslash")
	errPort    = coded.New("port", "has a port above 65535")
	errPlain   = coded.New("https", "must be https; http is for loopback hosts only")
	errApp     = coded.New("app", "must be an https URL, or one with the scheme of an app such as myapp://login")
	errBare    = coded.New("bare", "must have neither query nor fragment")
	errTarget  = coded.New("target", "must be an https URL, or a path such as /welcome")
	errOrigin  = coded.New("origin", "must be an origin such as https://www.example.com, without a path")
	errTooLong = coded.New("address_length", "is too long")
)

// Below reports whether a path is base, or base and more segments.
func Below(path, base string) bool {
	base = strings.TrimSuffix(base, "/")
	return path == base || strings.HasPrefix(path, base+"/")
}

// Parse reads an absolute http or https URL. It refuses every spelling that parsers understand differently.
func Parse(raw string) (*url.URL, error) {
	if len(raw) > Most {
		return nil, errTooLong
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"<>^`{|}", c) >= 0 { // RFC 3986 2: none of these belongs in a URI
			return nil, errURL
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || u.Host == "" || u.Host != strings.ToLower(u.Host) {
		return nil, errURL
	}
	if !strings.HasPrefix(raw, "https://") && !strings.HasPrefix(raw, "http://") { // not HTTPS:, not https:/host
		return nil, errURL
	}
	port := u.Port()
	if strings.HasSuffix(u.Host, ":") || port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" ||
		strings.HasPrefix(port, "0") {
		return nil, errURL
	}
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n > 65535) {
		return nil, errPort
	}
	if !isHostname(u.Hostname()) || !isPlainPath(u.EscapedPath()) {
		return nil, errURL
	}
	return u, nil
}

// isHostname: a name of letters, digits and hyphens, or an address in its own form.
func isHostname(h string) bool {
	if addr, err := netip.ParseAddr(h); err == nil {
		return addr.String() == h && addr.Zone() == ""
	}
	labels := strings.Split(h, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	// To a browser a name that ends in a number is an IPv4 address, in a form that it alone understands.
	// (URL Standard, "ends in a number")
	last := labels[len(labels)-1]
	return len(h) <= 253 && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}

// isPlainPath refuses dot segments, empty segments except at the end, and escapes that would make either.
func isPlainPath(p string) bool {
	lower := strings.ToLower(p)
	for _, hidden := range []string{"%2e", "%2f", "%5c", "%00", "%25"} {
		if strings.Contains(lower, hidden) {
			return false
		}
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if s == "." || s == ".." || s == "" && i > 0 && i < len(segments)-1 {
			return false
		}
	}
	return p == "" || p[0] == '/'
}

// Check accepts an https URL, or one of http on a loopback host.
func Check(raw string) (*url.URL, error) {
	u, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "http" && !loopback.Is(u.Hostname()) {
		return nil, errPlain
	}
	return u, nil
}

// CheckPlain accepts a URL without query and fragment, since those of a request do not matter.
func CheckPlain(raw string) error {
	u, err := Check(raw)
	if err != nil {
		return err
	}
	if strings.ContainsAny(raw, "?#") || u.RawQuery != "" || u.Fragment != "" {
		return errBare
	}
	return nil
}

var appURL = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://[!-~]*$`)

// schemes are schemes that browsers or systems open themselves, so they lead to no app.
var schemes = []string{
	"about", "blob", "chrome", "content", "data", "file", "filesystem", "ftp", "http", "https", "intent", "jar", "javascript",
	"mailto", "resource", "sms", "tel",
	"vbscript", "view-source", "ws", "wss",
}

// CheckApp accepts where an app on a phone takes over: an https URL, or one with the app's own scheme. (RFC 8252 7.1,
// 7.2)
func CheckApp(raw string) error {
	if strings.HasPrefix(raw, "http") {
		if _, err := Check(raw); err == nil {
			return nil
		}
	}
	if m := appURL.FindStringSubmatch(raw); m == nil || slices.Contains(schemes, m[1]) || strings.ContainsAny(raw, "\\\"<>^`{|}") {
		return errApp
	}
	return nil
}

// CheckOrigin accepts a scheme and a host, and nothing after them.
func CheckOrigin(raw string) error {
	u, err := Check(raw)
	if err != nil {
		return err
	}
	if raw != u.Scheme+"://"+u.Host {
		return errOrigin
	}
	return nil
}

// CheckTarget accepts a URL, or a path on Gatehouse's origin or the default one.
func CheckTarget(raw string) error {
	if !strings.HasPrefix(raw, "/") {
		_, err := Check(raw)
		return err
	}
	if CheckPath(raw) != nil {
		return errTarget
	}
	return nil
}

// CheckPath refuses a path that a browser would take for another host.
func CheckPath(raw string) error {
	if !strings.HasPrefix(raw, "/") {
		return coded.New("path", "must be a path such as /login")
	}
	_, err := Parse("https://path.invalid" + raw)
	return err
}
