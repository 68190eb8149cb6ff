package routetree

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// What a server believes of the proxies in front of it.

// ReadFromRight makes the servers with protect or gatehouse read X-Forwarded-For from the right, as
// trusted_proxies_strict does: proxies append to it, and what stands at its left the client has written.
func ReadFromRight(app *caddyhttp.App) {
	for _, srv := range app.Servers {
		if isOurs(srv) {
			srv.TrustedProxiesStrict = max(srv.TrustedProxiesStrict, 1)
		}
	}
}

// isOurs reports whether a server has protect or gatehouse.
func isOurs(srv *caddyhttp.Server) bool {
	return srv != nil && (hasOurs(readList(srv.Routes)) || slices.ContainsFunc(namedOf(srv), hasOurs))
}

func namedOf(srv *caddyhttp.Server) (out []list) {
	for _, r := range srv.NamedRoutes {
		if r != nil {
			out = append(out, readList(caddyhttp.RouteList{*r}))
		}
	}
	return out
}

// hasOurs reports whether a list has protect or gatehouse.
func hasOurs(l list) bool {
	for i := range l {
		for j := range l[i].steps {
			s := &l[i].steps[j]
			if s.kind == protectKind || s.kind == issuerKind || s.mentions() || hasOurs(s.inner) {
				return true
			}
		}
	}
	return false
}

// strangers are addresses that no proxy has: networks for documentation, and of providers of DNS.
var strangers = []string{"192.0.2.1:1", "198.51.100.1:1", "203.0.113.1:1", "9.9.9.9:1", "[2001:db8::1]:1", "[2620:fe::9]:1"}

// TrustsStrangers reports whether a server takes anyone for a proxy, who can then choose the address of the client.
func TrustsStrangers(app *caddyhttp.App) bool {
	for _, srv := range app.Servers {
		if srv == nil {
			continue
		}
		for _, addr := range strangers {
			r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, RemoteAddr: addr, Header: http.Header{}}
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, srv)
			if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
				return true
			}
		}
	}
	return false
}

// HasProxies reports whether a server has trusted_proxies.
func HasProxies(srv *caddyhttp.Server) bool {
	return srv != nil && (srv.TrustedProxiesUnix || len(srv.TrustedProxiesRaw) > 0 ||
		!reflect.ValueOf(srv).Elem().FieldByName("trustedProxies").IsNil())
}
