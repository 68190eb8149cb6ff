package mcp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// wellKnown is the path of the metadata of a protected resource. (RFC 9728 3)
const wellKnown = "/.well-known/oauth-protected-resource"

const (
	offline = "offline_access"
	seconds = "300" // how long metadata can be cached
)

// metadata describe a protected resource. (RFC 9728 2)
type metadata struct {
	Resource      string   `json:"resource"`
	Servers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	Methods       []string `json:"bearer_methods_supported"`
	Proofs        []string `json:"dpop_signing_alg_values_supported"`
	Name          string   `json:"resource_name,omitempty"`
	Documentation string   `json:"resource_documentation,omitempty"`
}

// Known is a resource that the authorization server of this configuration knows.
type Known struct {
	Resource string
	Name     string
	Scopes   []string // all that some request there needs
	Tools    []string // those that only calls of tools need
	First    []string // those that a client gets which names none
}

// Sites are the resources of all sites of a configuration. The zero value has none. It is safe for concurrent use.
type Sites struct {
	mu    sync.RWMutex // guards what follows
	known []Known
	at    map[string]map[string][]byte // host and path of metadata -> JSON
	count map[string]int               // resources of a host
	alone map[string][]byte            // host -> metadata of its first resource
}

// Site is a protected site with resources.
type Site struct {
	*Options

	Issuer  string   // of its tokens. Empty: the one of this configuration
	Scopes  []string // that some request there needs, without those of tools
	Origins []string // its addresses
	Place   string   // of its protect in the Caddyfile
}

// Add makes the resources of a site known. issuer is the one of this configuration, and
// proofs are the algorithms of proofs (RFC 9449) that sites check.
func (s *Sites) Add(site Site, issuer string, proofs []string) {
	o := site.Options
	own, scopes := named(site.Scopes), named(slices.Concat(site.Scopes, o.toolScopes()))
	first := scopes
	if !o.asksForTools() {
		first = own
	}
	tools := slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return slices.Contains(own, name) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at, s.count, s.alone = map[string]map[string][]byte{}, map[string]int{}, map[string][]byte{}
	}
	for _, resource := range o.resources {
		body, err := json.Marshal(metadata{
			Resource: resource, Servers: []string{cmp.Or(site.Issuer, issuer)}, Scopes: scopes, Methods: []string{"header"}, Proofs: proofs,
			Name: o.Name, Documentation: o.Documentation,
		})
		u, broken := url.Parse(resource)
		if err != nil || broken != nil {
			continue // SetUp has accepted the address, so neither happens
		}
		if site.Issuer == "" {
			s.known = append(s.known, Known{resource, o.Name, scopes, tools, first})
		}
		hosts := []string{plainHost(u.Scheme, u.Host)}
		if o.Resource != "" { // named: the site can have another address here, behind a proxy that changes the host
			hosts = append(hosts, hostsOf(site.Origins)...)
		}
		slices.Sort(hosts)
		for _, host := range slices.Compact(hosts) {
			s.place(host, strings.TrimSuffix(u.Path, "/"), body)
		}
	}
}

// named are the scopes that others learn of, in order. MCP, "Scope Selection Strategy": offline_access is not for a
// resource to ask for.
func named(scopes []string) []string {
	out := slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return name == offline })
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Sites) place(host, path string, body []byte) {
	if s.at[host] == nil {
		s.at[host], s.alone[host] = map[string][]byte{}, body
	}
	if _, twice := s.at[host][path]; !twice {
		s.count[host]++
		s.at[host][path] = body
	}
}

func hostsOf(origins []string) (out []string) {
	for _, origin := range origins {
		if u, err := url.Parse(origin); err == nil {
			out = append(out, plainHost(u.Scheme, u.Host))
		}
	}
	return out
}

// Known returns the resources whose tokens are those of this configuration.
func (s *Sites) Known() []Known {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.known)
}

// Serve answers a request for the metadata of a resource, and returns the status. 0: it is another request.
func (s *Sites) Serve(w http.ResponseWriter, r *http.Request) (status int) {
	path, ours := strings.CutPrefix(r.URL.Path, wellKnown)
	if !ours || s == nil {
		return 0
	}
	body := s.find(r, path)
	if body == nil {
		return 0
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // scripts of any origin can read what is public
	h.Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", seconds)
		status = http.StatusNoContent
	case http.MethodGet, http.MethodHead:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age="+seconds)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		status = http.StatusOK
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		status = http.StatusMethodNotAllowed
	}
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		w.Write(body) //nolint:errcheck // the client went away
	}
	return status
}

// find returns the metadata for what follows the well-known path. Without a path they are those of the only resource of
// the host: with several, a client that asks so would get another's.
func (s *Sites) find(r *http.Request, path string) []byte {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	host := plainHost(scheme, r.Host)
	if body := s.at[host][strings.TrimSuffix(path, "/")]; body != nil {
		return body
	}
	if path == "" && s.count[host] == 1 {
		return s.alone[host]
	}
	return nil
}
