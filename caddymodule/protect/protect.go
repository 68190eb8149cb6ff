// Package protect is the handler in front of upstreams. It accepts a bearer token or browser session that the
// authorization server of the same configuration has issued, applies the rules of the site, and passes the identity on
// to the upstream.
package protect

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/fieldname"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
)

func init() {
	caddy.RegisterModule(new(Protect))
}

// Protect guards upstreams: it lets a request pass only with a bearer token (RFC 6750) of the authorization server of
// this configuration (or, with introspect, of another one) or, with login, a browser session. Every request is looked
// up again, so a revocation takes effect immediately. A lookup that fails refuses the request.
//
// Identity headers that the client sent are deleted, in every spelling, before the handler sets its own. It sets
// {http.auth.user.id} (the subject) and {http.auth.user.<claim>}.
type Protect struct {
	// Scopes that a bearer token must have, all of them. A browser session at this site has them, once it has the level
	// that they need. Default: none.
	Scopes []string `json:"scopes,omitempty"`
	// Groups; the person must be in at least one of them. Default: any person, and clients with a token of their own.
	Groups []string `json:"groups,omitempty"`
	// The partitions whose persons may pass, or * for all of them. Clients with a token of their own are in none. Default:
	// default, which is everyone while there are no partitions.
	Partitions []string `json:"partitions,omitempty"`
	// The minimum authentication level, 1 to 4. Clients get the challenge of RFC 9470, browsers the sign-in page. Default:
	// any.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// The resources that a bearer token must be meant for, at least one of them (RFC 8707). Default: a token without an
	// audience, or one that is meant for the origin of the site.
	Audience []string `json:"audience,omitempty"`
	// The clients whose bearer tokens are accepted. Default: any without login; with login those that audience or scopes
	// name.
	Clients []string `json:"clients,omitempty"`
	// With login, any accepts bearer tokens that nothing here names. Default: only those that audience, scopes or clients
	// name, or that are meant for the origin of the site.
	Tokens string `json:"tokens,omitempty"`
	// Whether browsers without a session are sent to sign in and come back. Default: false, bearer tokens only.
	Login bool `json:"login,omitempty"`
	// The origins under which browsers see this site, such as https://wiki.example.com. Required with login in JSON.
	// Default: those of the site's addresses in the Caddyfile.
	Origins []string `json:"origins,omitempty"`
	// The headers that carry the identity to the upstream. Default: Remote-User username, Remote-Name name,
	// Remote-Email email, Remote-Groups groups. These four are deleted from requests in any case.
	Headers []IdentityHeader `json:"headers,omitempty"`
	// The header that carries the signed assertion to the upstream: that the request passed, who made it, and for which
	// site. It needs origins or sites. Default: none is sent. Remote-Assertion is deleted from requests in any case.
	Assertion string `json:"assertion,omitempty"`
	// Its signature: ES256, ML-DSA-44, ML-DSA-65 or ML-DSA-87. Default: ES256.
	AssertionAlg string `json:"assertion_alg,omitempty"`
	// Makes it a transaction token, whose header is Txn-Token by default. Default: it is not one.
	Transaction *TransactionToken `json:"transaction_token,omitempty"`
	// Public paths: /healthz, or /assets/* for everything below. If there are any, a request whose path is not canonical
	// is refused. Default: none.
	Public []string `json:"public,omitempty"`
	// The requests that need a credential. All others go on without one, and without the identity headers and cookies
	// that only Gatehouse may set. If the path decides, a request whose path is not canonical is refused. Default: every
	// request.
	Match caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// Requirements for every caller, in addition to scopes, groups and level. Default: none.
	Need policy.Need `json:"need,omitzero"`
	// The policies of the app whose rules apply here, in their order, before the rules of the site itself. Default: none.
	Policies []string `json:"policies,omitempty"`
	// The rules of the site itself. Default: none.
	Rules policy.Policy `json:"rules,omitzero"`
	// Rules that are tried on every request that needs a credential, counted, and not enforced. Default: none.
	Shadow *Shadow `json:"shadow,omitempty"`
	// How often callers can make requests. Default: as often as they want.
	RateLimits ratelimits.Options `json:"rate_limits,omitzero"`
	// Whether the calls that pass with a credential are recorded: events, each as an event, or log, in the log of calls.
	// Default: none, except by rules that say so.
	Audit policy.Audit `json:"audit,omitempty"`
	// Whether CORS preflights go on without a credential, for APIs that scripts of other origins call. Default: false.
	Preflight bool `json:"preflight,omitempty"`
	// Whether a form that meets an ended session is kept for ten minutes, so it can be sent after the sign-in: on or
	// off. Default: off.
	Replay string `json:"replay,omitempty"`
	// Whether people that groups, needs and rules refuse can ask for access, which an operator grants: on or off.
	// Default: off.
	RequestAccess string `json:"request_access,omitempty"`
	// Whether new sessions are not bound to the device of the browser: off. Default: as identity says.
	DeviceBound string `json:"device_bound,omitempty"`
	// Whether a bearer token is kept from the upstream. Default: false.
	StripToken bool `json:"strip_token,omitempty"`
	// The audience of the token that the upstream gets in place of the client's (RFC 8693). Default: the client's own
	// token, unless strip_token is set.
	UpstreamToken string `json:"upstream_token,omitempty"`
	// What is accepted besides tokens and sessions: app_passwords, which people make on their account pages for programs,
	// as a bearer token or as the password of Basic. Default: nothing.
	Accept []string `json:"accept,omitempty"`
	// The oldest sign-in that this site accepts from a browser. Default: any, while the issuer's session lasts.
	Session caddyfileutil.Duration `json:"session,omitempty"`
	// Another authorization server, whose bearer tokens are accepted instead of those of this issuer. Default: none.
	Introspect *introspect.Options `json:"introspect,omitempty"`
	// What makes the site a resource server of the Model Context Protocol. Tokens must be meant for it then, and are kept
	// from the upstream. Default: nothing.
	MCP *mcp.Options `json:"mcp,omitempty"`
	// The addresses of the site, to which `caddy gatehouse check` sends requests. Default: the origins.
	Sites []string `json:"sites,omitempty"`
	// The places of the directive and its options in the Caddyfile, as file:line, for messages. Default: unknown.
	Places caddyfileutil.Places `json:"places,omitempty"`

	log     *zap.Logger
	enter   func(context.Context) (Entrance, error)
	origin  func(*http.Request) audit.Origin
	now     func() time.Time
	random  io.Reader
	recheck time.Duration // maximum duration of an open request that cannot be judged again
	after   func(time.Duration, func()) (stop func() bool)
	opened  *recheck.List[credential, openBasis] // WebSockets and streams that are open

	scopeLevel func(string) (level, assurance int)
	asSession  bool // rules judge a token like a session: see Caller

	level    int
	reach    int // minimum level of a browser: that of the scopes too, as if the site had asked for a token with them
	assured  int // minimum identity assurance level of a browser: that of the scopes
	session  time.Duration
	replay   bool
	asks     bool               // for access
	issuer   string             // of the tokens of this configuration
	sites    map[string][]*site // by Host header
	headers  []IdentityHeader
	guarded  *fieldname.Set
	matchers caddyhttp.MatcherSets
	open     bool                // the matcher leaves paths open
	parts    policy.Parts        // of a request that the matcher asks for
	accepts  bool                // app passwords
	fixed    *ruling             // the rules of the Caddyfile alone
	takes    client.Acceptance   // the bearer tokens
	binder   *binder             // nil: all policies that the site names are in the Caddyfile
	idps     []idp.RequestReader // their headers must not go upstream from other peers either
	realm    string              // start of every challenge
	remote   *introspect.Server  // nil: tokens are those of the local authority
	further  *Protect            // what a narrowed gate asks besides. nil: nothing
	limits   *ratelimits.Set     // nil: there are none
	metadata *mcp.Sites          // of the sites of the configuration. nil: none are served

	fingerprint string // of everything that decides about requests here

	name   string // of the site in metrics and traces: a host of the configuration. Empty: it is not known
	passes *atomic.Pointer[passCounter]
}

