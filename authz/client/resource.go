package client

import (
	"slices"
	"strings"
)

// Resources (RFC 8707) are compared with scheme and host in any case, without the default port, and with an empty path
// equal to /, since URL classes write them so; everything else byte for byte. (docs/decisions.md#resources)

// HasResource tells whether a list has a resource.
func HasResource(list []string, resource string) bool {
	if slices.Contains(list, resource) {
		return true
	}
	plain := plainResource(resource)
	return slices.ContainsFunc(list, func(r string) bool { return plainResource(r) == plain })
}

// HasResources tells whether a list has each of these resources.
func HasResources(list, resources []string) bool {
	return !slices.ContainsFunc(resources, func(r string) bool { return !HasResource(list, r) })
}

// OwnResources writes resources as the client's audiences are written, once each and in order, so that a token names
// them as its resource server expects. Others stay as they are.
func (c *Client) OwnResources(asked []string) []string {
	out := make([]string, 0, len(asked))
	for _, resource := range asked {
		plain := plainResource(resource)
		if i := slices.IndexFunc(c.Audiences, func(a string) bool { return plainResource(a) == plain }); i >= 0 && !slices.Contains(c.Audiences, resource) {
			resource = c.Audiences[i]
		}
		out = append(out, resource)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// plainResource writes a resource in the one form in which it is compared.
func plainResource(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	scheme = strings.ToLower(scheme)
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if path == "" || path[0] == '?' {
		path = "/" + path
	}
	if at := strings.LastIndexByte(host, '@'); at >= 0 { // user information has a case of its own
		return scheme + "://" + host[:at+1] + plainHost(scheme, host[at+1:]) + path
	}
	return scheme + "://" + plainHost(scheme, host) + path
}
