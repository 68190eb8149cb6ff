// Package forwardauth lets other proxies ask whether a request may pass: the gates of the configuration, the questions
// of each kind of proxy, and the answers that it understands. Who may pass is not decided here but by package protect.
package forwardauth

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Gates answer other proxies.
type Gates struct {
	// What may pass, by the name that a proxy asks for with the parameter policy. Default: none.
	Named map[string]*Gate `json:"gates,omitempty"`
	// The networks of the proxies that may ask. Default: Caddy's trusted_proxies.
	From []string `json:"from,omitempty"`
	// A secret of which the header Gatehouse-Secret may vouch for a proxy with any address. Default: none.
	Secret options.Sensitive `json:"secret,omitempty"`

	// CertificateHeader is the header in which a proxy names the certificate of the client. Empty: none
	CertificateHeader string `json:"-"`

	from     []netip.Prefix
	secret   secret.String
	byOrigin map[string]*Gate // scheme and host
	policies map[string]*Gate // that let a request pass by the rules of one policy
	bare     *Gate            // for a proxy that names no gate
	alone    *Gate            // see Alone
	log      *zap.Logger
}

// Gate is what protect is for a site: it decides about the requests of a site that another proxy serves.
type Gate struct {
	// The origins under which browsers see the site, such as https://wiki.example.com. The gate decides about no others.
	// Required with login. Default: any.
	Origins []string `json:"origins,omitempty"`
	protect.Protect

	identity []string // headers that carry the identity
	remove   []string // headers that only the gate may set

	mu       sync.Mutex                  // guards what follows
	narrowed map[string]*protect.Protect // by the parameters that narrow. At most maxNarrowed
}

// maxNarrowed bounds what is kept for proxies that ask for something in addition. Their configuration says what, so
// that there are few.
const maxNarrowed = 256

