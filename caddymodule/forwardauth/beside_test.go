package forwardauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
)

// provisioned prepares gates of a test.
func (i *issuer) provisioned(g *forwardauth.Gates, policies map[string]*policy.Policy) *forwardauth.Gates {
	i.t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	i.t.Cleanup(cancel)
	i.policies = policies
	var names []string
	for name, p := range policies {
		if err := p.Provision(ctx, "policy "+name, caddyfileutil.NewResolver(caddy.NewReplacer())); err != nil {
			i.t.Fatal(err)
		}
		names = append(names, name)
	}
	g.From = []string{"127.0.0.1"}
	if err := g.Provision(ctx, i, names, nil); err != nil {
		i.t.Fatal(err)
	}
	return g
}

// TestOriginsBesideAGate tells the attack of a request that names the origin of a gate in another way, or another
// origin, to a proxy that names no gate: it must not find one that asks less.
func TestOriginsBesideAGate(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for _, anyOrigin := range []string{"", "off", "on"} {
		site := &forwardauth.Gate{Origins: []string{wiki}}
		site.Groups, site.Clients = []string{"staff"}, []string{"app"}
		g := i.provisioned(&forwardauth.Gates{Named: map[string]*forwardauth.Gate{"wiki": site}, Any: anyOrigin}, nil)
		bare := http.StatusBadRequest
		if anyOrigin == "on" {
			bare = http.StatusOK
		}
		guest, staff := "Bearer "+i.bearer(ann("guests")), "Bearer "+i.bearer(ann())
		machine := "Bearer " + i.bearer(&token.Introspection{Active: true, Subject: "app", ClientID: "app"})
		for _, tt := range []struct {
			scheme, host string
			guest, staff int
		}{
			{"https", "wiki.test", 403, 200},
			{"https", "WIKI.test", 403, 200},
			{"https", "wiki.test:443", 403, 200},
			{"https", "wiki.test:0443", 403, 200},
			{"https", "wiki.test:00443", 403, 200},
			{"https", "wiki.test:80", 400, 400},
			{"https", "wiki.test:8443", 400, 400},
			{"https", "wiki.test:65536", 400, 400},
			{"https", "wiki.test:0", 400, 400},
			{"https", "wiki.test.", 400, 400},
			{"http", "wiki.test", 400, 400},
			{"http", "wiki.test:443", 400, 400},
			{"https", "other.test", bare, bare},
			{"https", "[::1]", bare, bare},
		} {
			for _, way := range transports(t, g) {
				for who, want := range map[string]int{guest: tt.guest, machine: tt.guest, staff: tt.staff} {
					_, got := way.ask("", forwardauth.Question{
						Method: "GET", Scheme: tt.scheme, Host: tt.host, Target: "/", Header: headers("Authorization", who),
						Client: netip.MustParseAddr("192.0.2.7"),
					})
					if got != want {
						t.Errorf("forward_auth_any %q, %s asks about %s://%s: status = %d, want %d", anyOrigin, way.name, tt.scheme, tt.host, got, want)
					}
				}
			}
		}
	}
}

// TestOriginsOfSeveralGates: origins that are the same are refused, however they are written.
func TestOriginsOfSeveralGates(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	g := &forwardauth.Gates{Named: map[string]*forwardauth.Gate{
		"a": {Origins: []string{"https://wiki.test"}}, "b": {Origins: []string{"https://wiki.test:443"}},
	}}
	if err := g.Provision(ctx, i, nil, nil); err == nil {
		t.Error("Provision took the same origin twice")
	}
}

// TestTokensBehindAnotherProxy: a token that was made for something else opens no site behind another proxy either.
func TestTokensBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	site := &forwardauth.Gate{Origins: []string{wiki}}
	site.Login, site.Groups = true, []string{"staff"}
	staff := func() *policy.Policy {
		return &policy.Policy{Allow: []*policy.Rule{{Need: policy.Need{Groups: []string{"staff"}}}}}
	}
	g := i.provisioned(&forwardauth.Gates{Named: map[string]*forwardauth.Gate{"wiki": site}, Any: "on"},
		map[string]*policy.Policy{"staff": staff()})
	made := func(change func(*token.Introspection)) string {
		who := ann()
		who.Scope = []string{"openid"}
		change(who)
		return "Bearer " + i.bearer(who)
	}
	stranger := made(func(who *token.Introspection) { who.Stranger = true })
	app := made(func(*token.Introspection) {})
	elsewhere := made(func(who *token.Introspection) { who.Audience = []string{"https://mcp.test/mcp"} })
	here := made(func(who *token.Introspection) { who.Audience = []string{wiki} })
	reader := made(func(who *token.Introspection) { who.Stranger, who.Scope = true, []string{"read"} })
	for _, tt := range []struct {
		gate, authorization, host string
		narrow                    map[string][]string
		want                      int
	}{
		{"wiki", stranger, "wiki.test", nil, 401},
		{"wiki", app, "wiki.test", nil, 401},
		{"wiki", elsewhere, "wiki.test", nil, 401},
		{"wiki", here, "wiki.test", nil, 200},
		{"staff", stranger, "any.test", nil, 401},
		{"staff", app, "any.test", nil, 200},
		{"staff", elsewhere, "any.test", nil, 401},
		{"staff", elsewhere, "mcp.test", nil, 401},
		{"staff", elsewhere, "any.test", map[string][]string{"audience": {"https://mcp.test/mcp"}}, 200},
		{"staff", reader, "any.test", map[string][]string{"scope": {"read"}}, 200},
		{"staff", stranger, "any.test", map[string][]string{"scope": {"openid"}}, 401},
		{"", stranger, "any.test", nil, 401},
		{"", elsewhere, "any.test", nil, 401},
		{"", app, "any.test", nil, 200},
		{"", reader, "any.test", map[string][]string{"scope": {"read"}}, 200},
	} {
		for _, way := range transports(t, g) {
			if way.name == "envoy" && tt.narrow != nil {
				continue // over HTTP it asks for nothing more
			}
			_, got := way.ask(tt.gate, forwardauth.Question{
				Method: "GET", Scheme: "https", Host: tt.host, Target: "/",
				Header: headers("Authorization", tt.authorization), Client: netip.MustParseAddr("192.0.2.7"), Narrow: tt.narrow,
			})
			if got != tt.want {
				t.Errorf("%s asks for %q about %s with %v: status = %d, want %d", way.name, tt.gate, tt.host, tt.narrow, got, tt.want)
			}
		}
	}
}

