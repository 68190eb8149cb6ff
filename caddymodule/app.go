// Package caddymodule ties Gatehouse to Caddy: the app, its storage modules, the handlers, the admin API and the commands. It holds no protocol
// rule; those live in authz and identity.
package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/breach"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func init() {
	caddy.RegisterModule(new(App))
}

// startWait is how long a request waits for the app, since Caddy starts its apps in random order.
const startWait = 15 * time.Second

// App is the authorization server and identity service. Its endpoints and pages are served by the handler gatehouse; the handler protect asks it who may pass.
type App struct {
	// The address that every endpoint and page lives under, such as https://auth.example.com: scheme and host, no path. http is accepted for loopback hosts only. Required.
	Issuer string `json:"issuer,omitempty"`
	// Where the records are kept. Default: badger in Caddy's data directory.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=gatehouse.storage inline_key=module"`
	// Keys of 32 bytes in base64 that seal private keys and other secrets at rest: the first seals, all of them open. Default: one that is made once and
	// kept beside the storage directory, mode 0600.
	EncryptionKeys []options.Sensitive `json:"encryption_keys,omitempty"`
	// Scopes that have more to say than their names. Default: none.
	Scopes []Scope `json:"scopes,omitempty"`
	// The OAuth clients. Those added by command are kept in storage. Default: none.
	Clients []client.Client `json:"clients,omitempty"`
	// Basic credentials of the APIs. Default: none.
	APIClients []client.APIClient `json:"api_clients,omitempty"`
	// The identity providers beside the identity service itself, by the ids that clients and the parameter idp use. Default: none.
	IDPsRaw caddy.ModuleMap `json:"idps,omitempty" caddy:"namespace=gatehouse.idp inline_key=module"`
	// The persons and how they sign in.
	Identity Identity `json:"identity,omitzero"`
	// How long events are kept.
	Events Events `json:"events,omitzero"`
	// Which addresses may be reached that nobody has written here.
	Outbound Outbound `json:"outbound,omitzero"`

	// What hands e-mails to persons over. Default: none, and persons are told nothing.
	MailRaw json.RawMessage `json:"mail,omitempty" caddy:"namespace=gatehouse.mail inline_key=module"`

	// What hands text messages to persons over. Default: none, and everything that needs them is off.
	SMSRaw json.RawMessage `json:"sms,omitempty" caddy:"namespace=gatehouse.sms inline_key=module"`
	// What hands prompts on devices of persons over. Default: none, and everything that needs them is off.
	PushRaw json.RawMessage `json:"push,omitempty" caddy:"namespace=gatehouse.push inline_key=module"`

	ctx       caddy.Context
	log       *zap.Logger
	issuer    *url.URL
	storage   Storage
	keys      [][]byte
	cost      secret.HashCost
	brand     page.Brand
	extension string
	allow     []netip.Prefix // of outbound
	authz     authz.Config
	persons   identity.Config
	events    event.Retention
	webhooks  []notify.WebhookConfig
	mailer    Mailer // nil: none
	texter    Texter // nil: none
	pusher    Pusher // nil: none
	breach    breach.Config
	emitter   *caddyevents.App
	early     *core // opened by Provision and not yet taken by Start

	idps      *provider.Set
	bootstrap []byte // JSON of configuration units

	credentials secret.String // key of the credentials API; empty: it takes no passwords

	mu    sync.Mutex // guards sites and state below
	sites map[string]bool

	running atomic.Pointer[instance] // nil before Start and after Cleanup
	ready   chan struct{}            // closed when Start or Cleanup is done
	settle  sync.Once                // closes ready
	failure error                    // why nothing runs; read after ready
}

// instance is what one configuration runs.
type instance struct {
	authz     *authz.Server
	providers *provider.Manager
	identity  *identity.Service
	config    *config.Service
	pages     *page.Renderer
	gate      *rest.Gate
	apis      []pathHandler
	tell      *teller
	mail      *notify.Mail   // nil: none
	texts     *notify.Texts  // nil: none
	pushes    *notify.Pushes // nil: none
	breach    *breach.Checker
	issuer    *url.URL
	core      *core
	admit     func(*http.Request) bool // whether a stranger may begin one more sign-in
	log       *zap.Logger

	stop    context.CancelFunc // ends the worker
	stopped chan struct{}      // closed when it has

	panics atomic.Int64 // of authz and identity, as far as they are counted

	users atomic.Int64  // the app itself and the requests under way
	gone  chan struct{} // closed when nobody uses it any more
}

