package client

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// Resources (RFC 8707) are compared with scheme and host in any case, without the default port, and with an empty path
// equal to /, since URL classes write them so; everything else byte for byte.
// (docs/decisions/authorization.md#resources)

// Resource is a site of this configuration that tokens can be meant for.
type Resource struct {
	URI    string
	Name   string   // for people. Empty: it has none
	Scopes []string // that its requests need
	Tools  []string // those of Scopes that only calls of some tools need
	First  []string // those of Scopes that clients get which name no scope
}

// Contains reports whether a resource is the site or an address below it, to which a client was given the way.
func (r *Resource) Contains(resource string) bool { return contains(r.URI, resource) }

func contains(site, resource string) bool {
	site, resource = plainResource(site), plainResource(resource)
	if site == resource {
		return true
	}
	rest, ok := strings.CutPrefix(resource, strings.TrimSuffix(site, "/")+"/")
	if !ok || strings.ContainsAny(rest, "?#\\") {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		// A dot segment can lead out of the site, for those who resolve it.
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." || strings.ContainsAny(plain, `/\`) {
			return false
		}
	}
	return true
}

// HasResource reports whether a list has a resource.
func HasResource(list []string, resource string) bool {
	if slices.Contains(list, resource) {
		return true
	}
	plain := plainResource(resource)
	return slices.ContainsFunc(list, func(r string) bool { return plainResource(r) == plain })
}

// hasResources reports whether a list has each of these resources.
func hasResources(list, resources []string) bool {
	return !slices.ContainsFunc(resources, func(r string) bool { return !HasResource(list, r) })
}

// MayAsk reports whether the client can ask for tokens for these resources.
func (c *Client) MayAsk(resources []string) bool { return hasResources(c.resources(), resources) }

// resources are its audiences, or without any the sites of the configuration.
func (c *Client) resources() []string {
	if len(c.Audiences) == 0 {
		return c.Sites
	}
	return c.Audiences
}

// OwnResources writes resources as the client's audiences or the sites are written, once each and in order, so a token
// names them as its resource server expects. An address below a site stands for the site. Others stay as they are.
func (c *Client) OwnResources(asked []string) []string {
	own, out := c.resources(), make([]string, 0, len(asked))
	for _, resource := range asked {
		if !HasResource(own, resource) {
			resource = c.siteOf(resource)
		}
		plain := plainResource(resource)
		if i := slices.IndexFunc(own, func(a string) bool { return plainResource(a) == plain }); i >= 0 && !slices.Contains(own, resource) {
			resource = own[i]
		}
		out = append(out, resource)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// siteOf returns the site with the longest address that contains a resource, or the resource itself.
func (c *Client) siteOf(resource string) string {
	out := ""
	for _, site := range c.Sites {
		if len(site) > len(out) && contains(site, resource) {
			out = site
		}
	}
	return cmp.Or(out, resource)
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
