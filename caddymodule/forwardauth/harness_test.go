package forwardauth_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// issuer is an authorization server and the app around it, with answers that a test decides.
type issuer struct {
	t        testing.TB
	pages    *web.Renderer
	policies map[string]*policy.Policy

	mu       sync.Mutex                      // guards what follows
	known    map[string]*token.Introspection // by token, or by origin and session
	codes    map[string]authz.SiteLogin      // by origin, code and binding
	used     map[string]int                  // uses of a token
	returns  []string                        // where the browsers want to come back to
	doubt    error                           // of every look-up
	starting error                           // nothing runs

	limits     *limit.Counters
	proofs     *dpop.Proofs // nil: none are checked
	thumbprint func(*http.Request) string
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	pages, err := web.New(web.Config{Issuer: "https://issuer.test", Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{
		t: t, pages: pages, limits: limit.NewCounters(nil, nil, zap.NewNop()),
		known: map[string]*token.Introspection{}, codes: map[string]authz.SiteLogin{}, used: map[string]int{},
	}
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) find(key string) (*token.Introspection, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.doubt != nil {
		return nil, i.doubt
	}
	if who := i.known[key]; who != nil {
		found := *who
		return &found, nil
	}
	return &token.Introspection{}, nil
}

// bearer makes a token.
func (i *issuer) bearer(who *token.Introspection) string { return i.make(secret.AccessToken, "", who) }

// session makes a cookie line of a site.
func (i *issuer) session(origin string, who *token.Introspection) string {
	return cookie.For(origin).Name("site") + "=" + i.make(secret.SiteSession, origin, who)
}

func (i *issuer) make(kind secret.Kind, origin string, who *token.Introspection) string {
	i.t.Helper()
	made, err := secret.NewToken(rand.Reader, kind)
	if err != nil {
		i.t.Fatal(err)
	}
	i.set(func() { i.known[origin+made] = who })
	return made
}

func (i *issuer) Introspect(_ context.Context, raw string) (*token.Introspection, error) {
	return i.find(raw)
}

func (i *issuer) Recheck(_ context.Context, raw string) (*token.Introspection, error) {
	return i.find(raw)
}

func (i *issuer) UseAt(ctx context.Context, text, _ string, _ audit.Origin) (*token.Introspection, error) {
	return i.Use(ctx, text)
}

func (i *issuer) AcceptAppPasswords(string, ...apppassword.Site) {}

func (i *issuer) SignWith(string) {}

func (*issuer) TokenIssuer() string { return "https://auth.test" }

func (i *issuer) AcceptTokens(...client.Acceptance) {}

func (i *issuer) LimitsAt(site string) ratelimits.Scope { return ratelimits.Scope{Site: site} }

func (i *issuer) AddMCP(mcp.Site) {}

func (i *issuer) MCP() *mcp.Sites { return nil }

func (i *issuer) Use(_ context.Context, raw string) (*token.Introspection, error) {
	i.set(func() { i.used[raw]++ })
	return i.find(raw)
}

func (i *issuer) SiteSession(_ context.Context, origin, raw, _ string) (*token.Introspection, error) {
	return i.find(origin + raw)
}

func (i *issuer) SiteDevices(_ string, offered bool, _ func(dbsc.Outcome)) *dbsc.Exchange {
	return &dbsc.Exchange{Offered: offered}
}

func (i *issuer) BeginSite(_ context.Context, d authz.SiteDemand, binding string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.doubt != nil {
		return "", i.doubt
	}
	i.returns = append(i.returns, d.Return)
	i.codes[d.Origin+" code "+binding] = authz.SiteLogin{Return: d.Return}
	return "https://issuer.test/oauth/site?flow=1", nil
}

func (i *issuer) FinishSite(_ context.Context, origin, code, binding string, _ audit.Origin) (authz.SiteLogin, error) {
	i.mu.Lock()
	got, ok := i.codes[origin+" "+code+" "+binding]
	delete(i.codes, origin+" "+code+" "+binding)
	i.mu.Unlock()
	if !ok {
		return authz.SiteLogin{}, &oauth.Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "the code is invalid"}
	}
	_, got.Token, _ = strings.Cut(i.session(origin, ann()), "=")
	return got, nil
}

func (i *issuer) EndSite(context.Context, string, string) (string, error) {
	return "https://issuer.test/sign-out", nil
}

func (*issuer) LogoutURL(string) string { return "https://issuer.test/sign-out" }

func (i *issuer) Entrance(context.Context) (protect.Entrance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return protect.Entrance{
		Authority: i, Pages: i.pages, Proofs: i.proofs, Thumbprint: i.thumbprint, Limits: i.limits, Leave: func() {},
		HasRules: func(string) bool { return true },
	}, i.starting
}

func (*issuer) Origin(r *http.Request) audit.Origin {
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return audit.Origin{ClientIP: ip}
}

func (*issuer) RequestReaders() []idp.RequestReader             { return nil }
func (*issuer) ScopeLevel(string) (level, assurance int)        { return 0, 0 }
func (*issuer) Known() policy.Names                             { return policy.Names{} }
func (*issuer) Guard(string, []string)                          {}
func (*issuer) Found(diagnostic.Finding)                        {}
func (*issuer) Probe(func(context.Context) *diagnostic.Finding) {}
func (*issuer) RegisterRules(string)                            {}

func (*issuer) RegisterSite(...string) {}

func (*issuer) NeedGroup(string, string) {}

func (i *issuer) LongestSignIn() time.Duration { return 30 * 24 * time.Hour }

func (i *issuer) UsePolicy(name, _, _ string) *policy.Policy { return i.policies[name] }

// ann is a person in the groups staff and writers.
func ann(groups ...string) *token.Introspection {
	if groups == nil {
		groups = []string{"staff", "writers"}
	}
	return &token.Introspection{
		Active: true, Subject: "ann-1", ClientID: "app", Scope: []string{"read"}, Level: 2, AuthTime: time.Now(),
		Person: &authn.Subject{ID: "ann-1", Active: true, Username: "ann", Groups: groups},
	}
}

const wiki = "https://wiki.test"

// gates are those of the tests: wiki with sign-in, and api for bearer tokens.
func (i *issuer) gates() *forwardauth.Gates {
	i.t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	i.t.Cleanup(cancel)
	site := &forwardauth.Gate{Origins: []string{wiki}}
	site.Login, site.Groups, site.Public, site.Clients = true, []string{"staff"}, []string{"/open"}, []string{"app"}
	api := new(forwardauth.Gate)
	api.Scopes, api.StripToken = []string{"read"}, true
	limited := new(forwardauth.Gate)
	limited.RateLimits.Limits = []*ratelimits.Limit{{Rate: "2/h", Per: "client"}}
	office := &policy.Policy{
		Deny:  []*policy.Rule{{Name: "abroad", Match: caddyhttp.RawMatcherSets{{"not": []byte(`[{"client_ip":{"ranges":["192.0.2.0/24"]}}]`)}}}},
		Allow: []*policy.Rule{{Name: "readers", Match: caddyhttp.RawMatcherSets{{"method": []byte(`["GET"]`)}}}},
	}
	if err := office.Provision(ctx, "policy office", caddyfileutil.NewResolver(caddy.NewReplacer())); err != nil {
		i.t.Fatal(err)
	}
	i.policies = map[string]*policy.Policy{"office": office}
	g := &forwardauth.Gates{
		Named: map[string]*forwardauth.Gate{"wiki": site, "api": api, "limited": limited},
		From:  []string{"127.0.0.1"}, Secret: "a-secret-of-the-gateway-that-is-long",
	}
	if err := g.Provision(ctx, i, []string{"office"}, nil); err != nil {
		i.t.Fatal(err)
	}
	return g
}