var (
	errNotReady = errors.New("gatehouse is starting")
	errStopped  = errors.New("gatehouse has stopped")
)

// CaddyModule implements caddy.Module.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: options.AppName, New: func() caddy.Module { return new(App) }}
}

// Provision resolves the configuration and says all that is wrong with it at once. It opens nothing unless a configuration is running.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.log = ctx, ctx.Logger()
	a.ready, a.idps = make(chan struct{}), provider.NewSet(a.IDPsRaw)
	r := options.NewResolver(caddy.NewReplacer())
	if a.Issuer == "" {
		r.Fail("issuer is missing: add for example https://auth.example.com")
	}
	a.issuer = &url.URL{}
	if s, ok := r.Text("issuer", a.Issuer, options.CheckIssuer); ok {
		a.issuer, _ = options.ParseIssuer(s)
	}
	for i, k := range a.EncryptionKeys {
		if s, ok := r.Text(fmt.Sprintf("encryption_key %d", i+1), string(k), checkKey); ok {
			key, _ := parseKey(s)
			a.keys = append(a.keys, key)
		}
	}
	a.authz, a.persons = a.buildAuthz(r), a.buildIdentity(r)
	a.cost, a.brand = a.buildHashCost(r), a.buildBrand(r)
	a.allow = a.Outbound.build(r)
	a.authz.OutboundAllow = a.allow
	if s, ok := r.Text("identity: credentials_key", string(a.Identity.CredentialsKey), api.CheckCredentialsKey); ok {
		a.credentials, _ = api.ParseCredentialsKey(s)
	}
	a.extension = r.Plain("identity: extension", a.Identity.Extension, nil)
	a.events = event.Retention{
		Kept:  r.Duration("events: retention", a.Events.Retention),
		Brief: r.Duration("events: token_retention", a.Events.TokenRetention),
	}
	a.webhooks = a.Events.buildWebhooks(r)
	a.breach = a.Identity.Breach.build(r)
	if err := r.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	if _, err := a.newPages(make([]byte, secret.KeySize)); err != nil {
		return fmt.Errorf("gatehouse: identity: %w", err)
	}
	if err := a.loadIDPs(); err != nil {
		return err
	}
	if err := a.loadBootstrap(); err != nil {
		return err
	}
	for _, load := range []func() error{a.loadMail, a.loadSMS, a.loadPush} {
		if err := load(); err != nil {
			return err
		}
	}
	a.warn()
	if err := a.findEmitter(); err != nil {
		return err
	}
	if err := a.loadStorage(); err != nil {
		return err
	}
	return a.openEarly()
}

// openEarly opens the core at once when this configuration is to replace a running one. Caddy starts its apps in random order: were the
// storage found to be locked or unusable only in Start, the new http app might have its sockets open already, and the connections that
// wait in them would be closed together with it. At the first start nobody is connected, and `caddy validate` beside a running server
// must not ask for the directory's lock.
func (a *App) openEarly() (err error) {
	if caddy.ActiveContext().Context == nil {
		return nil
	}
	if a.early, err = openCore(a.ctx, a.storage, a.keys, a.cost, a.log); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	return nil
}

func (a *App) loadStorage() error {
	if a.StorageRaw == nil {
		b := new(BadgerStorage)
		a.storage = b
		return b.Provision(a.ctx)
	}
	mod, err := a.ctx.LoadModule(a, "StorageRaw")
	if err != nil {
		return fmt.Errorf("gatehouse: storage: %w", err)
	}
	s, ok := mod.(Storage)
	if !ok {
		return fmt.Errorf("gatehouse: storage module %T does not open a store", mod)
	}
	a.storage = s
	return nil
}

// warn names what is accepted and has no effect.
func (a *App) warn() {
	for _, c := range a.authz.APIClients {
		for _, name := range c.APIs {
			if name == "credentials" && a.credentials.IsZero() {
				a.log.Warn("without identity { credentials_key } the credentials API takes no passwords", zap.String("api_client", c.ID))
			}
		}
	}
}

func (a *App) newPages(key []byte) (*page.Renderer, error) {
	return page.New(page.Config{Brand: a.brand, Locales: a.persons.Locales, Issuer: a.issuer.String(), Key: key, Extension: a.extension, Icons: a.idps.Icons(), Logos: a.logos(), Log: a.log})
}

