// Package forwardauth answers other proxies that ask whether a request is allowed. It reads the question of each kind
// of proxy, has the gate of the configuration decide through package protect, and answers in the form that the proxy
// understands.
package forwardauth

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Gates answer other proxies.
type Gates struct {
	// The gates, by the name that a proxy asks for with the parameter policy. Default: none.
	Named map[string]*Gate `json:"gates,omitempty"`
	// Whether origins that no forward_auth names have a gate too, which accepts any bearer token of the issuer that is not
	// meant for another resource: on or off. Default: off, and questions about them are refused.
	Any string `json:"any,omitempty"`
	// The networks of the proxies that may ask. Default: Caddy's trusted_proxies.
	From []string `json:"from,omitempty"`
	// A secret that a proxy with any address can send in the header Gatehouse-Secret to be accepted. Default: none.
	Secret caddyfileutil.Sensitive `json:"secret,omitempty"`

	from     []netip.Prefix
	secret   secret.String
	byOrigin map[string]*Gate // scheme and host
	policies map[string]*Gate // that let a request pass by the rules of one policy
	bare     *Gate            // for proxies that name no gate, and origins without one. nil: such a question is refused
	alone    *Gate            // see Alone
	log      *zap.Logger
}

// Gate is the counterpart of protect for a site that another proxy serves: it decides about its requests.
type Gate struct {
	// The origins under which browsers see the site, such as https://wiki.example.com. The gate decides about no others.
	// Required with login. Default: any.
	Origins []string `json:"origins,omitempty"`
	// The header in which the proxy names the certificate of the client, such as Client-Cert (RFC 9440), and which the
	// proxy removes from requests of the client. Default: none, and tokens that are bound to a certificate are refused
	// here.
	CertificateHeader string `json:"client_certificate_header,omitempty"`
	protect.Protect

	identity []string // headers that carry the identity
	remove   []string // headers that only the gate may set

	mu       sync.Mutex          // guards what follows
	narrowed map[string]narrowed // by the parameters that narrow. At most maxNarrowed
}

// narrowed has the gates for a question that asks for more than its gate.
type narrowed struct {
	gate    *protect.Protect // in place of the gate
	further *protect.Protect // after it. nil: none
}

// maxNarrowed bounds the number of narrowed gates that are kept. Proxies ask for the same ones by their configuration,
// so there are few.
const maxNarrowed = 256

// Provision prepares the gates. policies are the names of the policies of the app, and places are those of its options.
func (g *Gates) Provision(ctx caddy.Context, app protect.App, policies []string, places caddyfileutil.Places) error {
	g.log = ctx.Logger().Named("forward_auth")
	res := caddyfileutil.NewResolverAt(places)
	for _, network := range res.List("forward_auth_from", g.From, caddyfileutil.CheckTrusted) {
		found, _ := caddyfileutil.ParseNetwork(network)
		g.from = append(g.from, found)
	}
	if s, ok := res.Text("forward_auth_secret", string(g.Secret), caddyfileutil.CheckSecret); ok {
		g.secret = secret.New(s)
	}
	anyOrigin := res.Plain("forward_auth_any", g.Any, checkSwitch) == "on"
	if err := res.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	g.byOrigin, g.policies = map[string]*Gate{}, map[string]*Gate{}
	for _, name := range slices.Sorted(maps.Keys(g.Named)) {
		block := "forward_auth " + name
		g.Named[name].Call(block)
		if err := g.Named[name].provision(ctx, app, placesOf(places, block)); err != nil {
			return places.LocateIn(fmt.Errorf("%s: %w", block, err), block)
		}
		for _, text := range g.Named[name].Origins {
			origin := plainOrigin(text)
			if g.byOrigin[origin] != nil {
				return caddyfileutil.AtPlace(places.Of(block+": origins"),
					fmt.Errorf("%s: the origin %s belongs to another forward_auth: name it once", block, origin))
			}
			g.byOrigin[origin] = g.Named[name]
		}
	}
	for _, name := range policies {
		if g.Named[name] != nil {
			continue
		}
		gate := new(Gate)
		gate.Policies = []string{name}
		gate.Call("policy " + name)
		if err := gate.provision(ctx, app, nil); err != nil {
			return err
		}
		g.policies[name] = gate
	}
	g.alone = new(Gate)
	g.alone.Policies = []string{Alone}
	if err := g.alone.provision(ctx, app, nil); err != nil {
		return err
	}
	if !anyOrigin {
		return nil
	}
	g.bare = new(Gate)
	g.bare.Call(anyWord)
	return g.bare.provision(ctx, app, placesOf(places, anyWord))
}

// anyWord is the option that switches on the gate of all other origins, and the name of this gate.
const anyWord = "forward_auth_any"

var checkSwitch = caddyfileutil.OneOf("on", "off")

// Bare returns the gate of the origins that no forward_auth names, or nil.
func (g *Gates) Bare() *protect.Protect {
	if g.bare == nil {
		return nil
	}
	return &g.bare.Protect
}

// Alone is the name of the policy that decides alone. No stored policy has this name.
const Alone = "*"

// DecidedAlone returns the gate that applies only the policy with the name Alone, for rehearsals of a policy that need
// not be stored.
func (g *Gates) DecidedAlone() *protect.Protect { return &g.alone.Protect }

// placesOf returns the places of a block, as protect names them.
func placesOf(places caddyfileutil.Places, block string) caddyfileutil.Places {
	out := caddyfileutil.Places{"protect": places.Of(block)}
	for key, at := range places {
		if option, ok := strings.CutPrefix(key, block+": "); ok {
			out["protect: "+option] = at
		}
	}
	return out
}

var errNoOrigin = errors.New("login: name the origin of the site, such as origins https://wiki.example.com")

