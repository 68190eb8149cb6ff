package protect

import (
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
)

func init() {
	httpcaddyfile.RegisterDirective("protect", parseProtect)
	// Before everything that answers or dispatches (handle, route, respond, reverse_proxy and the rest), after rewrite,
	// uri and the other ways of signing in, and before request_header, so its values can use {http.auth.user.*}.
	httpcaddyfile.RegisterDirectiveOrder("protect", httpcaddyfile.Before, "request_header")
}

// parseProtect reads the directive. Its matcher becomes part of the handler, which sees every request of the site.
func parseProtect(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	if !h.Next() {
		return nil, h.ArgErr()
	}
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	p := new(Protect)
	if len(matcher) > 0 {
		p.Match = caddyhttp.RawMatcherSets{matcher}
		if policy.AsksForPath(matcher) && h.Next() {
			caddyfileutil.Warn(h, "protect", "the matcher leaves all other paths of the site open to everybody: "+
				"protect the whole site, and name the paths that are open with `public` in the block of protect")
			h.Reset()
		}
	}
	if err := p.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	if err := policy.CheckMatch(matcher); err != nil {
		return nil, caddyfileutil.AtPlace(p.Place(), fmt.Errorf("protect: matcher: %w: nothing would be guarded", err))
	}
	if h.Option(caddyfileutil.AppName) == nil {
		return nil, caddyfileutil.AtPlace(p.Place(), caddyfileutil.ErrNoApp("protect"))
	}
	if p.Login && len(p.Origins) == 0 {
		origins, err := originsOfSite(h)
		if err != nil {
			return nil, h.Errf("protect: login: %v", err)
		}
		p.Origins = origins
	}
	if !p.Login && !h.IsNamedRoute() {
		for _, key := range siteKeys(h) {
			origin, err := originOfAddress(key, h.Option)
			if err != nil && p.Assertion != "" {
				return nil, h.Errf("protect: assertion: %v, but an assertion names its site", err)
			}
			if err == nil && !slices.Contains(p.Sites, origin) {
				p.Sites = append(p.Sites, origin)
			}
		}
	}
	// Values without placeholders are checked here, where the error can name file and line.
	for _, hdr := range p.Headers {
		if !caddyfileutil.HasPlaceholder(hdr.Name) {
			p.headers = append(p.headers, hdr)
		}
	}
	if err := p.consistent(); err != nil {
		return nil, h.Errf("protect: %v", err)
	}
	if p.MCP != nil {
		if err := p.MCP.Check(p.Sites, p.Match); err != nil {
			return nil, h.Errf("protect: %v", err)
		}
	}
	p.headers = nil
	return h.NewRoute(nil, p), nil
}

// UnmarshalCaddyfile reads the directive:
//
//	protect [<matcher>] [<scopes...>] {
//		login       [<origin>...]
//		scopes      <scope>...
//		groups      <group>...
//		partition   <name>...|*
//		level       <1..4>
//		audience    <uri>...
//		clients     <client id>...
//		tokens      any
//		headers     <name> <claim>
//		assertion   [<header>] [ES256|ML-DSA-44|ML-DSA-65|ML-DSA-87]
//		assertion   txn_token [<header>] [<algorithm>] { domain <name>; scopes <scope>... }
//		public      <path>...
//		need        groups|scopes|level|assurance|max_age|claim|person|client|provider|device_bound|agent <value>...
//		policy      <name>...
//		allow       { ... }
//		deny        { ... }
//		shadow      { ... }
//		limit       <number>/<period> per <kind> [burst <number>] { match <matcher>... }
//		quota       <number>/<period> per <kind> { match <matcher>... }
//		plan
//		audit       [log]
//		preflight
//		session     <duration>
//		replay      on|off
//		request_access on|off
//		device_bound off
//		strip_token
//		upstream_token <audience>
//		introspect  <url> { ... }
//		accept      app_passwords
//		mcp         [<resource>] { ... }
//	}
func (p *Protect) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if !d.Next() {
		return d.ArgErr()
	}
	p.Places = caddyfileutil.ReadPlaces(d, "protect")
	if err := caddyfileutil.CheckWriting(d, "protect"); err != nil {
		return err
	}
	known := p.subdirectives()
	for d.NextArg() {
		v := d.Val()
		if err := caddyfileutil.Check(d, "protect", v, caddyfileutil.CheckScope); err != nil {
			return err
		}
		if _, option := known[v]; option {
			return d.Errf("protect: %s is an option, and arguments are scopes: write %s on a line of its own in the block of protect, or `scopes %s` there for a scope of this name", v, v, v)
		}
		if slices.Contains(p.Scopes, v) {
			return d.Errf("protect: %s is named twice", v)
		}
		p.Scopes = append(p.Scopes, v)
	}
	return caddyfileutil.ReadBlock(d, "protect", &reference.Protect, known)
}