// RegisterSite names the origins of a site that declares login. Sites do so while they are provisioned, before Start.
func (a *App) RegisterSite(origins ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sites == nil {
		a.sites = map[string]bool{}
	}
	for _, o := range origins {
		a.sites[o] = true
	}
}

// Start opens what the configuration needs and lets the waiting requests in.
func (a *App) Start() error {
	inst, err := a.open()
	if err != nil {
		a.settled(nil, err)
		return err
	}
	a.settled(inst, nil)
	return nil
}

func (a *App) settled(inst *instance, err error) {
	a.settle.Do(func() {
		a.running.Store(inst)
		a.failure = err
		close(a.ready)
	})
}

func (a *App) open() (_ *instance, err error) {
	c := a.early
	if a.early = nil; c == nil {
		if c, err = openCore(a.ctx, a.storage, a.keys, a.cost, a.log); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	inst := &instance{issuer: a.issuer, core: c, admit: c.pace.admit, log: a.log, gone: make(chan struct{})}
	inst.users.Store(1)
	if inst.pages, err = a.newPages(c.keyring.Derive("gatehouse csrf v1")); err != nil {
		return nil, err
	}
	events, tell, err := a.openEvents(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			tell.release()
		}
	}()
	inst.tell = tell
	a.mu.Lock()
	a.authz.SiteOrigins = slices.Sorted(maps.Keys(a.sites))
	a.mu.Unlock()
	if inst.config, err = a.openConfig(c, events); err != nil {
		return nil, err
	}
	inst.config.OnUse(a.idps.KeyUsers)
	inst.pages.SetOverrides(inst.config.Overrides)
	inst.pages.SetOrganisations(inst.config.PageOrganisations)
	inst.providers = provider.NewManager(provider.Deps{
		Issuer: a.issuer.String(), File: a.idps, Allow: a.allow, Store: c.Store, Config: inst.config, Log: a.log.Named("idp"),
	})
	persons := a.persons
	if persons.Providers, err = inst.providers.Open(persons.Providers); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			inst.providers.Close()
		}
	}()
	if inst.mail, err = a.openMail(c, inst.pages); err != nil {
		return nil, err
	}
	if inst.texts, err = a.openSMS(c, inst.pages); err != nil {
		return nil, err
	}
	if inst.pushes, err = a.openPush(c, inst.pages); err != nil {
		return nil, err
	}
	if inst.breach, err = breach.New(a.breach, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, inst.breach.Close())
		}
	}()
	var sender notify.Sender // nil: none
	if inst.mail != nil {
		sender = inst.mail
	}
	var texter notify.SMSSender // nil: none
	if inst.texts != nil {
		texter = inst.texts
	}
	var pusher notify.PushSender // nil: none
	if inst.pushes != nil {
		pusher = inst.pushes
	}
	inst.identity, err = identity.New(a.ctx, persons, identity.Deps{
		Store: c.Store, Keyring: c.keyring, Hasher: c.hasher, Events: events, Pages: inst.pages, Origin: a.Origin, Admit: c.pace.admit, Log: a.log.Named("identity"),
		Units: inst.config.Units, Manager: inst.providers, Notify: sender, SMS: texter, Push: pusher, Breached: inst.breach,
	})
	if err != nil {
		return nil, err
	}
	inst.authz, err = authz.New(a.ctx, a.authz, authz.Deps{
		Store: c.Store, Keys: c.keys, Keyring: c.keyring, Hasher: c.hasher, Events: events, Auth: inst.identity, Subjects: inst.identity,
		Passwords: inst.identity, Providers: authzProviders{inst.identity}, Unlinked: inst.identity.Unlinked, AfterLogout: inst.identity.AfterLogout, Pages: inst.pages, Origin: a.Origin, Admit: c.pace.admit, Log: a.log.Named("authz"),
	})
	if err != nil {
		return nil, err
	}
	inst.identity.Watch(inst.authz)
	inst.identity.Tie(inst.authz)
	if err := inst.openAPIs(a); err != nil {
		return nil, err
	}
	if err := c.metrics.register(a.ctx.GetMetricsRegistry()); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	inst.work(a)
	return inst, nil
}

