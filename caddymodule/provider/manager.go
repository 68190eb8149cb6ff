package provider

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/kerberos"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	idpremote "github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxTest bounds a test of one provider: three requests that take their time.
const maxTest = 3 * maxProviderTimeout

// Manager makes the identity providers of an instance: those of the configuration file once, those of the configuration
// API again whenever they change. It implements federation.Manager.
type Manager struct {
	deps Deps
	// trusted makes requests to addresses that the operator has written, checked makes all others.
	trusted, checked *http.Client
	// dial and checkedDial do the same for connections other than HTTP.
	dial, checkedDial *net.Dialer
	// fixed are the providers of the configuration file, by their ids.
	fixed map[string]idp.Provider

	mu      sync.Mutex // guards all below
	seen    *settings.Units
	version uint64
	managed map[string]managedProvider
	failed  map[string]error // why login methods are left out
	list    []federation.Provider
	closed  bool
}

// Deps are the dependencies of a Manager.
type Deps struct {
	Issuer string
	File   *Set
	Allow  []netip.Prefix // networks besides public ones that addresses of the configuration API can be in
	Store  storage.Store
	Config *settings.Service
	Log    *zap.Logger
}

// managedProvider is a provider of the configuration API with the data that it was made from.
type managedProvider struct {
	method []byte        // JSON
	doubts []idp.Warning // options that are allowed but probably not intended
	idp.Provider
}

// NewManager returns a manager that has no providers yet.
func NewManager(d Deps) *Manager {
	return &Manager{
		deps: d, trusted: outbound.New(true), checked: outbound.New(false, d.Allow...), dial: outbound.NewDialer(true),
		checkedDial: outbound.NewDialer(false, d.Allow...),
		fixed:       map[string]idp.Provider{}, managed: map[string]managedProvider{}, version: 1,
	}
}

// env returns the environment of a provider.
func (p *Manager) env(id string, trusted bool) idp.Env {
	env := idp.Env{
		ID: id, Issuer: p.deps.Issuer, Now: time.Now, Random: rand.Reader, Log: p.deps.Log.With(zap.String("provider", id)),
		Client: p.trusted, Checked: p.checked,
		Once: federation.Once(p.deps.Store, time.Now, id), KeyPair: p.KeyPair, Certificate: p.certificate, Dial: p.dial.DialContext,
	}
	if !trusted {
		env.Client, env.Dial = p.checked, p.checkedDial.DialContext
	}
	return env
}

// Clients returns the HTTP clients for addresses that the operator has written, and for all others.
func (p *Manager) Clients() (trusted, checked *http.Client) { return p.trusted, p.checked }

// KeyPair returns a key pair of the configuration by its name; "" is Gatehouse's own for SAML. It has a private key.
func (p *Manager) KeyPair(ctx context.Context, name string) (*idp.Key, error) {
	k, err := p.deps.Config.KeyPairs().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if k.Key == nil {
		return nil, &idp.UnfitKey{Name: name, Problem: "has no private key"}
	}
	out := &idp.Key{Name: k.Name, Certificate: k.Certificate, Signer: k.Key}
	for _, other := range k.Others {
		out.Others = append(out.Others, &idp.Key{Name: k.Name, Certificate: other.Certificate, Signer: other.Key})
	}
	return out, nil
}

// certificate returns the certificate of a key pair of the configuration by its name.
func (p *Manager) certificate(ctx context.Context, name string) (*x509.Certificate, error) {
	k, err := p.deps.Config.KeyPairs().Get(ctx, name)
	if err == nil && k.Certificate == nil {
		err = &idp.UnfitKey{Name: name, Problem: "has no certificate"}
	}
	if err != nil {
		return nil, err
	}
	return k.Certificate, nil
}

