// Package authz is an OAuth 2.0 authorization server and OpenID provider over plain net/http and storage. It signs no
// one in itself: it asks an Authenticator, and reads people through Subjects. Clients, tokens and keys have packages of
// their own.
//
// The documents that it implements: the token server document, RFC 6749, 6750, 7009, 7636, 7662, 8414, 8707, 9068,
// 9207, OpenID Connect Core, Discovery, RP-Initiated Logout, Back-Channel Logout, Front-Channel Logout.
package authz

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/dcr"
	"github.com/gatehouse-id/gatehouse/authz/device"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/exchange"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/idjag"
	"github.com/gatehouse-id/gatehouse/authz/jar"
	"github.com/gatehouse-id/gatehouse/authz/jwtresponse"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/logout"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/par"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/authz/sitesession"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Authenticator signs people in. identity implements it.
type Authenticator interface {
	// Authenticate returns the browser's sign-in when it satisfies d. Otherwise it redirects the browser to a page that
	// leads back to d.Return and returns authn.ErrResponded, or returns a *authn.Refusal. Any other error is a failure,
	// not a verdict.
	Authenticate(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error)
	// Current returns the browser's sign-in, or nil when the browser is signed out. It shows no page.
	Current(r *http.Request) (*authn.Result, error)
	// SignOut ends the browser's session, if it has one, and clears its cookie. It writes no answer. via is a path on
	// our origin that signs the browser out at its identity provider too and then redirects to ret; "" when the
	// provider needs no visit.
	SignOut(w http.ResponseWriter, r *http.Request, ret string) (via string, err error)
}

// Subjects reads persons and their sessions inside a transaction. identity implements it.
type Subjects interface {
	token.Subjects
	grant.Subjects
	sitesession.Subjects
	exchange.Subjects
	idjag.Subjects

	// Sessions returns the live sessions of a person, the oldest first.
	Sessions(tx storage.Tx, subject string, now time.Time) ([]authn.Session, error)
	// StoredSessions returns the ids of the sessions of a person, those included that do not count now, such as that by a
	// provider that is disabled.
	StoredSessions(tx storage.Tx, subject string) ([]string, error)
	// CloseSession ends a session of a person, or returns storage.ErrNotFound when the person has no such session.
	CloseSession(tx storage.Tx, subject, id string) error
	// GroupExists reports whether there is a group of a name, as Get names them.
	GroupExists(tx storage.Tx, name string) (bool, error)
}

// Config is the operator's configuration. It must not change after New.
type Config struct {
	Issuer     string // no trailing slash
	Clients    []*client.Client
	APIClients []*client.APIClient
	Scopes     []client.Scope
	// Details are the types of authorization details (RFC 9396).
	Details []rar.Type
	// Plans are the names of the plans that clients can have.
	Plans []string
	// Resources are the sites that tokens can be meant for, for clients without audiences.
	Resources []client.Resource
	// Acceptances are the ways in which tokens open the sites of the configuration.
	Acceptances []client.Acceptance
	// Documents says which metadata documents of clients are fetched.
	Documents cimd.Config
	// Trusted are other issuers whose tokens authenticate clients.
	Trusted []workload.Rule
	// Registration says which clients can register themselves.
	Registration dcr.Config
	Providers    []clientstore.Provider // besides identity, which always exists, and those of Deps.Providers
	// Partitioned says that persons are kept in partitions.
	Partitioned bool
	// SiteOrigins are the origins of the sites that declare login, the only places that a site flow returns to.
	SiteOrigins []string
	// AppPasswordSites are the sites that accept app passwords.
	AppPasswordSites []apppassword.Site
	// PARRequired says that each authorization request is pushed (RFC 9126).
	PARRequired bool
	// CertificateEndpoints is the origin at which clients with a certificate find the endpoints (RFC 8705 5). Empty: the
	// issuer.
	CertificateEndpoints string
	// Signals says whether receivers of shared signals are told about events of people, and about which people.
	Signals ssf.Config
	// OutboundAllow are networks besides public ones to which addresses of clients that were added by command can lead.
	OutboundAllow []netip.Prefix
	// Signatures are algorithms that sites ask for.
	Signatures []string
}