// work starts what the instance does by itself, until its last user leaves.
func (i *instance) work(a *App) {
	ctx, stop := context.WithCancel(context.Background())
	i.stop, i.stopped = stop, make(chan struct{})
	go func() {
		defer close(i.stopped)
		var workers sync.WaitGroup
		workers.Go(func() { i.watchCertificates(ctx) })
		for _, w := range i.tell.webhooks {
			workers.Go(func() { w.Run(ctx) })
		}
		if i.mail != nil {
			workers.Go(func() { i.mail.Run(ctx) })
		}
		if i.texts != nil {
			workers.Go(func() { i.texts.Run(ctx) })
		}
		if i.pushes != nil {
			workers.Go(func() { i.pushes.Run(ctx) })
		}
		if err := i.authz.Run(ctx); err != nil {
			i.log.Error("worker stopped", zap.Error(err))
		}
		workers.Wait()
	}()
	go i.tell.emit(a.ctx, a.emitter, a.log) // not waited for: it ends with the context, and its handlers are others'
}

// Stop implements caddy.App. Requests may still be under way and other apps may stop later, so everything is kept until Cleanup.
func (a *App) Stop() error { return nil }

// Cleanup lets go of what Start took, as soon as the last request that uses it is done. It may follow a Provision that failed or a Start that never
// happened, and may be called again.
func (a *App) Cleanup() error {
	if a.ready == nil {
		return nil
	}
	a.settled(nil, errStopped)
	if c := a.early; c != nil { // provisioned and never started
		a.early = nil
		return c.release()
	}
	inst := a.running.Swap(nil)
	if inst == nil {
		return nil
	}
	inst.leave()
	if caddy.Exiting() { // nobody waits for us after this
		inst.drained(5 * time.Second)
	}
	return nil
}

// await returns what runs. It waits for Start, for a bounded time; an error means 503.
func (a *App) await(ctx context.Context) (*instance, error) {
	if inst := a.running.Load(); inst != nil {
		return inst, nil
	}
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-a.ready:
	case <-timer.C:
		return nil, errNotReady
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if inst := a.running.Load(); inst != nil {
		return inst, nil
	}
	if a.failure != nil {
		return nil, a.failure
	}
	return nil, errStopped
}

// enter is await, and keeps what it returns open until the caller leaves it. After a reload it returns what runs now: while Caddy shuts the old
// server down, a kept-alive connection may bring one more request to the configuration that was replaced.
func (a *App) enter(ctx context.Context) (*instance, error) {
	inst, err := a.hold(ctx)
	if !errors.Is(err, errStopped) {
		return inst, err
	}
	now, unknown := caddy.ActiveContext().AppIfConfigured(options.AppName)
	if b, ok := now.(*App); unknown == nil && ok && b != a {
		return b.hold(ctx)
	}
	return nil, err
}

func (a *App) hold(ctx context.Context) (*instance, error) {
	inst, err := a.await(ctx)
	if err != nil {
		return nil, err
	}
	for {
		n := inst.users.Load()
		if n == 0 {
			return nil, errStopped
		}
		if inst.users.CompareAndSwap(n, n+1) {
			return inst, nil
		}
	}
}

// leave undoes enter. The last one to leave a configuration that has ended releases its share of the pools.
func (i *instance) leave() {
	if i.users.Add(-1) > 0 {
		return
	}
	i.stop()
	<-i.stopped
	i.tell.release()
	i.providers.Close()
	if err := i.breach.Close(); err != nil {
		i.log.Warn("file of breaches not closed", zap.Error(err))
	}
	if err := i.core.release(); err != nil {
		i.log.Error("storage not closed cleanly", zap.Error(err))
	}
	close(i.gone)
}

// drained waits until nobody uses the instance any more, but not for ever.
func (i *instance) drained(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-i.gone:
	case <-timer.C:
		i.log.Warn("requests were still under way at the end")
	}
}

// check tells whether the instance can serve and write.
func (i *instance) check(ctx context.Context) error {
	if c, ok := i.core.Store.(storage.Checker); ok {
		return c.Check(ctx)
	}
	return i.core.Store.View(ctx, func(storage.Tx) error { return nil })
}

// Origin says where a request came from. Which proxies to believe is Caddy's to decide (trusted_proxies).
func (a *App) Origin(r *http.Request) event.Origin {
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return event.Origin{ClientIP: ip, UserAgent: r.UserAgent()}
}

var (
	_ caddy.App             = (*App)(nil)
	_ caddy.Provisioner     = (*App)(nil)
	_ caddy.CleanerUpper    = (*App)(nil)
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ authz.Authenticator   = (*identity.Service)(nil)
	_ authz.Subjects        = (*identity.Service)(nil)
	_ identity.Watcher      = (*authz.Server)(nil)
)
