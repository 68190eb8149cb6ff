// Package mcp makes a protected site discoverable for clients of the Model Context Protocol: it serves the metadata of
// the resource (RFC 9728), writes the challenge that refers to it, and registers the site with the authorization
// server.
package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// Options make a site a resource server of MCP, as an operator writes them.
type Options struct {
	// The resource (RFC 8707) that tokens must be meant for: the address that people give to their client, or the start
	// of it. Default: the addresses of the site, with the path of the matcher.
	Resource string `json:"resource,omitempty"`
	// What clients show people as the name of the resource. Default: none.
	Name string `json:"name,omitempty"`
	// A page for developers about the resource. Default: none.
	Documentation string `json:"documentation,omitempty"`
	// The scopes that calls of tools need, in addition to those of the site. Where there are any, bodies of requests are
	// read, at most 1 MiB, and must be JSON-RPC messages. Default: none.
	Tools []Tool `json:"tools,omitempty"`
	// Whether the challenge to a client without a valid token names the scopes of the tools too: on or off. Many
	// clients ask a person once and never for more. Default: on.
	ChallengeTools string `json:"challenge_tools,omitempty"`

	resources []string
}

// UnmarshalCaddyfile reads the option of protect; the dispenser stands on its word:
//
//	mcp [<resource>] {
//		name            <text>
//		documentation   <url>
//		tool            <name> <scope>...
//		challenge_tools on|off
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		o.Resource = d.Val()
		if err := caddyfileutil.Check(d, "mcp", o.Resource, checkResource); err != nil {
			return err
		}
	}
	if d.NextArg() {
		return d.Errf("mcp: unexpected argument %q", d.Val())
	}
	return caddyfileutil.ReadBlock(d, "mcp", &reference.MCP, caddyfileutil.Subdirectives{
		"name":            caddyfileutil.Text(&o.Name),
		"documentation":   caddyfileutil.Value(&o.Documentation, checkPage),
		"tool":            o.readTool,
		"challenge_tools": caddyfileutil.Value(&o.ChallengeTools, checkSwitch),
	})
}

// checkResource accepts the address of a resource.
func checkResource(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("%q is not an address such as https://mcp.example.com/mcp", s)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback.Is(u.Hostname())):
		return fmt.Errorf("%q is not https", s)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return fmt.Errorf("%q has a user, query or fragment: clients compare the address without", s)
	case strings.Contains(u.Path, "*"):
		return fmt.Errorf("%q has a *, which is not a wildcard here: every address below the resource belongs to it", s)
	case strings.ContainsAny(s, "\"\\ ") || u.EscapedPath() != u.Path:
		return fmt.Errorf("%q has characters that must be escaped in an address, which clients compare as it is written", s)
	}
	return nil
}

func checkPage(s string) error {
	if u, err := url.Parse(s); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("%q is not the address of a page", s)
	}
	return nil
}

// SetUp resolves and checks the options. sites are the origins of the site, and match the matcher of its protect.
func (o *Options) SetUp(r *caddyfileutil.Resolver, sites []string, match []caddy.ModuleMap) {
	o.Resource = r.Plain("mcp", o.Resource, checkResource)
	o.Name = r.Plain("mcp name", o.Name, nil)
	o.Documentation = r.Plain("mcp documentation", o.Documentation, checkPage)
	o.setUpTools(r)
	var err error
	if o.resources, err = o.resolve(sites, match); err != nil {
		r.AddError(fmt.Errorf("mcp: %w", err))
	}
}

// Check reports whether the resource is known: it is named, or follows from the addresses of the site.
func (o *Options) Check(sites []string, match []caddy.ModuleMap) error {
	if _, err := o.resolve(sites, match); err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

const fix = "name the address that people give to their client, such as mcp https://mcp.example.com/mcp"

// resolve returns the resources of the site.
func (o *Options) resolve(sites []string, match []caddy.ModuleMap) ([]string, error) {
	if o.Resource != "" {
		return []string{o.Resource}, nil
	}
	if len(sites) == 0 {
		return nil, errors.New("the site has no address with a host: " + fix)
	}
	path, err := pathOf(match)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(sites))
	for i, site := range sites {
		out[i] = site + path
		if err := checkResource(out[i]); err != nil {
			return nil, fmt.Errorf("%w: %s", err, fix)
		}
	}
	return out, nil
}

// pathOf returns the one path that a matcher selects, without what stands for more. Empty: it asks for no path.
func pathOf(match []caddy.ModuleMap) (string, error) {
	several := errors.New("the matcher does not select one path: " + fix)
	var paths []string
	for _, set := range match {
		raw, ok := set["path"]
		if !ok {
			if _, other := set["path_regexp"]; other || len(match) > 1 {
				return "", several
			}
			return "", nil
		}
		var some []string
		if json.Unmarshal(raw, &some) != nil {
			return "", several
		}
		for _, path := range some {
			paths = append(paths, strings.TrimSuffix(strings.TrimSuffix(path, "*"), "/"))
		}
	}
	slices.Sort(paths)
	switch paths = slices.Compact(paths); {
	case len(paths) == 0:
		return "", nil
	case len(paths) > 1 || strings.ContainsAny(paths[0], "*{"):
		return "", several
	}
	return paths[0], nil
}

// Resources are those of the site, after SetUp. A token must be meant for one of them.
func (o *Options) Resources() []string { return slices.Clone(o.resources) }

// Challenge adds to a challenge where the metadata are (RFC 9728 5.1), and lets scripts of other origins read it.
func (o *Options) Challenge(h http.Header, r *http.Request, challenge string) string {
	resource := o.resources[0]
	for _, candidate := range o.resources {
		if u, err := url.Parse(candidate); err == nil && plainHost(u.Scheme, u.Host) == plainHost(u.Scheme, r.Host) {
			resource = candidate
		}
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, DPoP-Nonce")
	return challenge + `, resource_metadata="` + metadataURL(resource) + `"`
}

// metadataURL: RFC 9728 3.1: the well-known path stands between host and path of the resource.
func metadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + wellKnown + strings.TrimSuffix(u.Path, "/")
}

// plainHost returns a host in lower case without the default port of its scheme.
func plainHost(scheme, host string) string {
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return strings.TrimSuffix(strings.ToLower(host), port)
}
