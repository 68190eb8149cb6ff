// Package inventory lists the protected sites of a running configuration and can replay a request against them. The
// commands, the API and the admin console ask it.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// Sites are those of one configuration. It is safe for concurrent use.
type Sites struct {
	ctx   caddy.Context
	gates *forwardauth.Gates
	named map[string]*policy.Policy

	mu     sync.Mutex      // guards routes
	routes *explain.Routes // nil: not read yet
}

// New returns the sites of a configuration that is provisioned in ctx, which name policies.
func New(ctx caddy.Context, gates *forwardauth.Gates, policies map[string]*policy.Policy) *Sites {
	return &Sites{ctx: ctx, gates: gates, named: policies}
}

// app is the http app of Caddy. nil: the configuration has no sites
func (s *Sites) app() (*caddyhttp.App, error) {
	found, err := s.ctx.AppIfConfigured("http")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, nil
	}
	app, _ := found.(*caddyhttp.App)
	return app, err
}

// read reads the routes once: a configuration does not change.
func (s *Sites) read() (*explain.Routes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routes != nil {
		return s.routes, nil
	}
	app, err := s.app()
	if err != nil || app == nil {
		return nil, errors.Join(errors.New("the configuration has no sites"), err)
	}
	s.routes, err = explain.New(s.ctx, app)
	return s.routes, err
}

// Ask tells what the sites do with a request that no one has made.
func (s *Sites) Ask(ctx context.Context, q explain.Request, c protect.Caller) (*explain.Answer, error) {
	if q.Gate != "" {
		return s.askGate(ctx, q, c)
	}
	routes, err := s.read()
	if err != nil {
		return nil, err
	}
	answer, err := routes.Ask(ctx, q, c)
	if errors.Is(err, explain.ErrNoSite) {
		if other, gateErr := s.askGate(ctx, q, c); other != nil || gateErr != nil {
			return other, gateErr
		}
	}
	return answer, err
}

// askGate tells what the gate of a site says that another proxy serves. nil: there is no such gate.
func (s *Sites) askGate(ctx context.Context, q explain.Request, c protect.Caller) (*explain.Answer, error) {
	u, err := url.Parse(q.URL)
	if err != nil {
		return nil, explain.BadRequest{Err: err}
	}
	called, p, err := s.gates.Decider(q.Gate, u.Scheme, u.Host)
	if err != nil {
		return nil, explain.BadRequest{Err: err}
	}
	if p == nil {
		return nil, nil
	}
	return explain.AskGate(ctx, explain.Gate{Name: called, Protect: p}, q, c)
}

// List returns the sites, by their names.
func (s *Sites) List() ([]sites.Site, error) {
	app, err := s.app()
	if err != nil {
		return nil, err
	}
	by := map[string]*sites.Site{}
	add := func(name, id string, g sites.Gate) {
		if by[id] == nil {
			by[id] = &sites.Site{ID: id, Name: name}
		}
		by[id].Gates = append(by[id].Gates, g)
	}
	if app != nil {
		w := walker{found: func(p *protect.Protect, paths []string) {
			g := gateOf(p)
			g.Kind, g.Paths = "protect", paths
			add(p.Name(), cmp.Or(p.Name(), p.Place(), "protect"), g)
		}}
		for _, name := range sorted(app.Servers) {
			if srv := app.Servers[name]; srv != nil {
				w.named = srv.NamedRoutes
				w.list(srv.Routes, nil)
			}
		}
	}
	for _, name := range sorted(s.gates.Named) {
		p := &s.gates.Named[name].Protect
		g := gateOf(p)
		g.Kind, g.Name = "forward_auth", name
		add(p.Name(), cmp.Or(p.Name(), "forward_auth "+name), g)
	}
	if p := s.gates.Bare(); p != nil {
		g := gateOf(p)
		g.Kind, g.Name = "forward_auth", p.Name()
		add(p.Name(), p.Name(), g)
	}
	out := make([]sites.Site, 0, len(by))
	for _, id := range sorted(by) {
		out = append(out, *by[id])
	}
	return out, nil
}

