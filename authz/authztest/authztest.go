// Package authztest is a running authorization server for tests: on HTTP, with a store in memory, a clock that stands
// still, people who sign in by a button, and browsers that keep cookies.
package authztest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/keys/keystest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// Start is the time at which the clock of every harness begins. It lies ahead so that storage, which can use the real
// time, collects nothing.
var Start = time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC)

// Verifier and Challenge are a PKCE pair (RFC 7636 appendix B).
const (
	Verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	Challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// Harness is one server with its dependencies.
type Harness struct {
	T       testing.TB
	Issuer  string
	Store   *FaultyStore
	Clock   *Clock
	People  *People
	Keys    *keys.Keys
	Keyring *secret.Keyring
	Config  authz.Config
	// Client sends requests without cookies and without following redirects.
	Client *http.Client

	server       atomic.Pointer[authz.Server]
	deps         authz.Deps
	dynamic      clientstore.Providers
	experimental func(storage.Tx) (bool, error)
	unlinked     func(storage.Tx, authn.Unlinked) error
	http         *http.Client
	admit        func(*http.Request, int) bool
	clientCalled func(id, address string)
	called       func(id, address string)
	// addresses says that requests name theirs.
	addresses bool
	// certificate returns that of a request. nil: no one has one.
	certificate func(*http.Request) (*certificate.Presented, error)
	log         *syncBuffer
	watch       *watcher
	canaries    canaries
	sweep       func(context.Context) (int, error)
}

// Option changes a harness before it starts.
type Option func(*Harness)

// WithConfig changes the configuration, which holds World beforehand.
func WithConfig(f func(*authz.Config)) Option { return func(h *Harness) { f(&h.Config) } }

// WithClients adds clients.
func WithClients(clients ...*client.Client) Option {
	return WithConfig(func(c *authz.Config) { c.Clients = append(c.Clients, clients...) })
}

// WithProviders adds identity providers that come and go.
func WithProviders(p clientstore.Providers) Option { return func(h *Harness) { h.dynamic = p } }

// WithExperiments offers experimental features.
func WithExperiments() Option {
	return func(h *Harness) { h.experimental = func(storage.Tx) (bool, error) { return true, nil } }
}

// WithUnlinked sets Deps.Unlinked.
func WithUnlinked(f func(storage.Tx, authn.Unlinked) error) Option {
	return func(h *Harness) { h.unlinked = f }
}

// WithAdmission sets Deps.Admit.
func WithAdmission(f func(r *http.Request, size int) bool) Option {
	return func(h *Harness) { h.admit = f }
}

// WithAddresses lets a request say where it comes from, in the header X-Test-Address.
func WithAddresses() Option { return func(h *Harness) { h.addresses = true } }

// WithCertificates finds the certificates of requests.
func WithCertificates(of func(*http.Request) (*certificate.Presented, error)) Option {
	return func(h *Harness) { h.certificate = of }
}

// WithCalls notes the calls of clients and of API clients.
func WithCalls(client, api func(id, address string)) Option {
	return func(h *Harness) { h.clientCalled, h.called = client, api }
}

// WithHTTP fetches the metadata documents of clients by this client.
func WithHTTP(c *http.Client) Option { return func(h *Harness) { h.http = c } }

// WithStore uses this store instead of one in memory. The test closes it.
func WithStore(store storage.Store) Option {
	return func(h *Harness) { h.Store = &FaultyStore{Store: store} }
}

// New starts a server that ends with the test.
func New(t testing.TB, opts ...Option) *Harness {
	t.Helper()
	h := &Harness{T: t, Clock: NewClock(), Config: World(), log: &syncBuffer{}, watch: &watcher{}}
	h.People = newPeople(h.Clock)
	web := httptest.NewServer(h.handler())
	t.Cleanup(web.Close)
	h.Issuer, h.Config.Issuer = web.URL, web.URL
	h.Client = &http.Client{
		Transport:     web.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, o := range opts {
		o(h)
	}
	if h.Store == nil {
		store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = h.Clock.Now })
		h.must(err)
		t.Cleanup(func() { h.must(store.Close()) })
		h.Store, h.sweep = &FaultyStore{Store: storagetest.Closures(t, store)}, store.Sweep
	}
	h.makeDeps()
	h.People.store = h.Store.Store
	h.People.ended = func(person, session string) error {
		return h.Store.Update(h.T.Context(), func(tx storage.Tx) error { return h.Server().SessionEnded(tx, person, session) })
	}
	h.Restart(nil)
	h.canaries = h.newCanaries()
	return h
}