// keytab returns the keytab that a login method names, or nil.
func (p *Manager) keytab(ctx context.Context, m *settings.LoginMethod) ([]byte, error) {
	name := loginmethod.KeytabID(m)
	if name == "" {
		return nil, nil
	}
	k, err := p.deps.Config.KeyPairs().Get(ctx, name)
	if err == nil && k.Type != keystore.Keytab {
		err = &idp.UnfitKey{Name: name, Problem: "is not of the type KEYTAB"}
	}
	if err != nil {
		return nil, fmt.Errorf("keytab: %w", err)
	}
	return []byte(k.Keytab.Reveal()), nil
}

// Open makes the providers of the configuration file and puts them into the list. After an error too, the caller closes
// the manager.
func (p *Manager) Open(ctx context.Context, list []federation.Provider) (out []federation.Provider, err error) {
	for _, declared := range list {
		if remote, ok := p.deps.File.remotes[declared.ID]; ok {
			declared.Source = p.open(declared.ID, remote)
			p.fixed[declared.ID] = declared.Source
			p.checkKeys(ctx, declared.ID, declared.Source)
		}
		out = append(out, declared)
	}
	// Those of the configuration API are made now too, so the log says at a reload what is wrong with them.
	units, err := p.deps.Config.Current(ctx)
	if err == nil {
		_, _, err = p.Providers(ctx, units)
	}
	return out, err
}

// open makes a provider of the configuration file. In place of one that cannot be made, it returns one that refuses
// everyone, so the other providers work.
func (p *Manager) open(id string, remote remoteIDP) idp.Provider {
	err := remote.common().unusable
	if err == nil {
		var source idp.Provider
		if source, err = remote.open(p.env(id, true)); err == nil {
			return source
		}
	}
	p.deps.Log.Error("no one can sign in at the provider until its configuration is loaded again", zap.String("provider", id), zap.Error(err))
	return idp.Unusable(err, remote.path() == "")
}

// checkKeys reports a key pair that is missing, or that the provider cannot use. The configuration API can add or
// replace it while the server runs.
func (p *Manager) checkKeys(ctx context.Context, id string, source idp.Provider) {
	if checker, ok := source.(idp.KeyChecker); ok {
		if err := checker.CheckKeys(ctx); err != nil {
			p.deps.Log.Warn("a key pair of the provider cannot be used: add or replace it by the configuration API",
				zap.String("provider", id), zap.Error(err))
		}
	}
}