func sorted[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// walker looks for the directives in routes.
type walker struct {
	named map[string]*caddyhttp.Route
	depth int
	seen  []*protect.Protect
	found func(p *protect.Protect, paths []string)
}

const maxDepth = 32 // of subroutes and named routes, which can name each other

// list walks through routes, which requests to these paths alone reach. nil: all
func (w *walker) list(routes caddyhttp.RouteList, paths []string) {
	if w.depth++; w.depth > maxDepth {
		return
	}
	defer func() { w.depth-- }()
	for i := range routes {
		inner := paths
		if own := pathsOf(routes[i].MatcherSets); own != nil {
			inner = own
		}
		for _, h := range routes[i].Handlers {
			switch h := h.(type) {
			case *protect.Protect:
				if !slices.Contains(w.seen, h) {
					w.seen = append(w.seen, h)
					if own := pathsOf(h.Matchers()); own != nil {
						w.found(h, own)
					} else {
						w.found(h, inner)
					}
				}
			case *caddyhttp.Subroute:
				w.list(h.Routes, inner)
			case *caddyhttp.Invoke:
				if r := w.named[h.Name]; r != nil {
					w.list(caddyhttp.RouteList{*r}, inner)
				}
			}
		}
	}
}

// pathsOf are the paths that matchers name. nil: none
func pathsOf(sets caddyhttp.MatcherSets) (out []string) {
	for _, set := range sets {
		for _, m := range set {
			switch m := m.(type) {
			case caddyhttp.MatchPath:
				out = append(out, m...)
			case *caddyhttp.MatchPath:
				out = append(out, *m...)
			}
		}
	}
	return out
}

// gateOf returns the requirements of a directive, in the words of the Caddyfile.
func gateOf(p *protect.Protect) sites.Gate {
	g := sites.Gate{
		Place: p.Place(), Origins: dedupe(slices.Concat(p.Origins, p.Sites)), Open: p.Public, Policies: p.Policies,
		Rules: rulesOf(p.Rules.Deny, p.Rules.Allow),
	}
	add := func(words ...string) { g.Asks = append(g.Asks, strings.Join(words, " ")) }
	each := func(word string, list []string) {
		if len(list) > 0 {
			add(append([]string{word}, list...)...)
		}
	}
	if p.Login {
		add("login")
	}
	each("scopes", p.Scopes)
	each("groups", p.Groups)
	each("partition", p.Partitions)
	each("audience", p.Audience)
	each("clients", p.Clients)
	if p.Tokens != "" {
		add("tokens", p.Tokens)
	}
	if n := p.LeastLevel(); n > 0 {
		add("level", fmt.Sprint(n))
	}
	if p.Session != "" {
		add("session", string(p.Session))
	}
	for _, words := range needs(&p.Need) {
		add("need", words)
	}
	each("accept", p.Accept)
	if p.RequestAccess == "on" {
		add("request_access")
	}
	if p.Introspect != nil {
		add("introspect")
	}
	if p.MCP != nil {
		add("mcp")
	}
	if s := p.Shadow; s != nil {
		g.Trial = &sites.Trial{Policies: s.Policies, Rules: rulesOf(s.Rules.Deny, s.Rules.Allow)}
		for _, words := range needs(&s.Need) {
			g.Trial.Asks = append(g.Trial.Asks, "need "+words)
		}
	}
	return g
}

func dedupe(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// needs returns the requirements for a caller, in the words of the Caddyfile.
func needs(n *policy.Need) (out []string) {
	each := func(word string, list []string) {
		if len(list) > 0 {
			out = append(out, word+" "+strings.Join(list, " "))
		}
	}
	each("groups", n.Groups)
	each("scopes", n.Scopes)
	if level := n.RequiredLevel(); level > 0 {
		out = append(out, fmt.Sprintf("level %d", level))
	}
	if level := n.RequiredAssurance(); level > 0 {
		out = append(out, fmt.Sprintf("assurance %d", level))
	}
	if n.MaxAge != "" {
		out = append(out, "max_age "+string(n.MaxAge))
	}
	for _, c := range n.Claims {
		each("claim "+c.Name, c.Values)
	}
	each("person", n.Persons)
	each("client", n.Clients)
	each("provider", n.Providers)
	return out
}

// rulesOf are rules as the console shows them.
func rulesOf(deny, allow []*policy.Rule) (out []sites.Rule) {
	for i, r := range slices.Concat(deny, allow) {
		rule := sites.Rule{Kind: "allow", Name: r.Name, Place: r.Place, Counted: r.Counted()}
		if i < len(deny) {
			rule.Kind = "deny"
		}
		if text := r.MatchText(); text != "" {
			rule.Asks = append(rule.Asks, sites.Words("match", text)...)
		}
		for _, words := range needs(&r.Need) {
			rule.Asks = append(rule.Asks, "need "+words)
		}
		for _, when := range r.When {
			rule.Asks = append(rule.Asks, "when "+when)
		}
		out = append(out, rule)
	}
	return out
}