// IdentityHeader is one header and the claim that it carries.
type IdentityHeader struct {
	// The header field. Required.
	Name string `json:"name"`
	// The claim: sub, username, name, email, groups, client_id, scope, acr, or one of the person's profile. Required.
	Claim string `json:"claim"`
}

// App is the part of the app of the same configuration that protect needs.
type App interface {
	// Entrance waits for the running instance and holds it; call Leave when done.
	Entrance(ctx context.Context) (Entrance, error)
	// TokenIssuer returns the issuer of the access tokens.
	TokenIssuer() string
	// Origin returns the origin of a request.
	Origin(r *http.Request) audit.Origin
	// RequestReaders returns the identity providers that read requests, for handlers that the app does not know.
	RequestReaders() []idp.RequestReader
	// ScopeLevel returns the authentication level and the identity assurance level that a scope needs. 0: any.
	ScopeLevel(scope string) (level, assurance int)
	// UsePolicy returns a policy of the Caddyfile, or nil, and notes that a site names it. Sites do so while they are
	// provisioned. site is empty if the use is not to be reported.
	UsePolicy(name, site, place string) *policy.Policy
	// LongestSignIn returns the maximum duration of a sign-in.
	LongestSignIn() time.Duration
	// Known returns the names in the configuration.
	Known() policy.Names
	// NeedGroup notes that a site asks for a group of people here. Sites do so while they are provisioned.
	NeedGroup(group, place string)
	// Guard names the addresses of a site whose root needs credentials, and the place of the protect that says so.
	Guard(place string, sites []string)
	// Found adds a finding about the configuration.
	Found(f diagnostic.Finding)
	// Probe adds a check of another server to those of `caddy gatehouse check`. ask returns nil if nothing is wrong.
	Probe(ask func(context.Context) *diagnostic.Finding)
	// RegisterRules registers everything that decides about requests at a site, so requests that are still open after a
	// reload can be ended if it has changed. Sites do so while they are provisioned.
	RegisterRules(text string)
	// RegisterSite names the origins of a site that declares login. Sites do so while they are provisioned.
	RegisterSite(origins ...string)
	// AddMCP makes the resources of a site known. Sites do so while they are provisioned.
	AddMCP(site mcp.Site)
	// MCP returns the resources of all sites.
	MCP() *mcp.Sites
	// AcceptAppPasswords names the sites that accept app passwords. Sites do so while they are provisioned.
	AcceptAppPasswords(place string, sites ...apppassword.Site)
	// LimitsAt returns the scope of the limits of a site, and its plans. Sites ask while they are provisioned.
	LimitsAt(site string) ratelimits.Scope
	// SignWith names an algorithm that assertions of a site are signed with. Sites do so while they are provisioned.
	SignWith(algorithm string)
	// AcceptTokens says which access tokens open a site. Sites do so while they are provisioned.
	AcceptTokens(sites ...client.Acceptance)
}

