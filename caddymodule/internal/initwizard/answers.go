package initwizard

import (
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

var (
	hostSyntax     = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	upstreamSyntax = regexp.MustCompile(`^(https?://)?(\[[0-9a-f:]+\]|[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?)(:[0-9]{1,5})?/?$`)
	emailSyntax    = regexp.MustCompile(`^[A-Za-z0-9.!#%&'*+/=?^_|~-]+@([A-Za-z0-9-]+\.)+[A-Za-z0-9-]+$`)
	hostOfURL      = regexp.MustCompile(`^(?i:https?://)?([^\s/?#@{}]+)(?:[/?#]\S*)?$`)
	hostPort       = regexp.MustCompile(`^([^:]+):([0-9]{1,5})$`)
	numberOnly     = regexp.MustCompile(`^:?([0-9]+)$`)
)

// Host returns the host name that an answer means: of an address that was copied from a browser, of a name with a dot
// at its end, of one in another alphabet.
func Host(answer string) (string, error) {
	text := strings.TrimSpace(answer)
	if m := hostOfURL.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	if m := hostPort.FindStringSubmatch(text); m != nil {
		if m[2] != "443" && m[2] != "80" {
			return "", fmt.Errorf("%q names the port %s: a site is served at 443, so write %s alone", answer, m[2], m[1])
		}
		text = m[1]
	}
	text = strings.TrimSuffix(text, ".")
	name, err := idna.Lookup.ToASCII(text)
	if err != nil {
		name = strings.ToLower(text) // what is wrong with it is said below
	}
	switch {
	case name == "localhost":
		return name, nil
	case net.ParseIP(name) != nil:
		return "", fmt.Errorf("%q is an IP address: write the name of a host, like wiki.example.com", answer)
	case len(name) <= 253 && hostSyntax.MatchString(name):
		return name, nil
	case !strings.Contains(name, ".") && hostSyntax.MatchString(name+".example"):
		return "", fmt.Errorf("%q is not a full name, and gets no certificate: write it like %s.example.com", answer, name)
	}
	return "", fmt.Errorf("%q is not the name of a host: write it like wiki.example.com", answer)
}

// Upstream returns the address that an answer means. A number is a port of this machine.
func Upstream(answer string) (string, error) {
	text := strings.ToLower(strings.TrimSpace(answer))
	if m := numberOnly.FindStringSubmatch(text); m != nil {
		text = "localhost:" + m[1]
	}
	if !upstreamSyntax.MatchString(text) {
		if u, err := url.Parse(text); err == nil && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") != "" &&
			upstreamSyntax.MatchString(u.Host) {
			return "", fmt.Errorf("%q has a path, which an upstream cannot have: write %s://%s", answer, u.Scheme, u.Host)
		}
		return "", fmt.Errorf("%q is not an address such as localhost:9001 or https://10.0.0.5", answer)
	}
	text = strings.TrimSuffix(text, "/")
	host, port := splitUpstream(text)
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q names the port %s: ports are from 1 to 65535", answer, port)
	}
	if ip := net.ParseIP(host); (n == 80 || n == 443) &&
		(host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.IsLoopback() || ip.IsUnspecified()) {
		return "", fmt.Errorf("%q is port %d of this machine, where Caddy itself listens: name the port of the site, such as localhost:9001",
			answer, n)
	}
	return text, nil
}

// splitUpstream returns the host and the port of an upstream.
func splitUpstream(upstream string) (host, port string) {
	rest, isHTTPS := strings.CutPrefix(upstream, "https://")
	rest = strings.TrimPrefix(rest, "http://")
	if host, port, err := net.SplitHostPort(rest); err == nil {
		return host, port
	}
	port = "80"
	if isHTTPS {
		port = "443"
	}
	return strings.Trim(rest, "[]"), port
}

// Email returns the address that an answer means, also with a name or as a link.
func Email(answer string) (string, error) {
	text := strings.TrimPrefix(strings.TrimSpace(answer), "mailto:")
	a, err := mail.ParseAddress(text)
	if err != nil || !emailSyntax.MatchString(a.Address) {
		return "", fmt.Errorf("%q is not an e-mail address such as ada@example.com", answer)
	}
	return a.Address, nil
}