func (h *Harness) makeDeps() {
	h.T.Helper()
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), h.log, zapcore.DebugLevel))
	var err error
	h.Keyring, err = secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	h.must(err)
	h.must(keystest.Plant(h.Store.Store, h.Keyring, NewClock().Now))
	h.Keys, err = keys.New(h.T.Context(), h.Store.Store, h.Keyring, h.Clock.Now, nil, log)
	h.must(err)
	pages, err := web.New(web.Config{Issuer: h.Issuer, Key: h.Keyring.Derive("csrf"), Log: log})
	h.must(err)
	h.deps = authz.Deps{
		Store: h.Store, Keys: h.Keys, Keyring: h.Keyring, Hasher: secret.NewHasher(secret.HashCost{MemoryKiB: 64, Iterations: 1, Concurrency: 2}),
		Auth: h.People, Subjects: h.People, Passwords: h.People, Providers: h.dynamic, Unlinked: h.unlinked, Experimental: h.experimental,
		HTTP: h.http, Certificate: h.certificate,
		ClientCalled: h.clientCalled, Admit: h.admit, Called: h.called, Pages: pages, Log: log, Now: h.Clock.Now,
	}
	if h.addresses {
		h.deps.Origin = func(r *http.Request) audit.Origin { return audit.Origin{ClientIP: r.Header.Get("X-Test-Address")} }
	}
	h.deps.Events = &audit.Recorder{Random: rand.Reader, Now: h.Clock.Now}
}

// Server returns the server that answers now.
func (h *Harness) Server() *authz.Server { return h.server.Load() }

// Move makes the server another node of the store, which numbers its events in this lane.
func (h *Harness) Move(lane int) {
	h.T.Helper()
	h.deps.Events = &audit.Recorder{Random: rand.Reader, Now: h.Clock.Now, Lane: func() int { return lane }}
	h.Restart(nil)
}

// Restart replaces the server by a new one on the same store, as a restart or reload does. change can be nil.
func (h *Harness) Restart(change func(*authz.Config)) {
	h.T.Helper()
	if change != nil {
		change(&h.Config)
	}
	s, err := authz.New(h.T.Context(), h.Config, h.deps)
	h.must(err)
	h.server.Store(s)
}

// SealWith restarts the server with encryption keys, each made of one byte. The first key seals; that of a new harness
// is 7. Signing keys stay those that were opened at the beginning.
func (h *Harness) SealWith(keys ...byte) {
	h.T.Helper()
	var all [][]byte
	for _, b := range keys {
		all = append(all, bytes.Repeat([]byte{b}, secret.KeySize))
	}
	var err error
	h.Keyring, err = secret.NewKeyring(all...)
	h.must(err)
	h.deps.Keyring = h.Keyring
	h.Restart(nil)
}

func (h *Harness) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == buttonPath {
			h.People.button(w, r)
			return
		}
		h.watch.around(h.server.Load(), w, r)
	})
}

