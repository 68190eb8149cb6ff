// Package caddymodule connects Gatehouse to Caddy: the app, its handler, and the modules for storage and messages.
// Packages below it hold the other modules. Protocol rules are in authz and identity.
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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/clientcert"
	"github.com/gatehouse-id/gatehouse/caddymodule/envoyauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
	"github.com/gatehouse-id/gatehouse/caddymodule/inventory"
	"github.com/gatehouse-id/gatehouse/caddymodule/mcp"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/caddymodule/reloadlistener"
	"github.com/gatehouse-id/gatehouse/caddymodule/sender"
	"github.com/gatehouse-id/gatehouse/caddymodule/serviceprovider"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access/notice"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/pwned"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

func init() {
	caddy.RegisterModule(new(App))
}

// startWait is the time that a request waits for the app, since Caddy starts its apps in random order.
const startWait = 15 * time.Second

// App is the authorization server and identity service. The handler gatehouse serves its endpoints and pages; the
// handler protect asks it about tokens and sessions.
type App struct {
	// The address that every endpoint and page lives under, such as https://auth.example.com: scheme and host, no path.
	// http is accepted for loopback hosts only. Required.
	Issuer string `json:"issuer,omitempty"`
	// The storage of the records. Default: badger in Caddy's data directory.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=gatehouse.storage inline_key=module"`
	// Keys of 32 bytes in base64 that seal private keys and other secrets at rest: the first seals, all of them open.
	// Default: one that is made once and kept next to the storage directory, mode 0600.
	EncryptionKeys []caddyfileutil.Sensitive `json:"encryption_keys,omitempty"`
	// Scopes with a description, a level or a limit. Default: none.
	Scopes []Scope `json:"scopes,omitempty"`
	// The types of authorization details (RFC 9396) that clients can ask for. Default: none.
	AuthorizationDetails []client.DetailType `json:"authorization_details,omitempty"`
	// The OAuth clients. Those added by command are kept in storage. Default: none.
	Clients []client.Client `json:"clients,omitempty"`
	// Basic credentials of the APIs. Default: none.
	APIClients []client.APIClient `json:"api_clients,omitempty"`
	// Rules that several sites share, by name. Default: none.
	Policies map[string]*policy.Policy `json:"policies,omitempty"`
	// The limits and quotas that clients and groups of people have at several sites together, by name. Default: none.
	Plans map[string]*ratelimits.Plan `json:"plans,omitempty"`
	// The plans of groups; the first one that a person is in counts. Default: none.
	GroupPlans []ratelimits.GroupPlan `json:"group_plans,omitempty"`
	// The sites that other proxies serve and ask about. Default: none.
	ForwardAuth *forwardauth.Gates `json:"forward_auth,omitempty"`
	// The listener for Envoy's external authorization over gRPC. Default: none.
	ExtAuthz *envoyauthz.Server `json:"ext_authz,omitempty"`
	// The clients that are known by their metadata documents, without being registered. Default: on if a site has mcp.
	ClientDocuments *client.Documents `json:"client_metadata_documents,omitempty"`
	// Other issuers whose tokens authenticate clients: build servers and clusters. Default: none.
	TrustedIssuers []client.TrustedIssuer `json:"trusted_issuers,omitempty"`
	// Applications that sign people in by SAML. Default: none.
	ServiceProviders []serviceprovider.ServiceProvider `json:"service_providers,omitempty"`
	// Key pairs that sign for service providers, by name: the first one signs, all are in the metadata. Default:
	// Gatehouse's own.
	SAMLSign []string `json:"saml_sign,omitempty"`
	// Which clients can register themselves. Default: none.
	Registration *client.Registration `json:"registration,omitempty"`
	// The identity providers besides the identity service itself, by the ids that clients and the parameter idp use.
	// Default: none.
	IDPsRaw caddy.ModuleMap `json:"idps,omitempty" caddy:"namespace=gatehouse.idp inline_key=module"`
	// The people, and how they sign in.
	Identity Identity `json:"identity,omitzero"`
	// How long events are kept.
	Events Events `json:"events,omitzero"`
	// The addresses outside this configuration that may be reached.
	Outbound Outbound `json:"outbound,omitzero"`
	// Whether every client must push its authorization requests (RFC 9126). Default: false.
	PARRequired bool `json:"par_required,omitempty"`
	// Where the certificates of clients come from, besides the TLS connection.
	Certificates clientcert.Options `json:"client_certificates,omitzero"`
	// The people that receivers of shared signals are told about: named, those that a receiver has named, or all. Default:
	// there are no shared signals.
	SharedSignals string `json:"shared_signals,omitempty"`

	// What delivers e-mails. Default: none, and people get no e-mail.
	MailRaw json.RawMessage `json:"mail,omitempty" caddy:"namespace=gatehouse.mail inline_key=module"`

	// What delivers text messages. Default: none, and every feature that needs them is off.
	SMSRaw json.RawMessage `json:"sms,omitempty" caddy:"namespace=gatehouse.sms inline_key=module"`
	// What delivers prompts on people's devices. Default: none, and every feature that needs them is off.
	PushRaw json.RawMessage `json:"push,omitempty" caddy:"namespace=gatehouse.push inline_key=module"`
	// The places of the options in the Caddyfile, as file:line, for messages. Default: unknown.
	Places caddyfileutil.Places `json:"places,omitempty"`

	ctx       caddy.Context
	log       *zap.Logger
	issuer    *url.URL
	storage   shared.Storage
	keys      [][]byte
	cost      secret.HashCost
	brand     web.Brand
	extension string
	// extensionFault says which parts of the extension are left out.
	extensionFault error
	allow          []netip.Prefix // of outbound
	authz          authz.Config
	persons        identity.Config
	events         audit.Retention
	calls          time.Duration // retention of the log of calls. Negative: for ever
	webhooks       []notify.WebhookConfig
	mailer         sender.Mailer // nil: none

	accessMail notice.Config
	vouching   []string      // SCIM clients whose e-mail addresses count as verified
	texter     sender.Texter // nil: none
	pusher     sender.Pusher // nil: none
	breach     pwned.Config
	emitter    *caddyevents.App
	begun      *startSignal // of the start of all apps
	early      *shared.Core // opened by Provision and not yet taken by Start
	findings   diagnostic.List
	firsts     []diagnostic.Finding // about settings that an empty storage starts with
	reloads    []diagnostic.Finding // for check alone, since each configuration without the listener wrapper has them
	served     atomic.Bool          // a handler that serves the issuer has been provisioned
	tree       *routetree.Tree

	plans           *ratelimits.Plans // nil: there are none
	idps            *provider.Set
	bootstrap       []byte          // JSON of configuration units
	bootstrapFault  error           // why they cannot be used
	initial         *settings.Units // what an empty storage starts with
	switches        map[string]bool
	writtenPolicies map[string]settings.FixedPolicy // those of the Caddyfile

	certificates *clientcert.Source

	console layout.Config
	owners  []string // of the console
	others  []string // owners who are not among the persons of the configuration

	credentials secret.String // key of the credentials API; empty: it takes no passwords

	inventory *inventory.Sites // the sites in front of upstreams

	mu          sync.Mutex // guards what follows
	sites       map[string]bool
	mcp         mcp.Sites
	resourcesAt []string            // places of the sites with resources
	accepting   []apppassword.Site  // sites that accept app passwords
	signatures  []string            // algorithms that sites sign assertions with
	acceptingAt []string            // where they say so
	rules       map[string]bool     // of the sites, see RegisterRules
	guarded     map[string][]string // place of a protect without matcher -> the addresses of its site
	limited     map[string]int      // sites with limits, see LimitsAt
	policyUses  []policyUse
	groupUses   []groupUse
	probes      []func(context.Context) *diagnostic.Finding // what check asks sites about

	running atomic.Pointer[instance] // nil before Start and after Cleanup
	ready   chan struct{}            // closed when Start or Cleanup is done
	settle  sync.Once                // closes ready
	failure error                    // why nothing runs; read after ready
}

var (
	errNotReady = errors.New("gatehouse is starting")
	errStopped  = errors.New("gatehouse has stopped")
)

// CaddyModule implements caddy.Module.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddyfileutil.AppName, New: func() caddy.Module { return new(App) }}
}

// Provision resolves the configuration and reports all of its problems together. It opens nothing unless a
// configuration is running.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.log = ctx, ctx.Logger()
	a.ready, a.idps = make(chan struct{}), provider.NewSet(a.IDPsRaw)
	r := caddyfileutil.NewResolverAt(a.Places)
	if a.Issuer == "" {
		r.Fail("issuer is missing: add for example https://auth.example.com")
	}
	a.issuer = &url.URL{}
	if s, ok := r.Text("issuer", a.Issuer, caddyfileutil.CheckIssuer); ok {
		a.issuer, _ = caddyfileutil.ParseIssuer(s)
	}
	for i, k := range a.EncryptionKeys {
		if s, ok := r.Text(fmt.Sprintf("encryption_key %d", i+1), string(k), checkKey); ok {
			key, _ := shared.ParseKey(s)
			a.keys = append(a.keys, key)
		}
	}
	a.authz, a.persons = a.buildAuthz(r), a.buildIdentity(r)
	a.checkPartitions(r)
	a.cost, a.brand = a.buildHashCost(r), a.buildBrand(r)
	a.allow = a.Outbound.build(r)
	a.authz.OutboundAllow = a.allow
	if s, ok := r.Text("identity: credentials_key", string(a.Identity.CredentialsKey), api.CheckCredentialsKey); ok {
		a.credentials, _ = api.ParseCredentialsKey(s)
	}
	a.extension = r.Plain("identity: extension", a.Identity.Extension, nil)
	a.certificates = a.Certificates.Build(r)
	a.authz.CertificateEndpoints = a.certificates.Endpoints()
	a.events = a.Events.retention(r)
	a.calls = a.Events.callRetention(r, a.events.Kept)
	a.webhooks = a.Events.buildWebhooks(r)
	a.breach = a.Identity.Breach.build(r)
	a.switches = a.Identity.Switches.Resolve(r)
	if _, set := a.switches[consoleSwitch]; !set && a.Identity.Admin != nil {
		a.switches[consoleSwitch] = true
	}
	a.console, a.owners = a.Identity.Admin.Build(r)
	a.others = a.ownersInPersons()
	if err := r.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	a.reportFaults(r.Faults())
	pages, err := a.newPages(make([]byte, secret.KeySize))
	if err != nil {
		return fmt.Errorf("gatehouse: identity: %w", err)
	}
	a.extensionFault = pages.ExtensionFault()
	a.writtenPolicies = a.fixedPolicies()
	for _, name := range slices.Sorted(maps.Keys(a.Policies)) {
		if err := a.Policies[name].Provision(ctx, "policy "+name, r); err != nil {
			return a.Places.LocateIn(err, "policy "+name)
		}
		a.Policies[name].CountAs("policy " + name)
	}
	if err := a.loadIDPs(); err != nil {
		for id := range a.IDPsRaw {
			if strings.Contains(err.Error(), "key "+id+": ") || strings.Contains(err.Error(), "idp "+id+": ") {
				err = a.Places.LocateIn(err, "idp "+id)
			}
		}
		return a.Places.Locate(err)
	}
	for _, problem := range a.authz.Check() {
		r.AddError(problem)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	for _, module := range []struct {
		name string
		load func() error
	}{{"mail", a.loadMail}, {"sms", a.loadSMS}, {"push", a.loadPush}} {
		if err := module.load(); err != nil {
			return a.Places.LocateIn(err, module.name)
		}
	}
	if err := a.loadPlans(); err != nil {
		return err
	}
	a.checkNames()
	a.checkValues()
	a.checkParties()
	if a.ForwardAuth == nil {
		a.ForwardAuth = new(forwardauth.Gates)
	}
	a.inventory = inventory.New(ctx, a.ForwardAuth, a.Policies)
	if err := a.ForwardAuth.Provision(ctx, a, slices.Sorted(maps.Keys(a.Policies)), a.Places); err != nil {
		return err
	}
	if a.ExtAuthz != nil {
		res := caddyfileutil.NewResolverAt(a.Places)
		if err := a.ExtAuthz.Provision(res, a.log.Named("ext_authz")); err != nil {
			return a.Places.LocateIn(err, "ext_authz")
		}
		a.reportFaults(res.Faults())
	}
	if err := a.findEmitter(); err != nil {
		return err
	}
	if err := a.loadStorage(); err != nil {
		return a.Places.LocateIn(err, "storage")
	}
	if err := a.loadBootstrap(); err != nil {
		return err
	}
	a.checkBootstrap()
	if err := a.checkSites(); err != nil {
		return err
	}
	return a.openEarly()
}

