package client

import (
	"net/url"
	"strings"
)

// ScriptOrigins returns the origins whose scripts can call the endpoints of public clients on behalf of this one: its
// own and those of its redirect URIs, as browsers write them. An origin that ends in anyPort stands for a loopback host
// with every port.
func (c *Client) ScriptOrigins() (out []string) {
	for _, o := range c.Origins {
		out = append(out, originOf(o))
	}
	for _, uri := range c.RedirectURIs {
		o := originOf(uri)
		if o == "" {
			continue // an application's private scheme
		}
		if out = append(out, o); c.Public || c.Native {
			if every, loopback := AnyPort(o); loopback {
				out = append(out, every) // as AllowsRedirect has it
			}
		}
	}
	return out
}

const anyPort = ":*"

// AnyPort returns the origin that stands for a loopback host with every port. It is false for other hosts.
func AnyPort(origin string) (string, bool) {
	for _, host := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		if rest, ok := strings.CutPrefix(origin, host); ok {
			if after, ok := cutPort(rest); ok && after == "" {
				return host + anyPort, true
			}
		}
	}
	return "", false
}

// originOf returns the origin of a URL as browsers write it: lower case, without the default port. Empty: it has none.
func originOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + plainHost(u.Scheme, u.Host)
}

// plainHost returns a host in lower case without the default port of its scheme.
func plainHost(scheme, host string) string {
	host = strings.ToLower(host)
	switch scheme {
	case "https":
		return strings.TrimSuffix(host, ":443")
	case "http":
		return strings.TrimSuffix(host, ":80")
	}
	return host
}