// authority looks tokens and sessions up. *authz.Server is one.
type authority interface {
	Introspect(ctx context.Context, token string) (*token.Introspection, error)
	Recheck(ctx context.Context, token string) (*token.Introspection, error)
	Use(ctx context.Context, token string) (*token.Introspection, error)
	UseAt(ctx context.Context, token, site string, from audit.Origin) (*token.Introspection, error)
	SiteSession(ctx context.Context, origin, token, second string) (*token.Introspection, error)
	SiteDevices(origin string, offered bool, noted func(dbsc.Outcome)) *dbsc.Exchange
	BeginSite(ctx context.Context, d authz.SiteDemand, binding string) (url string, err error)
	FinishSite(ctx context.Context, origin, code, binding string, from audit.Origin) (authz.SiteLogin, error)
	EndSite(ctx context.Context, origin, token string) (logoutURL string, err error)
	LogoutURL(origin string) string
}

// CaddyModule returns the Caddy module information.
func (*Protect) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.protect", New: func() caddy.Module { return new(Protect) }}
}

// Provision resolves the options and registers the site with the app, which sends browsers back to registered sites
// only.
func (p *Protect) Provision(ctx caddy.Context) error {
	p.log = ctx.Logger()
	a, err := caddyfileutil.App[App](ctx, "protect")
	if err != nil {
		return caddyfileutil.AtPlace(p.Place(), err)
	}
	if err := p.ProvisionIn(ctx, a); err != nil {
		return err
	}
	if p.metadata = a.MCP(); p.MCP != nil {
		a.AddMCP(p.resourceServer())
	}
	if len(p.matchers) == 0 && !p.fixed.public.Match("/") {
		a.Guard(p.Place(), slices.Concat(p.Sites, p.Origins))
	}
	return nil
}

