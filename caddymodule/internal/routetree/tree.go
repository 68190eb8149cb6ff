// Package routetree walks the routes of Caddy's http app: which handlers they have, and which of these a request never
// reaches. Findings about them are made here too, so Caddy's structure is known in one place.
package routetree

import (
	"bytes"
	"encoding/json"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
)

// The handlers that matter here.
const (
	protectKind = "protect"
	issuerKind  = "gatehouse"
)

// Tree is the routes of all servers.
type Tree struct {
	servers []list
	named   []list // routes that `invoke` runs
	listen  []string
	whole   []string // places of the protects that see every request of their site; known after Check
}

// list are routes in the order in which a request tries them.
type list []route

// route is a list of handlers that run when the matchers match.
type route struct {
	hosts    []string // nil: any, or not only by host
	matched  bool     // it has matchers
	partly   bool     // it has matchers other than of hosts
	terminal bool
	matchers step // as a step of its own
	steps    []step
}

// step is one handler.
type step struct {
	kind    string
	place   string // of protect
	inner   list   // of a subroute
	passes  bool   // a file server that passes on what it does not find
	unknown []byte // JSON of a module that is not known here
	module  any    // that is provisioned. nil: it is still JSON
}

// Placed is a handler that knows where it stands in the Caddyfile.
type Placed interface {
	// Place returns file:line, or "".
	Place() string
}

// Bystander is a matcher that selects no request, and is among the matchers of a route for its own sake.
type Bystander interface{ Bystander() }

// Read reads the routes of an app. It may be provisioned, or only be about to be: a module that an app loads is
// provisioned in the middle of it, and sees some routes as modules and the others as JSON.
func Read(app *caddyhttp.App) *Tree {
	t := new(Tree)
	for _, srv := range app.Servers {
		if srv == nil {
			continue
		}
		t.servers = append(t.servers, readList(srv.Routes))
		t.listen = append(t.listen, srv.Listen...)
		for _, r := range srv.NamedRoutes {
			if r != nil {
				t.named = append(t.named, readList(caddyhttp.RouteList{*r}))
			}
		}
	}
	return t
}

// Whole returns the places of the protects that see every request of their site. It is known after Check.
func (t *Tree) Whole() []string { return slices.Clone(t.whole) }

// Listen returns the addresses that the servers listen at, as Caddy writes them.
func (t *Tree) Listen() []string { return slices.Clone(t.listen) }

func readList(routes caddyhttp.RouteList) list {
	var out list
	for i := range routes {
		out = append(out, readRoute(&routes[i]))
	}
	return out
}

func readRoute(r *caddyhttp.Route) route {
	kept := *r
	kept.MatcherSets = slices.DeleteFunc(slices.Clone(r.MatcherSets), func(set caddyhttp.MatcherSet) bool {
		return slices.ContainsFunc(set, func(m any) bool {
			_, is := m.(Bystander)
			return is
		})
	})
	r = &kept
	out := route{terminal: r.Terminal, matched: len(r.MatcherSets)+len(r.MatcherSetsRaw) > 0, hosts: hosts(r)}
	out.partly = out.matched && out.hosts == nil
	out.matchers = step{kind: matcherKind, module: []any{r.MatcherSetsRaw, r.MatcherSets}}
	for _, set := range r.MatcherSets {
		out.partly = out.partly || len(set) > 1
	}
	for _, set := range r.MatcherSetsRaw {
		out.partly = out.partly || len(set) > 1
	}
	for _, raw := range r.HandlersRaw {
		out.steps = append(out.steps, readRaw(raw))
	}
	if len(r.HandlersRaw) == 0 {
		for _, h := range r.Handlers {
			out.steps = append(out.steps, readModule(h))
		}
	}
	return out
}

// readRaw reads a handler that is still JSON.
func readRaw(raw json.RawMessage) step {
	var h struct {
		Handler  string              `json:"handler"`
		Routes   caddyhttp.RouteList `json:"routes"`
		Places   map[string]string   `json:"places"`
		PassThru bool                `json:"pass_thru"`
	}
	if json.Unmarshal(raw, &h) != nil { // a module that gives these names another meaning
		h.Routes = nil
	}
	s := step{kind: h.Handler, place: h.Places[protectKind], passes: h.PassThru}
	if h.Handler == "subroute" {
		s.inner = readList(h.Routes)
	} else {
		s.unknown = raw
	}
	return s
}

// readModule reads a handler that is provisioned.
func readModule(h caddyhttp.MiddlewareHandler) step {
	s := step{kind: caddy.GetModuleName(h), module: h}
	switch h := h.(type) {
	case *caddyhttp.Subroute:
		s.inner = readList(h.Routes)
	case *fileserver.FileServer:
		s.passes = h.PassThru
	case Placed:
		s.place = h.Place()
	}
	return s
}

// hosts returns the hosts that a route is for, or nil if it may be for any.
func hosts(r *caddyhttp.Route) (out []string) {
	for _, set := range r.MatcherSets {
		i := slices.IndexFunc(set, func(m any) bool { return reflect.TypeOf(m) == reflect.TypeFor[*caddyhttp.MatchHost]() })
		if i < 0 {
			return nil
		}
		if m, ok := set[i].(*caddyhttp.MatchHost); ok {
			out = append(out, *m...)
		}
	}
	for _, set := range r.MatcherSetsRaw {
		var m caddyhttp.MatchHost
		if json.Unmarshal(set["host"], &m) != nil {
			return nil
		}
		out = append(out, m...)
	}
	return out
}

// ends reports whether a handler answers every request that reaches it.
func (s *step) ends() bool {
	switch s.kind {
	case "reverse_proxy", "static_response", "error", "acme_server", issuerKind:
		return true
	case "file_server":
		return !s.passes
	}
	return false
}

// mentions reports whether the JSON of an unknown module holds the handler gatehouse.
func (s *step) mentions() bool {
	return bytes.Contains(bytes.ReplaceAll(s.unknown, []byte(" "), nil), []byte(`"handler":"`+issuerKind+`"`))
}

// matchesHost reports whether a host matcher of Caddy matches a host.
func matchesHost(pattern, host string) bool {
	if h, _, err := net.SplitHostPort(pattern); err == nil {
		pattern = h
	}
	pattern, host = strings.ToLower(strings.Trim(pattern, "[]")), strings.ToLower(host)
	if strings.Contains(pattern, "{") { // known with the request only
		return true
	}
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return true
}