func (p *Protect) subdirectives() caddyfileutil.Subdirectives {
	known := p.Rules.Subdirectives()
	maps.Copy(known, p.RateLimits.Subdirectives())
	maps.Copy(known, caddyfileutil.Subdirectives{
		"need":           p.Need.ReadLine,
		"policy":         caddyfileutil.Values(&p.Policies, nil),
		"login":          p.readLogin,
		"scopes":         p.readScopes,
		"groups":         caddyfileutil.Values(&p.Groups, nil),
		"partition":      caddyfileutil.Values(&p.Partitions, checkPartition),
		"level":          caddyfileutil.Value(&p.Level, caddyfileutil.CheckLevel),
		"audience":       caddyfileutil.Values(&p.Audience, caddyfileutil.CheckURI),
		"clients":        caddyfileutil.Values(&p.Clients, nil),
		"tokens":         caddyfileutil.Value(&p.Tokens, checkTokens),
		"headers":        p.readHeader,
		"assertion":      p.readAssertion,
		"public":         caddyfileutil.Values(&p.Public, sitepath.CheckPublic),
		"shadow":         p.readShadow,
		"audit":          p.Audit.Read,
		"preflight":      caddyfileutil.Flag(&p.Preflight),
		"session":        caddyfileutil.Value(&p.Session, caddyfileutil.CheckDuration),
		"replay":         caddyfileutil.Value(&p.Replay, checkOnOff),
		"request_access": caddyfileutil.Value(&p.RequestAccess, checkOnOff),
		"device_bound":   caddyfileutil.Value(&p.DeviceBound, checkOff),
		"strip_token":    caddyfileutil.Flag(&p.StripToken),
		"upstream_token": caddyfileutil.Value(&p.UpstreamToken, checkTarget),
		"introspect":     p.readIntrospect,
		"accept":         caddyfileutil.Values(&p.Accept, checkAccept),
		"mcp":            p.readMCP,
	})
	return known
}

func (p *Protect) readLogin(d *caddyfile.Dispenser) error {
	p.Login = true
	if err := caddyfileutil.CheckAlone(d, "login"); err != nil {
		return err
	}
	if d.CountRemainingArgs() == 0 {
		return caddyfileutil.NoMore(d, "login")
	}
	return caddyfileutil.Values(&p.Origins, caddyfileutil.CheckIssuer)(d)
}

func (p *Protect) readScopes(d *caddyfile.Dispenser) error {
	if len(p.Scopes) > 0 {
		return d.Errf("protect: scopes are already set: %s: name them all in one place", strings.Join(p.Scopes, " "))
	}
	return caddyfileutil.Values(&p.Scopes, caddyfileutil.CheckScope)(d)
}

func (p *Protect) readHeader(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.Err("headers: want a header and a claim, as in: headers Remote-User sub")
	}
	if err := caddyfileutil.Check(d, "headers", args[0], checkIdentityHeader); err != nil {
		return err
	}
	if err := caddyfileutil.Check(d, "headers", args[1], checkClaim); err != nil {
		return err
	}
	p.Headers = append(p.Headers, IdentityHeader{Name: args[0], Claim: args[1]})
	return caddyfileutil.NoMore(d, "headers")
}

// originsOfSite returns the origins of the addresses of the site block that a directive is in.
func originsOfSite(h httpcaddyfile.Helper) ([]string, error) {
	const fix = "name the site's origin, such as login https://wiki.example.com"
	keys := siteKeys(h)
	if h.IsNamedRoute() || len(keys) == 0 {
		return nil, fmt.Errorf("it is not in a site of its own: %s", fix)
	}
	var origins []string
	for _, key := range keys {
		origin, err := originOfAddress(key, h.Option)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, fix)
		}
		if !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	return origins, nil
}

// originOfAddress returns the origin under which browsers see a site address, by Caddy's own rules for HTTPS.
// http_port and https_port are internal ports, browsers see the default ones.
func originOfAddress(key string, option func(string) any) (string, error) {
	addr, err := httpcaddyfile.ParseAddress(key)
	if err != nil {
		return "", err
	}
	autoHTTPS, _ := option("auto_https").([]string)
	httpPort := caddyhttp.DefaultHTTPPort
	if n, ok := option("http_port").(int); ok {
		httpPort = n
	}
	scheme := strings.ToLower(addr.Scheme)
	switch {
	case addr.Host == "" || strings.ContainsAny(addr.Host, "*{"):
		return "", fmt.Errorf("the site address %s names no host", key)
	case scheme != "":
	case addr.Port == strconv.Itoa(httpPort):
		scheme = "http"
	case slices.Contains(autoHTTPS, "off"):
		return "", fmt.Errorf("with auto_https off, the site address %s does not show whether it is https", key)
	default:
		scheme = "https"
	}
	host := addr.Host
	if addr.Port != "" {
		host = net.JoinHostPort(host, addr.Port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u, err := caddyfileutil.ParseIssuer(scheme + "://" + host)
	if err != nil {
		return "", fmt.Errorf("the site address %s: %w", key, err)
	}
	return u.Scheme + "://" + u.Host, nil
}

// siteKeys returns the addresses of the site block. Caddy keeps them in an unexported field of Helper. If that field
// goes away, sites must name their origins, and the tests of this file fail.
func siteKeys(h httpcaddyfile.Helper) []string {
	block := reflect.ValueOf(h).FieldByName("parentBlock")
	if block.Kind() != reflect.Struct {
		return nil
	}
	tokens := block.FieldByName("Keys")
	if tokens.Kind() != reflect.Slice {
		return nil
	}
	var keys []string
	for i := range tokens.Len() {
		text := tokens.Index(i).FieldByName("Text")
		if text.Kind() != reflect.String {
			return nil
		}
		keys = append(keys, text.String())
	}
	return keys
}

var _ caddyfile.Unmarshaler = (*Protect)(nil)
