package explain

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// Routes are the routes of all servers of a configuration, with every handler that could answer, store or send
// something taken out. Which routes a request takes is decided by Caddy's own code.
type Routes struct{ servers []server }

type server struct {
	*caddyhttp.Server
	ports []string
	chain caddyhttp.Handler
}

// harmless are the handlers that only change the request, or the answer on its way back. They run in a rehearsal too.
var harmless = []string{
	"http.handlers.rewrite", "http.handlers.headers", "http.handlers.vars", "http.handlers.map",
	"http.handlers.request_body",
}

// passing are handlers that let every request through, and have effects that a rehearsal must not have or does not
// need.
var passing = []string{
	"http.handlers.encode", "http.handlers.tracing", "http.handlers.log_append", "http.handlers.templates",
	"http.handlers.intercept", "http.handlers.push",
}

// New reads the routes of an app that has been provisioned in a context.
func New(ctx caddy.Context, app *caddyhttp.App) (*Routes, error) {
	out := new(Routes)
	names := make([]string, 0, len(app.Servers))
	for name, srv := range app.Servers {
		if srv != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		srv := app.Servers[name]
		c := copier{ctx: ctx, named: srv.NamedRoutes}
		routes, err := c.list(srv.Routes)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", name, err)
		}
		s := server{Server: srv, chain: routes.Compile(caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))}
		for _, address := range srv.Listen {
			if _, port, err := net.SplitHostPort(address); err == nil {
				s.ports = append(s.ports, port)
			}
		}
		out.servers = append(out.servers, s)
	}
	return out, nil
}

// copier copies routes.
type copier struct {
	ctx   caddy.Context
	named map[string]*caddyhttp.Route
	depth int
}

const maxDepth = 32 // of subroutes and named routes, which can name each other

func (c *copier) list(routes caddyhttp.RouteList) (out caddyhttp.RouteList, err error) {
	if c.depth++; c.depth > maxDepth {
		return nil, fmt.Errorf("routes nest deeper than %d", maxDepth)
	}
	defer func() { c.depth-- }()
	for i := range routes {
		r := caddyhttp.Route{Group: routes[i].Group, Terminal: routes[i].Terminal, MatcherSets: routes[i].MatcherSets}
		for _, h := range routes[i].Handlers {
			handler, err := c.handler(h)
			if err != nil {
				return nil, err
			}
			r.Handlers = append(r.Handlers, handler)
		}
		if err := r.ProvisionHandlers(c.ctx, nil); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (c *copier) handler(h caddyhttp.MiddlewareHandler) (caddyhttp.MiddlewareHandler, error) {
	switch h := h.(type) {
	case *protect.Protect:
		return gate{h}, nil
	case *caddyhttp.Subroute:
		inner, err := c.list(h.Routes)
		return &caddyhttp.Subroute{Routes: inner}, err
	case *caddyhttp.Invoke:
		route := c.named[h.Name]
		if route == nil {
			return wall{"http.handlers.invoke"}, nil
		}
		inner, err := c.list(caddyhttp.RouteList{*route})
		return &caddyhttp.Subroute{Routes: inner}, err
	}
	name := "an unknown handler"
	if m, ok := h.(caddy.Module); ok {
		name = string(m.CaddyModule().ID)
	}
	switch {
	case slices.Contains(harmless, name):
		return h, nil
	case slices.Contains(passing, name):
		return window{}, nil
	}
	return wall{name}, nil
}

// gate rehearses a protect.
type gate struct{ *protect.Protect }

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	j := r.Context().Value(journeyKey{}).(*journey) //nolint:forcetypeassert // as Ask has set it
	n := len(j.steps)
	j.steps = append(j.steps, protect.Rehearsal{})
	step, err := g.Rehearse(w, r, j.caller, next.ServeHTTP)
	j.steps[n] = step
	return err
}

// window lets a request through.
type window struct{}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (window) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// wall ends a journey: this handler would answer, or no one knows what it would do.
type wall struct{ name string }

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h wall) ServeHTTP(_ http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	j := r.Context().Value(journeyKey{}).(*journey) //nolint:forcetypeassert // as Ask has set it
	j.end = strings.TrimPrefix(h.name, "http.handlers.")
	return nil
}
