package forwardauth

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

const (
	askPath   = "/oauth/forward-auth"
	ownPath   = "/oauth/forward-auth/site" // and a path of the site that is Gatehouse's own
	envoyPath = "/oauth/ext-authz"         // and the path of the request
	namedPath = "/oauth/policy/"           // and a name, envoyTail and the path of the request
	envoyTail = "/ext-authz"

	// secretHeader vouches for a proxy.
	secretHeader = "Gatehouse-Secret"
	// decisionHeader says what was decided. A proxy that demands it takes no other server's answer for consent.
	decisionHeader = "Gatehouse-Decision"
	removeHeader   = "X-Envoy-Auth-Headers-To-Remove"
)

// Serves reports whether a path belongs to the gates.
func Serves(path string) bool {
	return path == askPath || strings.HasPrefix(path, ownPath+"/") || AnyHost(path)
}

// AnyHost reports whether requests for a path carry the host of the site that they ask about.
func AnyHost(path string) bool {
	_, prefix := envoyPrefix(path)
	return prefix != ""
}

// envoyPrefix returns what stands in front of the path of the request in a question of Envoy, and the name that it asks
// for. An empty prefix: it is no such question.
func envoyPrefix(path string) (name, prefix string) {
	if strings.HasPrefix(path, envoyPath+"/") {
		return "", envoyPath
	}
	rest, ok := strings.CutPrefix(path, namedPath)
	name, rest, _ = strings.Cut(rest, "/")
	if !ok || checkName(name) != nil || !strings.HasPrefix("/"+rest, envoyTail+"/") {
		return "", ""
	}
	return name, namedPath + name + envoyTail
}

// HasSecret reports whether a request carries something in its headers that must not stay in logs.
func HasSecret(r *http.Request) bool {
	if !Serves(r.URL.Path) {
		return false
	}
	return len(r.Header[secretHeader]) > 0 ||
		slices.ContainsFunc(slices.Concat(r.Header["X-Forwarded-Uri"], r.Header["X-Original-Url"]), protect.HasSecret)
}

// ServeHTTP serves /oauth/forward-auth, /oauth/forward-auth/site/…, /oauth/ext-authz/… and
// /oauth/policy/<name>/ext-authz/….
// (docs/gateways.md)
func (g *Gates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Del("Strict-Transport-Security") // the issuer's: this answer is one of the site's
	h.Set(decisionHeader, "deny")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "*") // another request of the same person may be decided otherwise
	if !g.trusts(r) {
		g.log.Warn("a proxy that is not trusted asked about a request", zap.String("peer", r.RemoteAddr))
		refuse(w, http.StatusForbidden, "access_denied", "this proxy may not ask: name its network in forward_auth_from or in trusted_proxies")
		return
	}
	kind, q, err := g.question(r)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	a, err := g.Ask(r.Context(), q)
	switch {
	case err != nil:
		g.fail(w, r, err)
	case !a.Passed:
		deny(w, kind, a)
	case len(a.Aliases) > 0 && kind != envoy:
		// The proxy would hand them on, and some upstreams take them for what only a gate may set.
		g.fail(w, r, malformed("the request carries "+a.Aliases[0]+", which reads like a header of the gate"))
	default:
		allow(w, r, kind, a)
	}
}

// allow writes the one answer that lets a request pass.
func allow(w http.ResponseWriter, r *http.Request, kind *profile, a Answer) {
	h := w.Header()
	maps.Copy(h, a.Limits)
	maps.Copy(h, a.Identity)
	if len(r.Header["Cookie"]) > 0 {
		h.Set("Cookie", a.Cookie)
	}
	if kind == envoy {
		h.Set(removeHeader, strings.Join(a.Remove, ", "))
	}
	h.Set(decisionHeader, "allow")
	w.WriteHeader(http.StatusOK)
}

