// Package oidc signs people in at OpenID providers. It verifies a provider's addresses, keys and responses before it
// uses them, and does what go-oidc leaves to its caller: nonce, azp, acr, auth_time, iss, encryption, refresh of
// metadata, limits.
package oidc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// skew is the accepted difference between clocks.
const skew = time.Minute

// Provider signs people in at one OpenID provider. It implements idp.Redirector, PasswordAsker, Refresher, Ender,
// Handler, Checker, KeyChecker and Closer.
type Provider struct {
	cfg        Config
	env        idp.Env
	mapping    *idp.WatchedMapping
	calls      *providerhttp.Caller
	discovered cache[*metadata]
	keys       cache[keySet]
	secret     appleSecret
	encrypts   bool // the provider can encrypt for us, so it reads our keys

	mu     sync.Mutex // guards closed and adding to work
	closed bool
	work   sync.WaitGroup
	ctx    context.Context // for work in the background
	cancel context.CancelFunc
}

var (
	_ idp.Redirector    = (*Provider)(nil)
	_ idp.PasswordAsker = (*Provider)(nil)
	_ idp.Refresher     = (*Provider)(nil)
	_ idp.Ender         = (*Provider)(nil)
	_ idp.Handler       = (*Provider)(nil)
	_ idp.Checker       = (*Provider)(nil)
	_ idp.Closer        = (*Provider)(nil)
	_ idp.KeyChecker    = (*Provider)(nil)
)

// New returns a provider, or an error that lists everything wrong with the configuration. It makes no connections.
func New(cfg Config, env idp.Env) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if env.ID == "" || env.Issuer == "" || env.Now == nil || env.Random == nil || env.Log == nil || env.Client == nil || env.Checked == nil ||
		env.Once == nil || env.KeyPair == nil {
		return nil, errors.New("oidc: the environment is incomplete")
	}
	before := cfg.presetDefaults()
	encrypts := before.IDTokenEncryptionRequired || before.UserInfoEncryptionRequired || len(before.Decrypt) > 0
	cfg = cfg.withDefaults()
	cfg.Scopes, cfg.Decrypt, cfg.Audiences = slices.Clone(cfg.Scopes), slices.Clone(cfg.Decrypt), slices.Clone(cfg.Audiences)
	cfg.Levels = maps.Clone(cfg.Levels)
	p := &Provider{
		cfg: cfg, env: env, mapping: idp.Watch(cfg.Mapping), calls: providerhttp.New(env, cfg.hosts()), encrypts: encrypts,
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.discovered = cache[*metadata]{p: p, fetch: p.discover}
	p.keys = cache[keySet]{p: p, fetch: p.fetchKeys}
	return p, nil
}

// Unseen implements idp.Watcher.
func (p *Provider) Unseen() []idp.Warning { return p.mapping.Unseen() }

// Parameters implements idp.Provider: no parameters are copied.
func (p *Provider) Parameters() []string { return nil }

// Close stops work in the background. Running sign-ins continue with what is known.
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

// CheckKeys implements idp.KeyChecker.
func (p *Provider) CheckKeys(ctx context.Context) error {
	if p.cfg.Preset == Apple {
		_, err := p.appleKey(ctx)
		return err
	}
	var used []string
	if p.cfg.AuthMethod == AuthPrivateKey {
		used = append(used, p.cfg.Key)
	}
	if p.encrypts {
		used = append(used, p.cfg.Decrypt...)
	}
	for _, name := range used {
		if name == "" { // Gatehouse's own, which is made at its first use
			continue
		}
		if p.cfg.Preset == Itsme {
			if err := p.itsmeKey(ctx, name); err != nil {
				return err
			}
			continue
		}
		pair, err := p.env.KeyPair(ctx, name)
		if err != nil {
			return err
		}
		if _, signs := pair.Signer.(*mldsa.PrivateKey); signs && p.encrypts && slices.Contains(p.cfg.Decrypt, name) {
			return &idp.UnfitKey{Name: name, Problem: "is of ML-DSA, which only signs"}
		}
	}
	return nil
}

// KeyUses implements idp.KeyUser.
func (p *Provider) KeyUses() (out []idp.KeyUse) {
	if p.cfg.Preset == Apple || p.cfg.AuthMethod == AuthPrivateKey {
		out = append(out, idp.KeyUse{Name: p.cfg.Key, Use: idp.UseSign})
	}
	if p.encrypts {
		for _, name := range p.cfg.Decrypt {
			out = append(out, idp.KeyUse{Name: name, Use: idp.UseDecrypt})
		}
	}
	return out
}

// endpointURL is the address of one of our endpoints. It comes from the configuration: no request influences it.
func (p *Provider) endpointURL(op string) string {
	return p.env.Issuer + "/oidc/" + p.env.ID + "/" + op
}