func (h *Harness) must(err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

// Sweep removes the records that have expired by the harness's clock, as storage does every few minutes. The store must
// be the harness's own.
func (h *Harness) Sweep() {
	h.T.Helper()
	_, err := h.sweep(h.T.Context())
	h.must(err)
}

// Log returns everything logged so far.
func (h *Harness) Log() string { return h.log.String() }

// World is the configuration of every harness: clients for each kind of case. Their secrets are those of Secret.
func World() authz.Config {
	confidential := func(id string, grants ...string) *client.Client {
		return &client.Client{
			ID: id, Name: "The " + id, Secrets: []secret.String{secret.New(Secret(id))},
			RedirectURIs:           []string{"https://" + id + ".example.com/callback"},
			PostLogoutRedirectURIs: []string{"https://" + id + ".example.com/"}, Grants: grants, Consent: "off",
			Scopes: []string{"openid", "profile", "email", "address", "phone", "orders.read", "orders.write"}, DefaultScopes: []string{"openid"},
			Audiences: []string{"https://api.example.com"},
		}
	}
	public := func(id string, uris ...string) *client.Client {
		return &client.Client{
			ID: id, Public: true, RedirectURIs: uris, Grants: []string{"authorization_code", "refresh_token"}, Consent: "off",
			Scopes: []string{"openid", "profile", "email"}, DefaultScopes: []string{"openid"},
		}
	}
	asks := confidential("asks", "authorization_code", "refresh_token")
	asks.Consent = "on"
	disabled := confidential("disabled", "authorization_code", "refresh_token")
	disabled.Disabled = true
	two := confidential("two", "authorization_code")
	two.RedirectURIs = append(two.RedirectURIs, "https://two.example.com/other")
	reports := confidential("reports", "client_credentials")
	reports.RedirectURIs, reports.PostLogoutRedirectURIs = nil, nil
	reports.Scopes, reports.DefaultScopes = []string{"reports.read", "orders.read", "secure.read"}, []string{"reports.read"}
	post := confidential("poster", "authorization_code", "refresh_token", "client_credentials")
	post.AuthMethod = "post"
	other := confidential("other", "authorization_code", "refresh_token")
	other.Lifetimes.AccessToken = 366 * 24 * time.Hour // its canary outlives any change of the clock
	rs := confidential("rs", "validate_bearer")
	rs.RedirectURIs, rs.PostLogoutRedirectURIs = nil, nil
	legacy := confidential("legacy", "password", "refresh_token")
	fragment := public("fragment", "https://fragment.example.com/callback")
	fragment.Grants, fragment.Scopes, fragment.Audiences = []string{"implicit"}, []string{"openid", "profile", "orders.read"},
		[]string{"https://api.example.com"}
	jwt := confidential("jwt", "authorization_code", "refresh_token", "client_credentials")
	jwt.TokenFormat = "jwt"
	phone := public("phone", "com.example.app:/cb")
	phone.App = &client.App{Identifier: "com.example.app", Platform: "android", Version: "4.2.0"}
	return authz.Config{
		Clients: []*client.Client{
			confidential("shop", "authorization_code", "refresh_token"), other, asks, disabled, two, reports, post, rs, legacy, fragment, jwt, phone,
			public("spa", "https://spa.example.com/"),
			public("native", "http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb"),
		},
		APIClients: []*client.APIClient{
			{ID: "ops", Secrets: []secret.String{secret.New(Secret("ops"))}, APIs: []string{"introspection"}},
			{ID: "auditor", Secrets: []secret.String{secret.New(Secret("auditor"))}, APIs: []string{"events"}},
			{ID: "registrar", Secrets: []secret.String{secret.New(Secret("registrar"))}, APIs: []string{"persons"}},
			{
				ID: "narrow", Secrets: []secret.String{secret.New(Secret("narrow"))}, APIs: []string{"introspection"},
				Audiences: []string{"https://narrow.example.com"},
			},
		},
		Scopes: []client.Scope{
			{Name: "orders.read", Description: "Read your orders"}, {Name: "secure.read", Description: "Read what is secret", Level: 2},
		},
		SiteOrigins: []string{"https://wiki.example.com", "https://files.example.com"},
	}
}

// Secret is the secret of a client or API client of World.
func Secret(id string) string {
	sum := sha256.Sum256([]byte("secret of " + id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Clock is a clock that only Advance moves.
type Clock = clocktest.Clock

// NewClock returns a clock that shows Start.
func NewClock() *Clock { return clocktest.New(Start) }

// FaultyStore is a store that fails on demand.
type FaultyStore struct {
	storage.Store

	failing, updates atomic.Pointer[error]
}

// Fail makes every transaction return err, until it is called with nil.
func (s *FaultyStore) Fail(err error) {
	if err == nil {
		s.failing.Store(nil)
		return
	}
	s.failing.Store(&err)
	touch(s.Store)
}

// FailUpdates makes every Update return err, until it is called with nil. Views go on.
func (s *FaultyStore) FailUpdates(err error) {
	if err == nil {
		s.updates.Store(nil)
		return
	}
	s.updates.Store(&err)
}

// View is Store.View, or the failure.
func (s *FaultyStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.failing.Load(); err != nil {
		return *err
	}
	return s.Store.View(ctx, fn)
}

// Track is Tracker.Track, or the failure. What was read does not hold any more when the store fails or people change.
// If the store is no Tracker, nothing holds.
func (s *FaultyStore) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	if err := s.failing.Load(); err != nil {
		return nil, *err
	}
	t, ok := s.Store.(storage.Tracker)
	if !ok {
		return nil, s.Store.View(ctx, fn)
	}
	return t.Track(ctx, func(tx storage.Tx) error {
		if _, err := touches.Has(tx, ""); err != nil {
			return err
		}
		return fn(tx)
	})
}

// touches has one record, on which all that was read rests.
var touches = storage.NewTable[struct{}]("authztest_touched")

func touch(s storage.Store) {
	if s == nil {
		return
	}
	// A store that is closed has no readers.
	_ = s.Update(context.Background(), func(tx storage.Tx) error { return touches.Put(tx, "", struct{}{}, never) })
}

// Update is Store.Update, or the failure.
func (s *FaultyStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.failing.Load(); err != nil {
		return *err
	}
	if err := s.updates.Load(); err != nil {
		return *err
	}
	return s.Store.Update(ctx, fn)
}

// syncBuffer is a log that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) Sync() error { return nil }

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
