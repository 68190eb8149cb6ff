package caddymodule

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// providers makes the identity providers of an instance: those of its configuration once, those of the configuration API again whenever
// they change. It implements identity.Manager.
type providers struct {
	app    *App
	core   *core
	config *config.Service
	log    *zap.Logger
	// trusted and checked make requests to addresses that the operator has written, and to all others.
	trusted, checked *http.Client
	// fixed are the providers of the configuration file, by their ids.
	fixed map[string]idp.Provider

	mu      sync.Mutex // guards all below
	seen    *config.Units
	version uint64
	managed map[string]managed
	list    []identity.Provider
	closed  bool
}

// managed is a provider of the configuration API with what it was made of.
type managed struct {
	method []byte // JSON
	idp.Provider
}

func newProviders(a *App, c *core, units *config.Service) *providers {
	return &providers{
		app: a, core: c, config: units, log: a.log.Named("idp"), trusted: outbound.New(true), checked: outbound.New(false, a.allow...),
		fixed: map[string]idp.Provider{}, managed: map[string]managed{}, version: 1,
	}
}

// env is what a provider works with.
func (p *providers) env(id string, trusted bool) idp.Env {
	env := idp.Env{
		ID: id, Issuer: p.app.issuer.String(), Now: time.Now, Random: rand.Reader, Log: p.log.With(zap.String("provider", id)), Client: p.trusted, Checked: p.checked,
		Once: identity.Once(p.core.Store, time.Now, id), KeyPair: p.keyPair,
	}
	if !trusted {
		env.Client = p.checked
	}
	return env
}

func (p *providers) keyPair(ctx context.Context, name string) (*idp.Key, error) {
	k, err := p.config.KeyPair(ctx, name)
	if err != nil {
		return nil, err
	}
	return &idp.Key{Name: k.Name, Certificate: k.Certificate, Signer: k.Key}, nil
}

// open makes the providers of the configuration file and puts them into the list. On an error it has opened nothing.
func (p *providers) open(list []identity.Provider) (out []identity.Provider, err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for _, declared := range list {
		if remote, ok := p.app.remotes[declared.ID]; ok {
			if declared.Source, err = remote.open(p.env(declared.ID, true)); err != nil {
				return nil, fmt.Errorf("idp %s: %w", declared.ID, err)
			}
			p.fixed[declared.ID] = declared.Source
		}
		out = append(out, declared)
	}
	return out, nil
}

// Providers implements identity.Manager.
func (p *providers) Providers(ctx context.Context) ([]identity.Provider, uint64, error) {
	units, err := p.config.Current(ctx)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if units != p.seen && !p.closed {
		p.renew(units.LoginMethods.LoginMethods, units.Features.AutomatedExternalIdentityCouplingEnabled)
		p.seen = units
	}
	return p.list, p.version, nil
}

// renew makes the providers that are new or changed and closes those that are gone. What cannot be made is left out: it must not keep anybody
// from signing in another way.
func (p *providers) renew(methods []config.LoginMethod, coupleEmail bool) {
	now := map[string]managed{}
	var list []identity.Provider
	changed := false
	for _, m := range methods {
		if !m.Enabled || m.ID == config.OwnMethod || p.app.kinds[m.ID] != "" {
			continue
		}
		raw, err := methodKey(&m)
		have, ok := p.managed[m.ID]
		if err == nil && (!ok || !bytes.Equal(have.method, raw)) {
			changed = true
			have = managed{method: raw}
			have.Provider, err = p.make(&m)
		}
		if err != nil {
			p.log.Error("login method cannot be used", zap.String("provider", m.ID), zap.Error(err))
			changed = true
			continue
		}
		now[m.ID] = have
		list = append(list, identity.Provider{
			ID: m.ID, Name: m.Name, Source: have.Provider, Path: methodPath(&m), Managed: true, Synchronise: m.SynchroniseAttributes, VerifiesEmail: m.AutoEmailVerification,
			Activates: m.AutoActivationEnabled, Editable: editableOf(&m), CoupleEmail: coupleEmail,
		})
	}
	for id, old := range p.managed {
		if kept, ok := now[id]; !ok || kept.Provider != old.Provider {
			changed = true
			p.end(id, old.Provider)
		}
	}
	if changed || len(list) != len(p.list) || !slices.EqualFunc(list, p.list, sameProvider) {
		p.version++
	}
	p.managed, p.list = now, list
}

func sameProvider(a, b identity.Provider) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Source == b.Source && a.Synchronise == b.Synchronise && a.CoupleEmail == b.CoupleEmail &&
		a.VerifiesEmail == b.VerifiesEmail && a.Activates == b.Activates && slices.Equal(a.Editable, b.Editable)
}

// methodKey is what a provider is made of, secrets and all. It never leaves the memory.
func methodKey(m *config.LoginMethod) ([]byte, error) {
	plain, err := json.Marshal(m)
	if m.OIDC != nil {
		plain = append(plain, m.OIDC.ClientSecret.Reveal()...)
	}
	return plain, err
}

// end closes a provider beside whoever waits for the list: requests that use it go on with what they know.
func (p *providers) end(id string, provider idp.Provider) {
	closer, ok := provider.(idp.Closer)
	if !ok {
		return
	}
	go func() {
		if err := closer.Close(); err != nil {
			p.log.Error("provider not closed cleanly", zap.String("provider", id), zap.Error(err))
		}
	}()
}