// deny writes what the client gets. nginx copies neither redirects nor cookies: it finds the address in Location, and
// its configuration makes a redirect of it.
func deny(w http.ResponseWriter, kind *profile, a Answer) {
	h := w.Header()
	decided, stored, vary := h.Get(decisionHeader), h.Get("Cache-Control"), h.Get("Vary")
	maps.Copy(h, a.Header)
	h.Set(decisionHeader, decided)
	h.Set("Cache-Control", stored)
	h.Set("Vary", vary)
	if kind == nginx && a.Status >= http.StatusMultipleChoices && a.Status < http.StatusBadRequest {
		h.Set("WWW-Authenticate", `Bearer realm="gatehouse"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if kind == nginx && a.Status == http.StatusTooManyRequests {
		a.Status = http.StatusForbidden // of all others it makes a 500
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body) //nolint:errcheck // the proxy went away
}

// fail answers a question that could not be decided.
func (g *Gates) fail(w http.ResponseWriter, r *http.Request, err error) {
	if bad := new(Malformed); errors.As(err, &bad) {
		g.log.Info("a proxy asked without a request", zap.String("reason", bad.Reason), zap.String("peer", r.RemoteAddr))
		refuse(w, http.StatusBadRequest, "invalid_request", bad.Reason)
		return
	}
	g.log.Error("nothing was decided", zap.Error(err))
	ratelimit.RetryAfter(w, ratelimit.Soon)
	refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "try again later")
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct { //nolint:errcheck // the proxy went away
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{code, text})
}

// trusts reports whether the peer may ask.
func (g *Gates) trusts(r *http.Request) bool {
	if sent := r.Header[secretHeader]; len(sent) == 1 && !g.secret.IsZero() &&
		subtle.ConstantTimeCompare([]byte(sent[0]), []byte(g.secret.Reveal())) == 1 {
		return true
	}
	if len(g.from) == 0 {
		return byCaddy(r)
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && g.isFrom(peer.Addr())
}

// byCaddy reports whether the peer is one of Caddy's trusted_proxies.
func byCaddy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

func (g *Gates) isFrom(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.from, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client returns the address of the client: the last one of X-Forwarded-For that is not a proxy's. What stands before
// it, the client may have written itself. The zero value: unknown.
func (g *Gates) client(r *http.Request) netip.Addr {
	list := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	if strings.Join(list, "") == "" {
		return netip.Addr{}
	}
	// With trusted_proxies_strict Caddy reads the list as it is read here, and it knows its proxies.
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server.TrustedProxiesStrict > 0 &&
		byCaddy(r) && len(g.from) == 0 {
		ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		found, _ := netip.ParseAddr(ip) //nolint:errcheck // it is unknown then
		return found
	}
	return g.stranger(list)
}

// ClientBehind returns the address of the client of a peer. If the peer is a proxy of forward_auth_from, it is the last
// address of X-Forwarded-For that is not. The zero value: unknown.
func (g *Gates) ClientBehind(peer netip.Addr, forwardedFor []string) netip.Addr {
	if !g.isFrom(peer) {
		return peer
	}
	return g.stranger(strings.Split(strings.Join(forwardedFor, ","), ","))
}

// stranger returns the last address of a list that is not a proxy's, or the first of all.
func (g *Gates) stranger(list []string) netip.Addr {
	for i, text := range slices.Backward(list) {
		found, ok := parseAddr(strings.TrimSpace(text))
		if !ok {
			return netip.Addr{}
		}
		if i == 0 || !g.isFrom(found) {
			return found
		}
	}
	return netip.Addr{}
}

func parseAddr(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a, err == nil
}

// question reads what a proxy asks.
func (g *Gates) question(r *http.Request) (*profile, Question, error) {
	if bad := aliases(r.Header); bad != "" {
		return nil, Question{}, malformed("the request carries " + bad + ", which some servers read as another header")
	}
	q := Question{Header: r.Header, Client: g.client(r)}
	var kind *profile
	var err error
	switch path := r.URL.Path; {
	case AnyHost(path):
		var prefix string
		q.Gate, prefix = envoyPrefix(path)
		kind, err = envoy, q.asItIs(r, prefix, r.Host)
	case path != askPath:
		var host string
		if host, err = one(r.Header, "X-Forwarded-Host"); err == nil {
			kind, err = site, q.asItIs(r, ownPath, host)
		}
		q.own, q.Callback = true, true
		if at, _, _ := strings.Cut(q.Target, "?"); err == nil && !protect.IsOwn(at) {
			err = malformed("the path is not one of Gatehouse's own")
		}
	default:
		if kind, err = q.ask(r); err == nil {
			err = kind.read(r.Header, &q)
		}
	}
	if err == nil && kind != site {
		err = agree(r.Header, &q)
	}
	return kind, q, err
}

// asItIs reads a question from a request that has the method, path and query of the one that it is about.
func (q *Question) asItIs(r *http.Request, prefix, host string) (err error) {
	target, ok := strings.CutPrefix(r.RequestURI, prefix)
	if !ok {
		return malformed("the path is not in its canonical form")
	}
	q.Method, q.Host, q.Target = r.Method, host, target
	q.Scheme, err = scheme(r.Header, "X-Forwarded-Proto")
	return err
}

// ask reads the parameters of /oauth/forward-auth.
func (q *Question) ask(r *http.Request) (*profile, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, malformed("the query cannot be read")
	}
	kind := traefik
	named := slices.Compact(slices.Sorted(slices.Values(slices.Concat(query["profile"], query["proxy"]))))
	switch {
	case len(query["policy"]) > 1:
		return nil, malformed("policy is given twice")
	case query.Has("policy") && query.Get("policy") == "":
		return nil, malformed("policy is empty: name a forward_auth or a policy, or leave the parameter out")
	case len(named) > 1:
		return nil, malformed("profile is given twice")
	case len(named) == 1 && profiles[named[0]] == nil:
		return nil, malformed("the profile is unknown: traefik, caddy, nginx and haproxy are known")
	case len(named) == 1:
		kind = profiles[named[0]]
	}
	q.Gate, q.Callback, q.login = query.Get("policy"), kind == nginx, query.Has("login")
	for _, name := range []string{"policy", "profile", "proxy", "login"} {
		delete(query, name)
	}
	if len(query) > 0 {
		q.Narrow = query
	}
	return kind, nil
}