// ProvisionIn is Provision for a gate of the app itself.
func (p *Protect) ProvisionIn(ctx caddy.Context, a App) error {
	p.log = ctx.Logger()
	p.enter, p.origin, p.idps, p.scopeLevel, p.issuer = a.Entrance, a.Origin, a.RequestReaders(), a.ScopeLevel, a.TokenIssuer()
	res := caddyfileutil.NewResolverAt(p.Places)
	if err := p.setUp(res); err != nil {
		return err
	}
	for _, f := range res.Faults() {
		a.Found(diagnostic.Finding{
			Severity: diagnostic.Warning, Place: p.Places.Of("protect: " + f.Option), Reason: "protect: " + f.Reason,
			Fix: f.Fix, About: p.label(),
		})
	}
	if longest := a.LongestSignIn(); p.session > longest {
		a.Found(diagnostic.Finding{
			Severity: diagnostic.Warning, Place: p.Places.Of("protect: session"), About: p.label(),
			Reason: fmt.Sprintf("protect: session: no sign-in becomes %s old, since each ends after %s at the latest", p.session, longest),
			Fix:    "make it shorter, or `session` in `identity` longer",
		})
	}
	matchers, err := json.Marshal(p.Match) // loading empties it
	if err != nil {
		return fmt.Errorf("protect: match: %w", err)
	}
	if err := p.loadMatchers(ctx); err != nil {
		return err
	}
	if err := p.loadLimits(ctx, a.LimitsAt, string(matchers)); err != nil {
		return err
	}
	if err := p.loadRules(ctx, a.UsePolicy); err != nil {
		return err
	}
	known := a.Known()
	demands := p.scopeDemands(known.Scopes)
	if p.remote != nil { // the other server has its own
		known = policy.Names{}
	} else {
		p.needGroups(a.NeedGroup)
	}
	for _, f := range slices.Concat(p.findings(known), p.fixed.rules.Findings("protect", known)) {
		a.Found(f)
	}
	p.raiseReach()
	p.fingerprint = p.rulesText(p.fixed.rules, matchers) + demands
	a.RegisterRules(p.fingerprint)
	if p.Login {
		a.RegisterSite(p.Origins...)
	}
	a.SignWith(p.AssertionAlg)
	a.AcceptAppPasswords(p.Places.Of("protect: accept"), p.appPasswordSites()...)
	if p.remote == nil {
		a.AcceptTokens(p.acceptances()...)
	}
	return p.provisionRemote(ctx, a)
}

// raiseReach adds the levels that the scopes of the site need.
func (p *Protect) raiseReach() {
	for _, scope := range p.Scopes {
		level, assurance := p.scopeLevel(scope)
		p.reach, p.assured = max(p.reach, level), max(p.assured, assurance)
	}
}

// scopeDemands returns the levels of the scopes that rules can ask of browsers, for comparison with another
// configuration. Policies that are not in the Caddyfile can ask for every known scope.
func (p *Protect) scopeDemands(known []string) string {
	scopes := p.everyScope()
	if p.binder != nil {
		scopes = known
	}
	out := ""
	for _, scope := range scopes {
		if level, assurance := p.scopeLevel(scope); level+assurance > 0 {
			out += fmt.Sprintf(" %s:%d:%d", scope, level, assurance)
		}
	}
	return out
}