func (g *Gate) provision(ctx caddy.Context, app protect.App, places caddyfileutil.Places) error {
	res := caddyfileutil.NewResolverAt(nil)
	g.Origins = res.List("origins", g.Origins, caddyfileutil.CheckIssuer)
	if err := res.Err(); err != nil {
		return err
	}
	for i, text := range g.Origins {
		origin, err := caddyfileutil.ParseIssuer(text)
		if err != nil {
			return err
		}
		g.Origins[i] = origin.Scheme + "://" + origin.Host
	}
	if g.Login && len(g.Origins) == 0 {
		return errNoOrigin
	}
	if g.RequestAccess != "" {
		return errors.New("request_access: another proxy has no page of its own to ask on: leave it out")
	}
	if g.Protect.Origins, g.Sites = nil, slices.Clone(g.Origins); g.Login {
		g.Protect.Origins = slices.Clone(g.Origins)
	}
	if g.Replay != "" {
		return errors.New("replay: another proxy does not report the forms that are sent through it: leave it out")
	}
	if g.MCP != nil {
		return errors.New("mcp: the metadata of sites that another proxy serves is not served here: leave it out")
	}
	if g.UpstreamToken != "" {
		return errors.New("upstream_token: another proxy sends the request on as it came: leave it out")
	}
	g.CertificateHeader = http.CanonicalHeaderKey(res.Plain("client_certificate_header", g.CertificateHeader, checkCertificateHeader))
	if err := res.Err(); err != nil {
		return err
	}
	g.Places = places
	if err := g.ProvisionIn(ctx, app); err != nil {
		return err
	}
	g.identity, g.remove = g.Identity(), g.Guarded()
	g.narrowed = map[string]narrowed{}
	return nil
}

// find returns the gate that decides about a question. name is the name that the proxy asks for. "": none.
func (g *Gates) find(name, scheme, host string) (*Gate, error) {
	origin := plainOrigin(scheme + "://" + host)
	if name == "" {
		if gate := g.byOrigin[origin]; gate != nil {
			return gate, nil
		}
		if g.bare == nil || g.isNamed(host) {
			return nil, malformed("no forward_auth has the origin " + origin +
				": name it in origins, or let the proxy ask for a forward_auth or a policy by its name")
		}
		return g.bare, nil
	}
	if gate := g.policies[name]; gate != nil {
		return gate, nil
	}
	gate := g.Named[name]
	if gate == nil {
		return nil, malformed("there is no forward_auth and no policy of this name")
	}
	if len(gate.Origins) > 0 && g.byOrigin[origin] != gate {
		return nil, malformed("the site is not one of this forward_auth")
	}
	return gate, nil
}

// isNamed reports whether a gate has an origin with this host, with any scheme and port.
func (g *Gates) isNamed(host string) bool {
	name := hostOf(plainOrigin("http://" + host))
	for origin := range g.byOrigin {
		if hostOf(origin) == name {
			return true
		}
	}
	return false
}

func hostOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// plainOrigin writes an origin in the one form in which it is compared: in lower case, the port as a number and not the
// default one, an address of IPv6 in its short form.
func plainOrigin(text string) string {
	u, err := url.Parse(strings.ToLower(text))
	if err != nil {
		return text
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if n, err := strconv.Atoi(u.Port()); err == nil && n != map[string]int{"http": 80, "https": 443}[u.Scheme] {
		host += ":" + strconv.Itoa(n)
	}
	return u.Scheme + "://" + host
}

// Decider returns the gate of a site that another proxy serves, and its name. name is the name that the proxy asks for.
// "": the forward_auth that has the origin, or else nil.
func (g *Gates) Decider(name, scheme, host string) (called string, p *protect.Protect, err error) {
	if name == "" && g.byOrigin[plainOrigin(scheme+"://"+host)] == nil {
		return "", nil, nil
	}
	gate, err := g.find(name, scheme, host)
	if err != nil {
		return "", nil, err
	}
	if g.policies[name] == gate {
		return "policy " + name, &gate.Protect, nil
	}
	for known, one := range g.Named {
		if one == gate {
			name = known
		}
	}
	return "forward_auth " + name, &gate.Protect, nil
}

// narrow returns the gates that apply with the parameters scope, group, level and audience.
func (g *Gate) narrow(by url.Values) (narrowed, error) {
	if len(by) == 0 {
		return narrowed{gate: &g.Protect}, nil
	}
	key := by.Encode()
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.narrowed[key]; ok {
		return known, nil
	}
	level := ""
	for name, values := range by {
		switch name {
		case "scope", "group", "audience":
		case "level":
			if level = values[0]; len(values) > 1 {
				return narrowed{}, malformed("level is given twice")
			}
		default:
			return narrowed{}, malformed("unknown parameter " + strconv.Quote(name))
		}
		if slices.Contains(values, "") {
			return narrowed{}, malformed(name + " is empty")
		}
	}
	scopes, audience := strings.Fields(strings.Join(by["scope"], " ")), by["audience"]
	further, err := g.Further(scopes, by["group"], audience, level)
	if err != nil {
		return narrowed{}, &Malformed{err.Error()}
	}
	out := narrowed{g.Narrowed(scopes, audience, further), further}
	if len(g.narrowed) < maxNarrowed {
		g.narrowed[key] = out
	}
	return out, nil
}

// checkCertificateHeader accepts the name of a header in which a proxy names a certificate.
func checkCertificateHeader(name string) error {
	if !httpguts.ValidHeaderFieldName(name) || fieldname.Plain(name) != name || slices.Contains(read, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("%q cannot be the header of a certificate: choose one such as Client-Cert", name)
	}
	return nil
}