// Provision prepares the gates. policies are the names of the policies of the app, and places says where it is written.
func (g *Gates) Provision(ctx caddy.Context, app protect.App, policies []string, places options.Places) error {
	g.log = ctx.Logger().Named("forward_auth")
	res := options.NewResolverAt(places)
	for _, network := range res.List("forward_auth_from", g.From, checkNetwork) {
		found, _ := options.ParseNetwork(network)
		g.from = append(g.from, found)
	}
	if s, ok := res.Text("forward_auth_secret", string(g.Secret), options.CheckSecret); ok {
		g.secret = secret.New(s)
	}
	if err := res.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	g.byOrigin, g.policies = map[string]*Gate{}, map[string]*Gate{}
	for _, name := range slices.Sorted(maps.Keys(g.Named)) {
		block := "forward_auth " + name
		if err := g.Named[name].provision(ctx, app, placesOf(places, block)); err != nil {
			return places.LocateIn(fmt.Errorf("%s: %w", block, err), block)
		}
		for _, origin := range g.Named[name].Origins {
			if g.byOrigin[origin] != nil {
				return options.AtPlace(places.Of(block+": origins"), fmt.Errorf("%s: the origin %s belongs to another forward_auth: name it once", block, origin))
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
		if err := gate.provision(ctx, app, nil); err != nil {
			return err
		}
		g.policies[name] = gate
	}
	g.bare, g.alone = new(Gate), new(Gate)
	g.alone.Policies = []string{Alone}
	if err := g.alone.provision(ctx, app, nil); err != nil {
		return err
	}
	return g.bare.provision(ctx, app, nil)
}

// Alone is the name of the policy that decides alone. None that is stored has it.
const Alone = "*"

// DecidedAlone returns what asks nothing but the policy with the name Alone, for rehearsals of a policy that need not
// be stored.
func (g *Gates) DecidedAlone() *protect.Protect { return &g.alone.Protect }

// placesOf are the places of a block, as protect names them.
func placesOf(places options.Places, block string) options.Places {
	out := options.Places{"protect": places.Of(block)}
	for key, at := range places {
		if option, ok := strings.CutPrefix(key, block+": "); ok {
			out["protect: "+option] = at
		}
	}
	return out
}

var errNoOrigin = errors.New("login: name the origin of the site, such as origins https://wiki.example.com")

func (g *Gate) provision(ctx caddy.Context, app protect.App, places options.Places) error {
	res := options.NewResolverAt(nil)
	g.Origins = res.List("origins", g.Origins, options.CheckIssuer)
	if err := res.Err(); err != nil {
		return err
	}
	for i, text := range g.Origins {
		origin, err := options.ParseIssuer(text)
		if err != nil {
			return err
		}
		g.Origins[i] = origin.Scheme + "://" + origin.Host
	}
	if g.Login && len(g.Origins) == 0 {
		return errNoOrigin
	}
	if g.RequestAccess != "" {
		return errors.New("request_access: another proxy has no page of its own to ask on: leave it away")
	}
	if g.Protect.Origins, g.Sites = nil, slices.Clone(g.Origins); g.Login {
		g.Protect.Origins = slices.Clone(g.Origins)
	}
	if g.Replay != "" {
		return errors.New("replay: another proxy tells nothing of the forms that are sent through it: leave it away")
	}
	if g.MCP != nil {
		return errors.New("mcp: the metadata of sites that another proxy serves are not served here: leave it away")
	}
	if g.UpstreamToken != "" {
		return errors.New("upstream_token: another proxy sends the request on as it came: leave it away")
	}
	g.Places = places
	if err := g.ProvisionIn(ctx, app); err != nil {
		return err
	}
	g.identity, g.remove = g.Identity(), g.Guarded()
	g.narrowed = map[string]*protect.Protect{}
	return nil
}

// find returns the gate that decides about a question.
func (g *Gates) find(name, origin string) (*Gate, error) {
	switch {
	case name == "" && g.byOrigin[origin] != nil:
		return g.byOrigin[origin], nil
	case name == "":
		return g.bare, nil
	case g.policies[name] != nil:
		return g.policies[name], nil
	}
	gate := g.Named[name]
	if gate == nil {
		return nil, malformed("there is no forward_auth and no policy of this name")
	}
	if len(gate.Origins) > 0 && !slices.Contains(gate.Origins, origin) {
		return nil, malformed("the site is not one of this forward_auth")
	}
	return gate, nil
}

// Decider returns what decides about the requests of a site that another proxy serves, and what it is called. name is
// the one that the proxy asks for. "": the forward_auth that has the origin, or else nil.
func (g *Gates) Decider(name, scheme, host string) (called string, p *protect.Protect, err error) {
	origin := scheme + "://" + withoutDefaultPort(scheme, strings.ToLower(host))
	if name == "" && g.byOrigin[origin] == nil {
		return "", nil, nil
	}
	gate, err := g.find(name, origin)
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

// further returns what decides in addition, by the parameters scope, group, level and audience. nil: nothing does.
func (g *Gate) further(narrow url.Values) (*protect.Protect, error) {
	if len(narrow) == 0 {
		return nil, nil
	}
	key := narrow.Encode()
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.narrowed[key]; known != nil {
		return known, nil
	}
	level := ""
	for name, values := range narrow {
		switch name {
		case "scope", "group", "audience":
		case "level":
			if level = values[0]; len(values) > 1 {
				return nil, malformed("level is given twice")
			}
		default:
			return nil, malformed("unknown parameter " + strconv.Quote(name))
		}
		if slices.Contains(values, "") {
			return nil, malformed(name + " is empty")
		}
	}
	out, err := g.Further(strings.Fields(strings.Join(narrow["scope"], " ")), narrow["group"], narrow["audience"], level)
	if err != nil {
		return nil, &Malformed{err.Error()}
	}
	if len(g.narrowed) < maxNarrowed {
		g.narrowed[key] = out
	}
	return out, nil
}

// checkNetwork accepts the network of a proxy.
func checkNetwork(s string) error {
	_, err := options.ParseNetwork(s)
	return err
}