// TestUnknownAddressOpensNothing: a list of addresses that are refused says nothing about a client without one.
func TestUnknownAddressOpensNothing(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	blocked := &policy.Policy{Deny: []*policy.Rule{{Match: caddyhttp.RawMatcherSets{{"client_ip": []byte(`{"ranges":["203.0.113.0/24"]}`)}}}}}
	g := i.provisioned(&forwardauth.Gates{}, map[string]*policy.Policy{"blocked": blocked})
	authorization := "Bearer " + i.bearer(ann())
	for _, way := range transports(t, g) {
		for client, want := range map[netip.Addr]int{{}: 400, netip.MustParseAddr("203.0.113.9"): 403, netip.MustParseAddr("192.0.2.7"): 200} {
			_, got := way.ask("blocked", forwardauth.Question{
				Method: "GET", Scheme: "https", Host: "a.test", Target: "/", Header: headers("Authorization", authorization), Client: client,
			})
			if got != want {
				t.Errorf("%s asks about a client at %v: status = %d, want %d", way.name, client, got, want)
			}
		}
	}
}

// TestCertificateThatTheClientNames tells the attack of a thief of a token that is bound to a certificate. The thief
// sends the certificate, which is no secret, in the header of a proxy.
func TestCertificateThatTheClientNames(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.proofs = newProofs(t)
	i.thumbprint = func(r *http.Request) string {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			return ""
		}
		return "of the client"
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	value := ":" + base64.StdEncoding.EncodeToString(der) + ":"
	who := ann()
	who.Confirmation = token.Confirmation{X5T: "of the client"}
	authorization := "Bearer " + i.bearer(who)
	closed := &forwardauth.Gate{Origins: []string{wiki}}
	open := &forwardauth.Gate{Origins: []string{"https://mtls.test"}, CertificateHeader: "X-Certificate"}
	g := i.provisioned(&forwardauth.Gates{Named: map[string]*forwardauth.Gate{"wiki": closed, "mtls": open}, Any: "on"}, nil)
	for _, kind := range kinds {
		for _, tt := range []struct {
			gate, host, header string
			want               int
		}{
			{"wiki", "wiki.test", "Client-Cert", 401},
			{"wiki", "wiki.test", "X-Certificate", 401},
			{"", "other.test", "Client-Cert", 401},
			{"mtls", "mtls.test", "Client-Cert", 401},
			{"mtls", "mtls.test", "X-Certificate", 200},
		} {
			c := by(kind, tt.gate, forwardauth.Question{
				Method: "GET", Scheme: "https", Host: tt.host, Target: "/",
				Header: headers("Authorization", authorization, tt.header, value),
			})
			if res := c.do(g); res.StatusCode != tt.want {
				t.Errorf("%s: %s at the gate %q: status = %d, want %d", kind, tt.header, tt.gate, res.StatusCode, tt.want)
			}
		}
	}
	t.Run("attack 4252: the header through Envoy, which tells certificates by itself", func(t *testing.T) {
		for certified, want := range map[bool]int{false: http.StatusOK, true: http.StatusUnauthorized} {
			a := ask(t, g, forwardauth.Question{
				Method: "GET", Scheme: "https", Host: "mtls.test", Target: "/", Certified: certified, Gate: "mtls",
				Header: headers("Authorization", authorization, "X-Certificate", value),
			})
			if a.Status != want {
				t.Errorf("certified %v: status = %d, want %d", certified, a.Status, want)
			}
		}
	})
}

// TestProxiesThatAreBelieved: a network that holds strangers is refused.
func TestProxiesThatAreBelieved(t *testing.T) {
	t.Parallel()
	for network, good := range map[string]bool{
		"0.0.0.0/0": false, "::/0": false, "0.0.0.0/1": false, "128.0.0.0/1": false, "2000::/3": false,
		"::ffff:0.0.0.0/96": false, "64.0.0.0/2": false,
		"10.0.0.0/8": true, "192.168.1.7": true, "fd00::/8": true, "fc00::/7": true, "2001:db8::/32": true, "fe80::/10": true, "::1": true,
	} {
		if err := caddyfileutil.CheckTrusted(network); (err == nil) != good {
			t.Errorf("CheckTrusted(%q) = %v, want it good: %t", network, err, good)
		}
	}
}