// Warnings returns warnings by the ids of the providers: problems that keep people from signing in, now or within 30
// days, and options that are probably not intended. The list of a provider without problems is empty.
func (p *Manager) Warnings(ctx context.Context) map[string][]idp.Warning {
	out := map[string][]idp.Warning{}
	for id, one := range p.running(ctx) {
		out[id] = nil
		if warner, ok := one.(idp.Warner); ok {
			out[id] = warner.Warnings()
		}
		if watcher, ok := one.(idp.Watcher); ok {
			out[id] = append(out[id], watcher.Unseen()...)
		}
		if checker, ok := one.(idp.KeyChecker); ok {
			if err := checker.CheckKeys(ctx); err != nil {
				out[id] = append(out[id], idp.Warning{
					Reason: "a key pair cannot be used: " + err.Error(), Advice: "name a key pair of the settings that fits, or put that one back",
				})
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, one := range p.managed {
		out[id] = append(out[id], one.doubts...)
	}
	for id, err := range p.failed {
		out[id] = append(out[id], idp.NoOne(err))
	}
	return out
}

// Providers implements federation.Manager.
func (p *Manager) Providers(ctx context.Context, units *settings.Units) ([]federation.Provider, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A request that began before a change must not bring back what the change has ended.
	if units != p.seen && !p.closed && p.deps.Config.IsCurrent(units) &&
		p.renew(context.WithoutCancel(ctx), units.LoginMethods.LoginMethods, &units.Features) { // the list outlives the request
		p.seen = units
	}
	return p.list, p.version, nil
}

// renew makes the providers that are new or changed and closes those that are gone. A provider that cannot be made is
// left out: it must not break the other ways to sign in. While storage cannot be read, a provider whose keys are stored
// stays as it was, and renew reports false: it has to be called again.
func (p *Manager) renew(ctx context.Context, methods []settings.LoginMethod, f *settings.Features) (whole bool) {
	whole = true
	now, failed := map[string]managedProvider{}, map[string]error{}
	var list []federation.Provider
	changed := false
	for _, m := range methods {
		if !m.Enabled || m.ID == settings.OwnMethod || p.deps.File.kinds[m.ID] != "" {
			continue
		}
		raw, err := loginmethod.Key(&m)
		var kept []byte
		if err == nil {
			kept, err = p.keytab(ctx, &m)
			raw = append(raw, kept...)
		}
		have, ok := p.managed[m.ID]
		if errors.Is(err, storage.ErrUnavailable) {
			if whole = false; ok {
				raw, err = have.method, nil
			}
		}
		if err == nil && (!ok || !bytes.Equal(have.method, raw)) {
			changed = true
			have = managedProvider{method: raw, doubts: doubts(&m)}
			have.Provider, err = p.make(&m, kept)
		}
		if err != nil {
			if was := p.failed[m.ID]; was == nil || was.Error() != err.Error() {
				p.deps.Log.Error("login method cannot be used", zap.String("provider", m.ID), zap.Error(err))
				changed = true
			}
			failed[m.ID] = err
			continue
		}
		now[m.ID] = have
		list = append(list, federation.Provider{
			ID: m.ID, Name: m.Name, Source: have.Provider, Path: loginmethod.Path(&m), Managed: true, Administrators: m.AdministratorsEnabled,
			Synchronise: m.SynchroniseAttributes, VerifiesEmail: m.AutoEmailVerification,
			Activates: m.AutoActivationEnabled, Assurance: m.IdentityAssuranceLevel, Editable: loginmethod.Editable(&m),
			Custom: loginmethod.Custom(&m), Excluded: loginmethod.Excluded(&m), CoupleEmail: f.AutomatedExternalIdentityCouplingEnabled,
			Migrates: f.MigrationEnabled && m.MigrationDuringSignUp && m.Type == settings.TypeLDAP, Moving: loginmethod.Moving(&m, f),
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
	p.managed, p.failed, p.list = now, failed, list
	return whole
}

func sameProvider(a, b federation.Provider) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Source == b.Source && a.Synchronise == b.Synchronise && a.CoupleEmail == b.CoupleEmail &&
		a.Migrates == b.Migrates && a.Assurance == b.Assurance && a.Moving == b.Moving && a.VerifiesEmail == b.VerifiesEmail &&
		a.Activates == b.Activates && a.Administrators == b.Administrators && slices.Equal(a.Editable, b.Editable) &&
		slices.Equal(a.Custom, b.Custom) && slices.Equal(a.Excluded, b.Excluded)
}

// end closes a provider in the background, so callers that want the list do not wait. Requests that still use it can
// continue.
func (p *Manager) end(id string, provider idp.Provider) {
	closer, ok := provider.(idp.Closer)
	if !ok {
		return
	}
	go func() {
		if err := closer.Close(); err != nil {
			p.deps.Log.Error("provider not closed cleanly", zap.String("provider", id), zap.Error(err))
		}
	}()
}

// Close ends every provider.
func (p *Manager) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for id, provider := range p.all() {
		if closer, ok := provider.(idp.Closer); ok {
			if err := closer.Close(); err != nil {
				p.deps.Log.Error("provider not closed cleanly", zap.String("provider", id), zap.Error(err))
			}
		}
	}
}

// all returns the providers of both kinds by their ids. The caller holds mu.
func (p *Manager) all() map[string]idp.Provider {
	out := maps.Clone(p.fixed)
	for id, m := range p.managed {
		out[id] = m.Provider
	}
	return out
}

// Check tests all providers in parallel. It returns ok or an error text by their ids.
func (p *Manager) Check(ctx context.Context) map[string]string {
	var (
		mu      sync.Mutex // guards out
		out     = map[string]string{}
		waiting sync.WaitGroup
	)
	for id, provider := range p.running(ctx) {
		if _, ok := provider.(idp.Checker); !ok {
			continue
		}
		waiting.Go(func() {
			answer := "ok"
			if steps := test(ctx, provider); steps.Err() != nil {
				answer = steps.Err().Error()
			}
			mu.Lock()
			defer mu.Unlock()
			out[id] = answer
		})
	}
	waiting.Wait()
	return out
}

// Test tries the parts of a sign-in at a provider step by step: for idp test, and for every screen that shows the state
// of a provider. It signs no one in. A provider that is off, or that names no server, has no steps.
func (p *Manager) Test(ctx context.Context, id string) idp.Steps {
	return test(ctx, p.running(ctx)[id])
}

// Certificates returns the certificates with which the signatures of each provider are checked, by its id, as they are
// known now.
func (p *Manager) Certificates(ctx context.Context) map[string][]*x509.Certificate {
	out := map[string][]*x509.Certificate{}
	for id, one := range p.running(ctx) {
		if known, ok := one.(idp.Certified); ok {
			if list := known.Certificates(); len(list) > 0 {
				out[id] = list
			}
		}
	}
	return out
}

// KeyUses returns the uses that a provider makes of key pairs of the configuration.
func (p *Manager) KeyUses(ctx context.Context, id string) []idp.KeyUse {
	if known, ok := p.running(ctx)[id].(idp.KeyUser); ok {
		return known.KeyUses()
	}
	return nil
}

// Try is Test for a login method that need not be stored or switched on. Without a client id, the steps that need one
// are left out.
func (p *Manager) Try(ctx context.Context, m settings.LoginMethod) (idp.Steps, error) {
	unknown := m.OIDC != nil && m.OIDC.ClientID == ""
	if unknown {
		named := *m.OIDC
		named.ClientID, named.ClientAuthenticationMethod, m.OIDC = "new", "", &named
	}
	kept, err := p.keytab(ctx, &m)
	if err != nil {
		return nil, err
	}
	provider, err := p.make(&m, kept)
	if err != nil {
		return nil, err
	}
	defer p.end(m.ID, provider)
	steps := test(ctx, provider)
	if at := slices.IndexFunc(steps, func(s idp.Step) bool { return s.Name == idpremote.StepClient }); unknown && at >= 0 {
		steps = steps[:at]
	}
	return steps, nil
}

func test(ctx context.Context, provider idp.Provider) idp.Steps {
	checker, ok := provider.(idp.Checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxTest)
	defer cancel()
	return checker.Check(ctx)
}

// running returns the providers as they are configured now.
func (p *Manager) running(ctx context.Context) map[string]idp.Provider {
	if units, err := p.deps.Config.Current(ctx); err == nil {
		_, _, _ = p.Providers(ctx, units) // never returns an error
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all()
}

// make makes the provider of a login method. An API client that may change the configuration can name any address, so
// every address is checked. kept is the keytab that it names.
func (p *Manager) make(m *settings.LoginMethod, kept []byte) (idp.Provider, error) {
	switch {
	case m.Type == settings.TypeQRCode:
		return federation.Phone{}, nil
	case m.Type == settings.TypeLDAP && m.LDAP != nil:
		return ldap.New(loginmethod.LDAP(m), p.env(m.ID, false))
	case m.Type == settings.TypeKerberos:
		cfg, err := loginmethod.Kerberos(m, kept)
		if err != nil {
			return nil, err
		}
		return kerberos.New(cfg, p.env(m.ID, false))
	}
	if cfg, ok := loginmethod.SAML(m); ok {
		return saml.New(cfg, p.env(m.ID, false))
	}
	if cfg, ok := loginmethod.OpenID(m); ok {
		return oidc.New(cfg, p.env(m.ID, false))
	}
	if cfg, ok := loginmethod.OAuth2(m); ok {
		return oauth2.New(cfg, p.env(m.ID, false))
	}
	return nil, errors.New("no provider of this type")
}