// Deps are the dependencies of the server. Store, Keys, Keyring, Auth, Subjects and Pages are required.
type Deps struct {
	Store   storage.Store
	Keys    *keys.Keys // signing keys, shared by the servers of one store
	Keyring *secret.Keyring
	Hasher  *secret.Hasher // for client secrets in PHC form
	// SlowSecrets remembers which of those were right. nil: each server begins with none.
	SlowSecrets *clientstore.SlowSecrets
	Events      *audit.Recorder
	Auth        Authenticator
	Subjects    Subjects
	// Passwords is for the password grant. nil: a client with that grant is an error.
	Passwords grant.Passwords
	// Providers returns the current providers. nil: only those of the configuration exist.
	Providers clientstore.Providers
	Pages     *web.Renderer
	// Unlinked is called in the transaction in which a known client loses all access that a person had given to it. An
	// error undoes the transaction. nil: nothing is called.
	Unlinked func(tx storage.Tx, u authn.Unlinked) error
	// AppPasswords reports whether the settings allow app passwords. nil: they do.
	AppPasswords func(tx storage.Tx) (bool, error)
	// Experimental reports whether the settings offer experimental features: verified claims. nil: they do not.
	Experimental func(tx storage.Tx) (bool, error)
	// AfterLogout returns the page after a sign-out that no client asked for, or "" for our own page. nil: always our
	// own page.
	AfterLogout func(ctx context.Context) (string, error)
	// Origin says where a request came from. Default: its peer address.
	Origin func(*http.Request) audit.Origin
	// Certificate returns the certificate whose private key the sender of a request has proved to hold, or nil. An error
	// is a verdict. nil: no one has one.
	Certificate func(*http.Request) (*certificate.Presented, error)
	// Called notes that an API client has called from an address. nil: nothing is noted.
	Called func(apiClient, address string)
	// OrganisationOf returns the id of the organisation that an API client belongs to, or "". nil: none belongs to any.
	OrganisationOf func(ctx context.Context, apiClient string) (string, error)
	// ClientCalled notes that a client has shown who it is, from an address. nil: nothing is noted.
	ClientCalled func(client, address string)
	// Admit counts a stored request of a stranger, of size bytes, and returns false when the sender has too many. Default:
	// always true.
	Admit func(r *http.Request, size int) bool
	// UsedProofs knows which DPoP proofs were used at resources. nil: each use is written before the answer.
	UsedProofs *dpop.Memory
	// HTTP makes requests to addresses that the operator has not written. Default: to public ones alone, and those of
	// OutboundAllow.
	HTTP *http.Client
	// Refusals stores the reasons of refusals. nil: they are only logged.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Server is the authorization server. It is safe for concurrent use.
type Server struct {
	deps    Deps
	cfg     Config
	clients *clientstore.Registry
	proofs  *dpop.Proofs
	jar     cookie.Jar
	mux     http.Handler
	panics  atomic.Int64
	sites   map[string]bool
	visits  *logout.Visits
	tokens  *token.Ledger
	// siteSessions are those of browsers at protected sites.
	siteSessions *sitesession.Sessions
	savedForms   *savedforms.Forms
	registered   *dcr.Service
	personal     *apppassword.Passwords
	grants       *grant.Grants
	devices      *device.Service
	pushed       *par.Requests
	upstream     *exchange.Upstream
	objects      *jar.Objects
	envelopes    *jwtresponse.Envelopes
	signals      *ssf.Service
}

// New returns a server for one configuration. Several can share one store, such as during a reload.
func New(ctx context.Context, cfg Config, deps Deps) (*Server, error) {
	if deps.Store == nil || deps.Keys == nil || deps.Keyring == nil || deps.Auth == nil || deps.Subjects == nil || deps.Pages == nil {
		return nil, errors.New("authz: Store, Keys, Keyring, Auth, Subjects and Pages are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.Events == nil {
		deps.Events = &audit.Recorder{Random: deps.Random, Now: deps.Now}
	}
	if deps.Origin == nil {
		deps.Origin = audit.PeerOrigin
	}
	if deps.Admit == nil {
		deps.Admit = func(*http.Request, int) bool { return true }
	}
	s := &Server{deps: deps, cfg: cfg, jar: cookie.For(cfg.Issuer), sites: map[string]bool{}}
	for _, o := range cfg.SiteOrigins {
		s.sites[o] = true
	}
	var err error
	s.clients, err = clientstore.New(ctx, cfg.registry(), clientstore.Deps{
		Store: deps.Store, Keyring: deps.Keyring, Hasher: deps.Hasher, SlowSecrets: deps.SlowSecrets,
		Events: deps.Events, Passwords: deps.Passwords != nil,
		Providers: deps.Providers, HTTP: deps.HTTP, Origin: deps.Origin, Certificate: deps.Certificate, Called: deps.Called,
		ClientCalled: deps.ClientCalled, GroupExists: deps.Subjects.GroupExists, OrganisationOf: deps.OrganisationOf, Ask: deps.Keys.Ask,
		Log: deps.Log, Now: deps.Now, Random: deps.Random,
	})
	if err != nil {
		return nil, err
	}
	if err := deps.Keys.Ask(ctx, append(s.clients.AskedAlgorithms(), cfg.Signatures...)...); err != nil {
		return nil, fmt.Errorf("authz: signing keys: %w", err)
	}
	s.tokens, err = token.New(ctx, cfg.Issuer, token.Deps{
		Store: deps.Store, Keys: deps.Keys, Keyring: deps.Keyring, Events: deps.Events, Subjects: deps.Subjects, Clients: s.clients,
		Now: deps.Now, Random: deps.Random, Verified: deps.Experimental,
	})
	if err != nil {
		return nil, fmt.Errorf("authz: %w", err)
	}
	s.visits = logout.New(cfg.Issuer, logout.Deps{
		Store: deps.Store, Keys: deps.Keys, Clients: s.clients, Tokens: s.tokens, Log: deps.Log, Now: deps.Now, Random: deps.Random,
	})
	s.siteSessions = sitesession.New(sitesession.Deps{
		Store: deps.Store, Tokens: s.tokens, Subjects: deps.Subjects,
		Devices: dbsc.NewGuard(deps.Random, deps.Keyring.DeriveAll("gatehouse device at a site v1")...),
		Log:     deps.Log, Now: deps.Now,
	})
	s.savedForms = savedforms.New(savedforms.Deps{
		Store: deps.Store, Keyring: deps.Keyring, Sites: s.siteSessions,
		Now: deps.Now, Random: deps.Random,
	})
	s.personal = apppassword.New(apppassword.Deps{
		Store: deps.Store, Tokens: s.tokens, Clients: s.clients, Events: deps.Events, Sites: cfg.AppPasswordSites, Allowed: deps.AppPasswords,
		Log: deps.Log, Now: deps.Now, Random: deps.Random,
	})
	s.envelopes = jwtresponse.New(cfg.Issuer, deps.Keys, deps.Now)
	s.proofs = dpop.New(dpop.Deps{Store: deps.Store, Keyring: deps.Keyring, Memory: deps.UsedProofs, Now: deps.Now})
	s.grants = grant.New(cfg.Issuer, grant.Deps{
		Prove: s.prove,
		Store: deps.Store, Clients: s.clients, Tokens: s.tokens, Visits: s.visits, Personal: s.personal, Subjects: deps.Subjects,
		Passwords: deps.Passwords, Envelopes: s.envelopes, Events: deps.Events, Origin: deps.Origin, Log: deps.Log,
		Now: deps.Now, Random: deps.Random,
	})
	s.devices = device.New(cfg.Issuer, device.Deps{
		Store: deps.Store, Auth: deps.Auth, Clients: s.clients, Tokens: s.tokens, Grants: s.grants, Events: deps.Events, Pages: deps.Pages,
		SignedIn: s.checkSignedIn, Needs: deps.Subjects.Needs, FailPage: s.failPage, Admit: deps.Admit,
		Origin: deps.Origin, Now: deps.Now,
		Record: func(r *http.Request, err error) { s.record(r, oauth.AsError(err)) }, Random: deps.Random,
	})
	if s.clients.TakesIdentities() {
		idjag.Serve(idjag.Deps{Store: deps.Store, Clients: s.clients, Tokens: s.tokens, Grants: s.grants, Subjects: deps.Subjects})
	}
	exchanges := exchange.Deps{
		Issuer: cfg.Issuer, Keys: deps.Keys, Transactions: transaction.New(cfg.Issuer, deps.Keys, deps.Now, deps.Random),
		Events: deps.Events, Store: deps.Store, Clients: s.clients,
		Tokens: s.tokens, Grants: s.grants, Subjects: deps.Subjects,
	}
	exchange.Serve(exchanges)
	s.upstream = exchange.NewUpstream(exchanges, deps.Now)
	s.pushed = par.New(par.Deps{
		Store: deps.Store, Clients: s.clients, Check: s.checkPush, Bind: s.bindPush, Admit: deps.Admit,
		Now: deps.Now, Random: deps.Random,
	})
	s.objects = jar.New(cfg.Issuer, s.clients, deps.Now)
	s.registered = dcr.New(cfg.Issuer, cfg.Registration, dcr.Deps{
		Clients: s.clients, Tokens: s.tokens, Signs: deps.Keys.Signs, Origin: deps.Origin, Now: deps.Now, Random: deps.Random,
	})
	s.signals = ssf.New(cfg.Issuer, cfg.Signals, ssf.Deps{
		Store: deps.Store, Keys: deps.Keys, Keyring: deps.Keyring, Clients: s.clients, Tokens: s.tokens,
		Subjects: deps.Subjects, Events: deps.Events,
		Origin: deps.Origin, HTTP: cmp.Or(deps.HTTP, outbound.New(false, cfg.OutboundAllow...)), Log: deps.Log.Named("signals"),
		Now: deps.Now, Random: deps.Random,
	})
	s.mux = s.routes()
	return s, nil
}

// registry returns the configuration of clients.
func (c *Config) registry() clientstore.Config {
	return clientstore.Config{
		Issuer: c.Issuer, Clients: c.Clients, APIClients: c.APIClients, Scopes: c.Scopes, Details: c.Details, Plans: c.Plans,
		Resources:   c.Resources,
		Acceptances: c.Acceptances, Documents: c.Documents, Trusted: c.Trusted, Providers: c.Providers, OutboundAllow: c.OutboundAllow,
	}
}

// Check returns the errors of New for a configuration that can be found without the storage.
func (c *Config) Check() []error { return clientstore.Check(c.registry()) }

// SavedForms returns the forms that wait for a sign-in at a site.
func (s *Server) SavedForms() *savedforms.Forms { return s.savedForms }

// ServeHTTP answers the paths of routes.go and 404 for others.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }
