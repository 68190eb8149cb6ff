// Package clientstore holds the clients, API clients, scopes and identity providers of one configuration, and the
// clients that were added since. It authenticates clients, and its May is the only place that decides what a client is
// allowed.
package clientstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// never is the expiry of what storage must not collect.
var never time.Time

// maxParsed bounds the stored clients that are kept parsed.
const maxParsed = 4096

// Registry knows the clients: those of the configuration in memory, those added by command in storage. An id in both
// places is an error.
type Registry struct {
	deps   Deps
	issuer string
	fixed  map[string]*entry[client.Client]
	apis   map[string]*entry[client.APIClient]
	scopes map[string]client.Scope
	// details are the types of authorization details.
	details   *rar.Types
	sites     []string          // resources of the sites of the configuration
	resources []client.Resource // the same sites, with their scopes
	// acceptances are the ways in which tokens open those sites.
	acceptances []client.Acceptance
	plans       []string // of the configuration
	// declared are the providers of the configuration, identity among them; providers those and the managed ones, as
	// they were last.
	declared  map[string]Provider
	providers atomic.Pointer[providerSet]
	checks    *secretChecks

	stored parseCache // clients
	docs   *cimd.Documents
	ready  readyDocuments
	// workloads are the issuers whose tokens stand for clients.
	workloads *workload.Issuers
	asked     []string // scopes that clients with a metadata document can ask for
	origins   corsOrigins
	remote    remoteKeys
	// trusted and untrusted make requests to addresses of the configuration and of clients that were added since.
	trusted, untrusted *http.Client
	// failures bounds the events of failed client authentications.
	failures *rate.Limiter
}

// Deps are the dependencies of the registry. All but Hasher, Passwords and Providers are required.
type Deps struct {
	Store   storage.Store
	Keyring *secret.Keyring
	Hasher  *secret.Hasher // for client secrets in PHC form
	// SlowSecrets outlives the configuration. nil: the registry has its own.
	SlowSecrets *SlowSecrets
	Events      *audit.Recorder
	// Passwords reports whether the password grant is served.
	Passwords bool
	// Providers knows the providers of this moment. nil: those of the configuration are all.
	Providers Providers
	Origin    func(*http.Request) audit.Origin
	// Ask has keys made for the algorithms of a client that an operator adds or changes. nil: there are keys for all.
	Ask func(ctx context.Context, algorithms ...string) error
	// Certificate returns the certificate of the sender of a request, or nil. An error is a verdict. nil: no one has
	// one.
	Certificate func(*http.Request) (*certificate.Presented, error)
	// Called notes that an API client has called from an address. nil: nothing is noted.
	Called func(apiClient, address string)
	// OrganisationOf returns the id of the organisation that an API client belongs to, or "". nil: none belongs to any.
	OrganisationOf func(ctx context.Context, apiClient string) (string, error)
	// GroupExists reports whether there is a group, for a client that an operator adds or changes. nil: any does.
	GroupExists func(tx storage.Tx, name string) (bool, error)
	// ClientCalled notes that a client has shown who it is, from an address. nil: nothing is noted.
	ClientCalled func(client, address string)
	// HTTP makes requests to addresses that the operator has not written. Default: to public ones alone, and those of
	// OutboundAllow.
	HTTP   *http.Client
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Config is the operator's configuration of clients.
type Config struct {
	Issuer     string
	Clients    []*client.Client
	APIClients []*client.APIClient
	Scopes     []client.Scope
	Details    []rar.Type
	Plans      []string          // the names of the plans of the configuration
	Resources  []client.Resource // of the sites of the configuration
	// Acceptances are the ways in which tokens open the sites of the configuration.
	Acceptances []client.Acceptance
	Documents   cimd.Config
	Trusted     []workload.Rule // issuers whose tokens stand for clients
	Providers   []Provider      // besides identity, which always exists, and those of Deps.Providers
	// OutboundAllow are networks besides public ones to which addresses of clients that were added by command can lead.
	OutboundAllow []netip.Prefix
}

// entry is a client ready for use: defaults filled in, secrets as keyed hashes.
type entry[T any] struct {
	client     *T
	credential credential
	until      time.Time // of a metadata document
}

// New returns the registry of one configuration, or says all that is wrong with it.
func New(ctx context.Context, cfg Config, deps Deps) (*Registry, error) {
	r := &Registry{
		deps: deps, issuer: cfg.Issuer, fixed: map[string]*entry[client.Client]{}, apis: map[string]*entry[client.APIClient]{},
		scopes: map[string]client.Scope{}, checks: newSecretChecks(deps),
		declared: map[string]Provider{client.DefaultProvider: {ID: client.DefaultProvider}},
		trusted:  outbound.New(true), untrusted: cmp.Or(deps.HTTP, outbound.New(false, cfg.OutboundAllow...)),
		failures: rate.NewLimiter(failureEventsPerSecond, failureEventsBurst),
	}
	r.acceptances, r.plans = cfg.Acceptances, cfg.Plans
	r.docs = cimd.New(cfg.Documents, r.untrusted, deps.Now)
	r.asked = slices.Clone(documentScopes)
	r.resources = slices.Clone(cfg.Resources)
	for _, resource := range cfg.Resources {
		r.sites, r.asked = append(r.sites, resource.URI), append(r.asked, resource.Scopes...)
	}
	var p client.Problems
	r.declareProviders(cfg.Providers, &p)
	if err := r.loadProviders(ctx); err != nil {
		return nil, err
	}
	r.declareClients(cfg, &p)
	if err := r.checkStored(ctx, &p); err != nil {
		return nil, err
	}
	if err := p.Join(); err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	return r, nil
}

// Check returns all that is wrong with a configuration and that is known without its storage.
func Check(cfg Config) []error {
	r := &Registry{
		deps: Deps{Passwords: true}, fixed: map[string]*entry[client.Client]{}, apis: map[string]*entry[client.APIClient]{},
		scopes: map[string]client.Scope{}, declared: map[string]Provider{client.DefaultProvider: {ID: client.DefaultProvider}},
	}
	var p client.Problems
	r.declareProviders(cfg.Providers, &p)
	r.declareClients(cfg, &p)
	return p
}

func (r *Registry) declareProviders(providers []Provider, p *client.Problems) {
	for _, provider := range providers {
		p.AddErr(provider.Validate())
		if _, ok := r.declared[provider.ID]; ok {
			p.Addf("idp %q is declared twice", provider.ID)
		}
		r.declared[provider.ID] = provider
	}
	r.providers.Store(&providerSet{byID: r.declared})
}

// declareClients takes over scopes, clients and trusted issuers, and adds what is wrong with them.
func (r *Registry) declareClients(cfg Config, p *client.Problems) {
	for _, sc := range cfg.Scopes {
		p.AddErr(sc.Validate())
		if _, ok := r.scopes[sc.Name]; ok {
			p.Addf("scope %q is declared twice", sc.Name)
		}
		r.scopes[sc.Name] = sc
	}
	var err error
	r.details, err = rar.New(cfg.Details)
	p.AddErr(err)
	for _, c := range cfg.Clients {
		p.AddErr(c.Validate())
		p.AddErr(r.checkDetails(c))
		if r.fixed[c.ID] != nil {
			p.Addf("client %q is declared twice", c.ID)
		}
		if c.HasGrant(client.GrantPassword) && !r.deps.Passwords {
			p.Addf("client %q: grants: password: passwords are not checked here", c.ID)
		}
		p.AddErr(r.checkProviders(c))
		r.fixed[c.ID] = &entry[client.Client]{client: r.complete(c)}
		if r.checks != nil {
			r.fixed[c.ID].credential = r.checks.credential("client", c.ID, c.Secrets, c.SecretHashes)
		}
	}
	for _, c := range cfg.APIClients {
		p.AddErr(c.Validate())
		if r.apis[c.ID] != nil {
			p.Addf("api_client %q is declared twice", c.ID)
		}
		r.apis[c.ID] = &entry[client.APIClient]{client: c}
		if r.checks != nil {
			r.apis[c.ID].credential = r.checks.credential("api_client", c.ID, c.Secrets, c.SecretHashes)
		}
	}
	r.workloads, err = workload.New(cfg.Issuer, cfg.Trusted, cfg.OutboundAllow, r.deps.Now)
	p.AddErr(err)
	r.checkWorkloads(cfg.Trusted, p)
}

// complete returns a copy of a client with its defaults and what this registry knows of it.
func (r *Registry) complete(c *client.Client) *client.Client {
	full := c.WithDefaults()
	full.AccessTokenAlg = c.SignsTokensWith()
	full.Sites = r.sites
	return full
}

// AskedAlgorithms are those that clients of the configuration ask for. Some can be empty.
func (r *Registry) AskedAlgorithms() (out []string) {
	for _, reg := range r.fixed {
		out = append(out, reg.client.AskedAlgorithms()...)
	}
	for _, reg := range r.apis {
		out = append(out, reg.client.IntrospectionAlg)
	}
	return out
}

// ask has keys made for what an operator adds or changes.
func (r *Registry) ask(ctx context.Context, c *client.Client) error {
	if r.deps.Ask == nil {
		return nil
	}
	return r.deps.Ask(ctx, c.AskedAlgorithms()...)
}

// checkStored finds ids of the configuration that are stored too.
func (r *Registry) checkStored(ctx context.Context, p *client.Problems) error {
	err := r.deps.Store.View(ctx, func(tx storage.Tx) error {
		for id := range r.fixed {
			if ok, err := clients.Has(tx, id); err != nil {
				return err
			} else if ok {
				p.Addf("client %q is in the configuration and was added by command too: rename or remove one", id)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read stored clients: %w", err)
	}
	return nil
}

// Get returns a client with its defaults filled in, or storage.ErrNotFound. It can be disabled. It must not be changed.
func (r *Registry) Get(ctx context.Context, id string) (*client.Client, error) {
	reg, err := r.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if reg == nil {
		return nil, storage.ErrNotFound
	}
	return reg.client, nil
}

// Find is Get in a transaction, for callers to whom an unknown client is not an error.
func (r *Registry) Find(tx storage.Tx, id string) (c *client.Client, found bool, err error) {
	reg, err := r.read(tx, id)
	if err != nil || reg == nil {
		return nil, false, err
	}
	return reg.client, true, nil
}

// read returns a client with its credential, or nil when there is no client of this id.
func (r *Registry) read(tx storage.Tx, id string) (*entry[client.Client], error) {
	if reg := r.fixed[id]; reg != nil {
		return reg, nil
	}
	if client.CheckID(id) != nil {
		return nil, nil //nolint:nilnil // documented above
	}
	rec, found, err := clients.Find(tx, id)
	if err == nil && !found && r.docs.Takes(id) {
		return r.readDocument(tx, id)
	}
	if err != nil || !found {
		return nil, err
	}
	return r.parse(id, rec)
}

// Declares reports whether the configuration has a client.
func (r *Registry) Declares(id string) bool { return r.fixed[id] != nil }

// Scope returns what the operator said about a scope; zero: nothing.
func (r *Registry) Scope(name string) client.Scope { return r.scopes[name] }

// HTTPClient returns what makes requests to a client. Addresses in the configuration are trusted; those of a client
// that was added by command must be public.
func (r *Registry) HTTPClient(c *client.Client) *http.Client {
	if r.Declares(c.ID) {
		return r.trusted
	}
	return r.untrusted
}

// update is Store.Update whose failures are 503: no one knows what was written.
func (r *Registry) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(r.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (r *Registry) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(r.deps.Store.View(ctx, fn))
}

func (r *Registry) now() time.Time { return r.deps.Now().UTC() }

// parse returns the stored client, whose JSON is read once as long as it stays the same.
func (r *Registry) parse(id string, rec clientRecord) (*entry[client.Client], error) {
	return r.stored.get(id, rec, func(c *client.Client) *entry[client.Client] {
		full := r.complete(c)
		if rec.Registered {
			r.limit(full)
		}
		return &entry[client.Client]{client: full, credential: r.checks.credential("client", c.ID, nil, c.SecretHashes)}
	})
}

// findWithEpoch returns a client and its epoch; nil: the client is unknown.
func (r *Registry) findWithEpoch(tx storage.Tx, id string) (c *client.Client, epoch int64, err error) {
	c, found, err := r.Find(tx, id)
	if err != nil || !found {
		return nil, 0, err
	}
	state, _, err := clientStates.Find(tx, id)
	return c, state.Epoch, err
}

// EpochKeys returns the keys of what DecodeWithEpoch reads, for one GetMany together with other records.
func (r *Registry) EpochKeys(id string) [][]byte {
	if r.fixed[id] != nil {
		return [][]byte{clientStates.Key(id)}
	}
	if r.docs.Takes(id) {
		return [][]byte{clientStates.Key(id), clients.Key(id), documents.Key(id)}
	}
	return [][]byte{clientStates.Key(id), clients.Key(id)}
}

// DecodeWithEpoch is findWithEpoch for values that GetMany has read of EpochKeys.
func (r *Registry) DecodeWithEpoch(id string, values [][]byte) (c *client.Client, epoch int64, err error) {
	if values[0] != nil {
		state, err := clientStates.Decode(values[0])
		if err != nil {
			return nil, 0, err
		}
		epoch = state.Epoch
	}
	if reg := r.fixed[id]; reg != nil {
		return reg.client, epoch, nil
	}
	if values[1] == nil && len(values) > 2 && values[2] != nil {
		rec, err := documents.Decode(values[2])
		if err != nil {
			return nil, epoch, err
		}
		reg, err := r.parseDocument(id, rec)
		if err != nil {
			return nil, epoch, err
		}
		return reg.client, epoch, nil
	}
	if values[1] == nil {
		return nil, epoch, nil
	}
	rec, err := clients.Decode(values[1])
	if err != nil {
		return nil, epoch, err
	}
	reg, err := r.parse(id, rec)
	if err != nil {
		return nil, epoch, err
	}
	return reg.client, epoch, nil
}

// parseCache keeps parsed clients as long as their stored JSON stays the same.
type parseCache struct {
	mu sync.Mutex // guards of
	of map[string]parseCacheEntry
}

type parseCacheEntry struct {
	raw []byte
	reg *entry[client.Client]
}

func (p *parseCache) get(id string, rec clientRecord, build func(*client.Client) *entry[client.Client]) (*entry[client.Client], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.of[id]; ok && bytes.Equal(e.raw, rec.Client) {
		return e.reg, nil
	}
	c := new(client.Client)
	if err := json.Unmarshal(rec.Client, c); err != nil {
		return nil, fmt.Errorf("%w: client %q: %w", storage.ErrCorrupt, id, err)
	}
	reg := build(c)
	if p.of == nil || len(p.of) >= maxParsed {
		p.of = map[string]parseCacheEntry{}
	}
	p.of[id] = parseCacheEntry{bytes.Clone(rec.Client), reg}
	return reg, nil
}

// credential is the stored value that the secret of a client is compared with.
type credential struct {
	kind, id string
	sums     [][]byte // keyed hashes
	phcs     []string
}

// secretChecks compares secrets. They are random, so a keyed hash is sufficient and costs microseconds. An imported
// hash in PHC form is slow once; then its keyed hash is remembered.
type secretChecks struct {
	keys   []*secret.MACKey // of each encryption key, the newest first
	name   string           // of the first one
	hasher *secret.Hasher
	slow   *SlowSecrets
	origin func(*http.Request) audit.Origin
	decoy  credential
}

// SlowSecrets lets slow hashes of secrets be computed one at a time, which leaves room for people who sign in, and
// remembers the secrets that were right. Configurations with the same encryption keys can share one.
type SlowSecrets struct {
	lane *secret.Lane

	mu    sync.Mutex // guards known
	known map[string]struct{}
}

// NewSlowSecrets returns one that remembers nothing yet.
func NewSlowSecrets() *SlowSecrets {
	return &SlowSecrets{lane: secret.NewLane(), known: map[string]struct{}{}}
}

const maxKnown = 4096 // remembered successes

func newSecretChecks(deps Deps) *secretChecks {
	c := &secretChecks{hasher: deps.Hasher, slow: deps.SlowSecrets, origin: deps.Origin}
	if c.slow == nil {
		c.slow = NewSlowSecrets()
	}
	for _, key := range deps.Keyring.DeriveAll("gatehouse client secret v1") {
		c.keys = append(c.keys, secret.NewMACKey(key))
	}
	name := c.keys[0].MAC("name of the key")
	c.name = base64.RawURLEncoding.EncodeToString(name[:4])
	c.decoy = credential{sums: [][]byte{make([]byte, client.KeyedHashSize)}}
	return c
}

// credential prepares secrets and hashes. Hashes were validated before.
func (s *secretChecks) credential(kind, id string, secrets []secret.String, hashes []string) credential {
	c := credential{kind: kind, id: id}
	for _, text := range secrets {
		sum := s.keys[0].MAC(kind, id, text.Reveal())
		c.sums = append(c.sums, sum[:])
	}
	for _, h := range hashes {
		if sum, ok := keyedHash(h); ok {
			c.sums = append(c.sums, sum)
		} else {
			c.phcs = append(c.phcs, h)
		}
	}
	return c
}

// check reports whether text is one of the client's secrets. An unknown client is compared with the decoy, which no
// secret equals. An error is a failure, not a verdict.
func (s *secretChecks) check(req *http.Request, c credential, kind, id, text string) (bool, error) {
	ok := 0
	for _, key := range s.keys {
		sum := key.MAC(kind, id, text)
		for _, want := range c.sums {
			ok |= compare(sum[:], want)
		}
	}
	if ok == 1 || len(c.phcs) == 0 {
		return ok == 1, nil
	}
	if s.hasher == nil {
		return false, errors.New("no hasher for secrets in PHC form")
	}
	for _, phc := range c.phcs {
		memory := s.keys[0].MAC(kind, id, text, phc)
		if good, err := s.checkSlow(req, phc, text, string(memory[:])); err != nil || good {
			return good, err
		}
	}
	return false, nil
}

// checkSlow computes a slow hash, unless its success is remembered under memory. A flood of wrong secrets keeps only
// the network that it comes from waiting.
func (s *secretChecks) checkSlow(req *http.Request, phc, text, memory string) (bool, error) {
	if s.slow.remembers(memory) {
		return true, nil
	}
	ctx := secret.AskedBy(req.Context(), secret.LineOf(s.origin(req).ClientIP), nil)
	leave, err := s.slow.lane.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if s.slow.remembers(memory) { // computed meanwhile
		return true, nil
	}
	good, _, err := s.hasher.Verify(ctx, phc, text)
	if good {
		s.slow.remember(memory)
	}
	return good, err
}

func (s *SlowSecrets) remembers(sum string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[sum]
	return ok
}

func (s *SlowSecrets) remember(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[sum] = struct{}{}
}