// openEarly opens the core immediately when this configuration replaces a running one. Caddy starts its apps in random
// order: if a locked or broken storage were found only in Start, the new http app might have its sockets open already,
// and the connections that wait in them would be closed with it. At the first start there are no connections, and
// `caddy validate` while a server runs must not take the directory's lock.
func (a *App) openEarly() (err error) {
	if caddy.ActiveContext().Context == nil {
		return nil
	}
	if !reloadlistener.InUse() {
		a.log.Info("this reload can lose connections and requests: put `servers { listener_wrappers { gatehouse tls } }` into the global options, a line each")
	}
	if a.early, err = shared.Open(a.ctx, a.storage, a.keys, a.cost, a.log); err != nil {
		return a.Places.LocateIn(fmt.Errorf("gatehouse: %w", err), "storage")
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
	s, ok := mod.(shared.Storage)
	if !ok {
		return fmt.Errorf("gatehouse: storage module %T does not open a store", mod)
	}
	if err := shared.CheckKeys(s, a.keys); err != nil {
		return fmt.Errorf("gatehouse: storage: %w", err)
	}
	if s, ok := mod.(interface {
		caddy.Module
		Advice() (reason, fix string)
	}); ok {
		if reason, fix := s.Advice(); reason != "" {
			a.warn("storage "+s.CaddyModule().ID.Name(), reason, fix)
		}
	}
	a.storage = s
	return nil
}

func (a *App) newPages(key []byte) (*web.Renderer, error) {
	return web.New(web.Config{
		Brand: a.brand, Locales: a.persons.Locales, Issuer: a.issuer.String(), Key: key, Extension: a.extension,
		Icons: a.idps.Icons(), Logos: a.logos(), EmailUsernames: a.persons.EmailUsernames, Log: a.log,
	})
}

// Probe implements protect.App.
func (a *App) Probe(ask func(context.Context) *diagnostic.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probes = append(a.probes, ask)
}

// RegisterSite implements protect.App.
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

// AcceptAppPasswords implements protect.App.
func (a *App) AcceptAppPasswords(place string, sites ...apppassword.Site) {
	if len(sites) == 0 {
		return
	}
	a.mu.Lock()
	a.accepting = append(a.accepting, sites...)
	a.acceptingAt = append(a.acceptingAt, place)
	a.mu.Unlock()
	if on, set := a.switches["features.app_passwords_enabled"]; set && !on { // unless the settings say otherwise
		a.first(appPasswordsOff(place))
	}
}

// SignWith implements protect.App.
func (a *App) SignWith(algorithm string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signatures = append(a.signatures, algorithm)
}

// TokenIssuer implements protect.App.
func (a *App) TokenIssuer() string { return a.issuer.String() }

// RegisterRules implements protect.App.
func (a *App) RegisterRules(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil {
		a.rules = map[string]bool{}
	}
	a.rules[text] = true
}

func (a *App) hasRules(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules[text]
}

// Guard implements protect.App.
func (a *App) Guard(place string, sites []string) {
	a.mu.Lock()
	if a.guarded == nil {
		a.guarded = map[string][]string{}
	}
	a.guarded[place] = append(a.guarded[place], sites...)
	a.mu.Unlock()
	if a.tree != nil { // otherwise checkSites looks at it
		a.checkTwice(place, sites)
	}
}

// guardedSites returns the addresses of the sites that let no one in without credentials.
func (a *App) guardedSites() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, place := range a.tree.Whole() {
		out = append(out, a.guarded[place]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Start opens the instance and lets the waiting requests in.
func (a *App) Start() error {
	inst, err := a.open()
	if err != nil {
		a.settled(nil, err)
		return err
	}
	a.settled(inst, nil)
	inst.sayReady(a.ctx)
	if a.ExtAuthz != nil {
		at, err := a.ExtAuthz.Start(a.ForwardAuth)
		if err != nil {
			return a.Places.LocateIn(err, "ext_authz")
		}
		a.log.Info("answering Envoy over gRPC", zap.Stringer("address", at))
	}
	return nil
}

func (a *App) settled(inst *instance, err error) {
	a.settle.Do(func() {
		a.running.Store(inst)
		a.failure = err
		close(a.ready)
	})
}

// Stop implements caddy.App. Requests may still be in progress and other apps may stop later, so everything stays open
// until Cleanup. Only Envoy is answered by the next configuration from now on.
func (a *App) Stop() error {
	if a.ExtAuthz != nil {
		a.ExtAuthz.Stop()
	}
	a.endStreams()
	return nil
}

// endStreams ends the responses that last as long as a page of the console is open.
func (a *App) endStreams() {
	if inst := a.running.Load(); inst != nil {
		inst.console.EndStreams()
	}
}

// Cleanup leaves the instance, which closes once the last request is done. It may follow a Provision that failed or a
// Start that never happened, and may be called again.
func (a *App) Cleanup() error {
	if a.ready == nil {
		return nil
	}
	a.settled(nil, errStopped)
	if c := a.early; c != nil { // provisioned and never started
		a.early = nil
		return c.Release()
	}
	inst := a.running.Swap(nil)
	if inst == nil {
		return nil
	}
	switch last := inst.drop(); {
	case last:
		<-inst.gone
	case caddy.Exiting(): // the process ends without waiting for anything else
		inst.drained(5 * time.Second)
	}
	return nil
}

// await waits for Start, for a bounded time, and returns the running instance. An error means 503.
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

// enter waits for the running instance and holds it; call leave when done. After a reload it returns the instance of
// the new configuration: while Caddy shuts the old server down, a kept-alive connection may bring one more request to
// the configuration that was replaced.
func (a *App) enter(ctx context.Context) (*instance, error) {
	inst, err := a.hold(ctx)
	if !errors.Is(err, errStopped) {
		return inst, err
	}
	now, unknown := caddy.ActiveContext().AppIfConfigured(caddyfileutil.AppName)
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
	if !inst.hold() {
		return nil, errStopped
	}
	return inst, nil
}

// Origin implements protect.App. Caddy decides which proxies to believe (trusted_proxies).
func (a *App) Origin(r *http.Request) audit.Origin {
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return audit.Origin{ClientIP: ip, UserAgent: r.UserAgent(), Organisation: audit.OrganisationOf(r.Context())}
}

var (
	_ caddy.App             = (*App)(nil)
	_ caddy.Provisioner     = (*App)(nil)
	_ caddy.CleanerUpper    = (*App)(nil)
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ authz.Authenticator   = (*identity.Service)(nil)
	_ authz.Subjects        = identity.Subjects{}
	_ person.Watcher        = (*authz.Server)(nil)
)