// close ends every provider.
func (p *providers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for id, provider := range p.all() {
		if closer, ok := provider.(idp.Closer); ok {
			if err := closer.Close(); err != nil {
				p.log.Error("provider not closed cleanly", zap.String("provider", id), zap.Error(err))
			}
		}
	}
}

// all are the providers of both kinds by their ids. mu is held.
func (p *providers) all() map[string]idp.Provider {
	out := maps.Clone(p.fixed)
	for id, m := range p.managed {
		out[id] = m.Provider
	}
	return out
}

// check reaches what the providers name, each for itself.
func (p *providers) check(ctx context.Context) map[string]string {
	all := p.fixed
	if _, _, err := p.Providers(ctx); err == nil {
		p.mu.Lock()
		all = p.all()
		p.mu.Unlock()
	}
	var (
		mu      sync.Mutex // guards out
		out     = map[string]string{}
		waiting sync.WaitGroup
	)
	for id, provider := range all {
		checker, ok := provider.(idp.Checker)
		if !ok {
			continue
		}
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, maxProviderTimeout)
			defer cancel()
			answer := "ok"
			if err := checker.Check(ctx); err != nil {
				answer = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			out[id] = answer
		})
	}
	waiting.Wait()
	return out
}

// methodPath is the first part of the addresses of a login method.
func methodPath(m *config.LoginMethod) string {
	if m.Type == config.TypeSAML {
		return "saml"
	}
	return "oidc"
}

// make makes the provider of a login method. Whoever may change the configuration may name any address, so all of them are judged.
func (p *providers) make(m *config.LoginMethod) (idp.Provider, error) {
	switch {
	case m.Type == config.TypeSAML && m.SAML != nil:
		return saml.New(samlMethod(m), p.env(m.ID, false))
	case m.Type == config.TypeOIDC && m.OIDC != nil:
		return oidc.New(oidcMethod(m), p.env(m.ID, false))
	}
	return nil, errors.New("there is no provider of this type")
}

func mappingOf(m *config.LoginMethod) (out idp.Mapping) {
	for _, a := range m.AttributeMappings {
		out.Attributes = append(out.Attributes, idp.Attribute{From: a.MapFrom, To: a.MapTo})
	}
	return out
}

// editableOf are the details that persons may change although the provider says them.
func editableOf(m *config.LoginMethod) (out []string) {
	for _, a := range m.AttributeMappings {
		if a.Editable {
			out = append(out, a.MapTo)
		}
	}
	return out
}

func samlMethod(m *config.LoginMethod) saml.Config {
	cfg := saml.Config{Metadata: m.SAML.IDPMetadata, NoFiles: true, Level: m.AuthenticationLevel, Mapping: mappingOf(m)}
	var classes []string
	for _, l := range m.SAML.AuthenticationLevelMappings {
		if cfg.Levels == nil {
			cfg.Levels = map[string]int{}
		}
		cfg.Levels[l.AuthnContextClassRefName] = l.AuthenticationLevel
		classes = append(classes, l.AuthnContextClassRefName)
	}
	if m.SAML.Comparison != "" && len(classes) > 0 {
		cfg.AuthnContext = &saml.AuthnContext{Comparison: strings.ToLower(m.SAML.Comparison), Classes: classes}
	}
	return cfg
}

func oidcMethod(m *config.LoginMethod) oidc.Config {
	o := m.OIDC
	cfg := oidc.Config{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret.New(o.ClientSecret.Reveal()), Key: o.SigningKeyID, Scopes: o.Scopes, Level: m.AuthenticationLevel,
		Mapping: mappingOf(m), IDTokenEncryptionRequired: o.IDTokenEncryptionRequired, UserInfoEncryptionRequired: o.UserInfoEncryptionRequired,
		FrontChannelLogout: o.FrontChannelLogoutEnabled, MetadataExpiration: time.Duration(o.MetadataExpirationInSeconds) * time.Second,
		Claims: oidc.ClaimsParameter(o.Claims),
	}
	switch o.ClientAuthenticationMethod {
	case "CLIENT_SECRET_BASIC":
		cfg.AuthMethod = oidc.AuthBasic
	case "PRIVATE_KEY_JWT":
		cfg.AuthMethod, cfg.ClientSecret = oidc.AuthPrivateKey, secret.String{}
	}
	if o.ManualMetadataSetup {
		cfg.Metadata = oidc.Metadata{
			AuthorizationURL: o.AuthorizationURL, TokenURL: o.IDTokenURL, UserInfoURL: o.UserInfoURL, JWKSURL: o.JWKSURL, EndSessionURL: o.EndSessionURL,
		}
	} else {
		cfg.DiscoveryURL = o.DiscoveryURL
	}
	return cfg
}

// authzProviders tells authz of the providers that identity knows.
type authzProviders struct{ identity *identity.Service }

// Providers implements authz.Providers.
func (a authzProviders) Providers(ctx context.Context) ([]registry.Provider, uint64, error) {
	list, version, err := a.identity.Providers(ctx)
	if err != nil {
		return nil, 0, err
	}
	var out []registry.Provider
	for _, p := range list {
		if p.Managed {
			out = append(out, registry.Provider{ID: p.ID, Disabled: p.Disabled, Managed: true})
		}
	}
	return out, version, nil
}