// setUp turns the options into what ServeHTTP works with.
func (p *Protect) setUp(res *caddyfileutil.Resolver) error {
	p.Scopes = res.List("scopes", p.Scopes, caddyfileutil.CheckScope)
	p.Groups = res.List("groups", p.Groups, nil)
	p.Partitions = res.List("partition", p.Partitions, checkPartition)
	p.Audience = res.List("audience", p.Audience, caddyfileutil.CheckURI)
	p.Clients = res.List("clients", p.Clients, nil)
	p.Tokens = res.Plain("tokens", p.Tokens, checkTokens)
	p.Accept = res.List("accept", p.Accept, checkAccept)
	p.accepts = len(p.Accept) > 0
	p.Public = res.List("public", p.Public, sitepath.CheckPublic)
	p.level = res.Count("level", p.Level, caddyfileutil.CheckLevel)
	p.reach = p.level
	p.session = res.Duration("session", p.Session)
	p.Audit = policy.Audit(res.Plain("audit", string(p.Audit), policy.CheckAudit))
	p.replay = res.Plain("replay", p.Replay, checkOnOff) == "on"
	p.asks = res.Plain("request_access", p.RequestAccess, checkOnOff) == "on"
	p.DeviceBound = res.Plain("device_bound", p.DeviceBound, checkOff)
	p.Origins = res.List("login", p.Origins, caddyfileutil.CheckIssuer)
	p.headers = nil
	for _, h := range p.Headers {
		name := res.Plain("headers", h.Name, checkIdentityHeader)
		claim := res.Plain("headers", h.Claim, checkClaim)
		p.headers = append(p.headers, IdentityHeader{Name: http.CanonicalHeaderKey(name), Claim: claim})
	}
	if p.Transaction != nil {
		p.Transaction.resolve(res)
		p.Assertion = cmp.Or(p.Assertion, transaction.Header)
	}
	if p.Assertion != "" {
		p.Assertion = http.CanonicalHeaderKey(res.Plain("assertion", p.Assertion, checkIdentityHeader))
	}
	p.AssertionAlg = res.Plain("assertion", p.AssertionAlg, checkAssertionAlg)
	if p.UpstreamToken = res.Plain("upstream_token", p.UpstreamToken, checkTarget); p.UpstreamToken != "" {
		p.StripToken = true
	}
	if p.Introspect != nil {
		p.Introspect.SetUp(res)
	}
	if p.MCP != nil {
		p.MCP.SetUp(res, p.Sites, p.Match)
		p.Audience, p.StripToken, p.Preflight = append(p.Audience, p.MCP.Resources()...), true, true
	}
	if err := p.consistent(); err != nil {
		res.Fail("%v", err)
	}
	if err := res.Err(); err != nil {
		return p.Places.LocateIn(fmt.Errorf("protect: %w", err), "protect")
	}
	if len(p.headers) == 0 {
		p.headers = defaultHeaders
	}
	if known := slices.Concat(p.Origins, p.Sites); len(known) > 0 {
		_, p.name, _ = strings.Cut(known[0], "://")
	}
	p.guarded = guardedNames(p.headers, p.Assertion)
	p.takes = client.Acceptance{
		Origins: slices.Concat(p.Origins, p.Sites), Audience: p.Audience, Scopes: p.Scopes, Clients: p.Clients, Login: p.Login,
		Any: p.Tokens == anyTokens || p.Introspect != nil,
	}
	p.fixed, p.passes = &ruling{rules: new(policy.Policy), public: p.Public}, new(atomic.Pointer[passCounter])
	p.realm = `Bearer realm="gatehouse"`
	if p.log == nil {
		p.log = zap.NewNop()
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.random == nil {
		p.random = rand.Reader
	}
	if p.recheck == 0 {
		p.recheck = recheckEvery
	}
	if err := p.openRemote(); err != nil {
		return err
	}
	if p.after == nil {
		p.after = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	p.opened = p.openRequests()
	return p.setSites()
}

// consistent checks rules between several options, for the Caddyfile and for JSON.
func (p *Protect) consistent() error {
	switch {
	case p.Login && len(p.Origins) == 0:
		return errors.New("login: name the site's origin, such as login https://wiki.example.com")
	case !p.Login && len(p.Origins) > 0:
		return errors.New("origins are for sites with login")
	case len(p.Accept) > 0 && p.Introspect != nil:
		return errors.New("accept: app passwords are those of this issuer: they exclude introspect")
	case len(p.Accept) > 0 && len(p.Origins)+len(p.Sites) == 0:
		return errors.New("accept: app passwords are for sites that people can name: give the site an address with a host")
	case p.Login && p.MCP != nil:
		return errors.New("mcp and login exclude each other: MCP clients send tokens, and browsers sign in. Put them on two sites, or on two paths with a matcher each")
	case p.MCP != nil && slices.Contains(p.Scopes, client.ScopeOffline):
		return errors.New("mcp: offline_access is for clients to ask for, and no site needs it: leave it out")
	case p.MCP != nil && p.Introspect != nil && p.Introspect.Issuer == "":
		return errors.New("mcp: clients must learn which server issues the tokens: name it with `issuer` in introspect")
	case !p.Login && p.Session != "":
		return errors.New("session is for sites with login")
	case !p.Login && p.Replay != "":
		return errors.New("replay is for sites with login")
	case !p.Login && p.Tokens != "":
		return errors.New("tokens is for sites with login: others accept the tokens that scopes, audience and clients describe")
	case !p.Login && p.DeviceBound != "":
		return errors.New("device_bound is for sites with login: a session is what is bound")
	case !p.Login && p.RequestAccess != "":
		return errors.New("request_access is for sites with login")
	}
	for i, h := range p.headers {
		if slices.ContainsFunc(p.headers[:i], func(o IdentityHeader) bool { return fieldname.Same(o.Name, h.Name) }) {
			return fmt.Errorf("headers: %s is set twice", h.Name)
		}
	}
	if err := p.consistentRemote(); err != nil {
		return err
	}
	if err := p.assertable(); err != nil {
		return err
	}
	return p.exchangeable()
}

var (
	_ caddy.Provisioner           = (*Protect)(nil)
	_ caddyhttp.MiddlewareHandler = (*Protect)(nil)
	_ authority                   = (*authz.Server)(nil)
)
