// Package oidc is the provider that speaks OpenID Connect: Gatehouse as a relying party. Addresses, keys and answers of the other side
// are believed as far as this package has verified them; what go-oidc leaves to its caller (nonce, azp, acr, auth_time, iss, encryption,
// refresh of metadata, bounds) is done here.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// skew is by how much clocks may differ.
const skew = time.Minute

// Provider signs people in at one OpenID provider. It implements idp.Redirector, Refresher, Ender, Handler, Checker and Closer.
type Provider struct {
	cfg        Config
	env        idp.Env
	client     *http.Client    // for the hosts of written
	checked    *http.Client    // for all others
	written    map[string]bool // hosts with ports that stand in the configuration
	discovered cached[*metadata]
	keys       cached[keySet]
	breaker    breaker
	slots      chan struct{} // requests that run
	encrypts   bool          // the provider may encrypt for us, and so reads our keys

	mu     sync.Mutex // guards closed and adding to work
	closed bool
	work   sync.WaitGroup
	ctx    context.Context // of what runs in the background
	cancel context.CancelFunc
}

var (
	_ idp.Redirector = (*Provider)(nil)
	_ idp.Refresher  = (*Provider)(nil)
	_ idp.Ender      = (*Provider)(nil)
	_ idp.Handler    = (*Provider)(nil)
	_ idp.Checker    = (*Provider)(nil)
	_ idp.Closer     = (*Provider)(nil)
)

// New returns a provider, or an error that says all that is wrong with the configuration. It connects to nobody.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if env.ID == "" || env.Issuer == "" || env.Now == nil || env.Random == nil || env.Log == nil || env.Client == nil || env.Checked == nil ||
		env.Once == nil || env.KeyPair == nil {
		return nil, errors.New("oidc: the environment is not whole")
	}
	encrypts := cfg.IDTokenEncryptionRequired || cfg.UserInfoEncryptionRequired || len(cfg.Decrypt) > 0
	cfg = cfg.withDefaults()
	cfg.Scopes, cfg.Decrypt, cfg.Audiences = slices.Clone(cfg.Scopes), slices.Clone(cfg.Decrypt), slices.Clone(cfg.Audiences)
	cfg.Levels = maps.Clone(cfg.Levels)
	p := &Provider{
		cfg: cfg, env: env, client: plain(env.Client), checked: plain(env.Checked), written: cfg.hosts(), slots: make(chan struct{}, requests),
		encrypts: encrypts,
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.discovered = cached[*metadata]{p: p, fetch: p.discover}
	p.keys = cached[keySet]{p: p, fetch: p.fetchKeys}
	return p, nil
}

// plain returns a client that keeps no cookies and follows nothing.
func plain(c *http.Client) *http.Client {
	own := *c
	own.Jar, own.CheckRedirect = nil, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Parameters implements idp.Provider: none is copied.
func (p *Provider) Parameters() []string { return nil }

// Close ends what runs in the background. Sign-ins that run go on with what is known.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
	return nil
}

// spawn runs f in the background, unless the provider is closed.
func (p *Provider) spawn(f func(context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Go(func() { f(p.ctx) })
	return true
}

// Check reaches what the configuration names: the metadata and the keys, and that our own key is there.
func (p *Provider) Check(ctx context.Context) error {
	m, err := p.about(ctx)
	if err != nil {
		return err
	}
	if _, err := p.keys.get(ctx, func(s keySet) bool { return s.from == m.JWKSURL }); err != nil {
		return fmt.Errorf("jwks: %w", err)
	}
	if p.cfg.AuthMethod == AuthPrivateKey {
		if _, _, err := p.signingKey(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// at is the address of an endpoint of ours. It is configuration: no request says anything about it.
func (p *Provider) at(op string) string { return p.env.Issuer + "/oidc/" + p.env.ID + "/" + op }
