// Package dcr lets clients register themselves (RFC 7591) and manage their registration (RFC 7592), within the
// operator's limits. (docs/decisions/client-authentication.md#dynamic-registration)
package dcr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Who can register.
const (
	Open  = "open"  // everybody
	Token = "token" // who has an access token with Scope
)

// Scope is that of an access token by which a client is registered, where Config says Token.
const Scope = "client.register"

// Path is the path of the registration endpoint.
const Path = "/oauth/register"

// Defaults of Config.
const (
	defaultUnused  = 30 * 24 * time.Hour
	defaultLimit   = 10
	defaultPer     = time.Hour
	defaultClients = 1000
)

const (
	maxBody     = 32 << 10 // bytes of what a client says of itself
	maxDepth    = 8
	maxNetworks = 1 << 14 // that are counted
	idBytes     = 16
	v6Network   = 48
	realm       = `Bearer realm="gatehouse"`
	idParam     = "client_id"
)

var (
	errMany = denial.New(denial.RegistrationLimit, "too many clients were registered from this network")
	errFull = denial.New(denial.RegistrationLimit, "as many clients have registered themselves as registration allows")
)

// Config is the operator's configuration. The zero value of a member but Who is its default.
type Config struct {
	// Who is Open or Token. Empty: no one.
	Who string
	// RedirectHosts are the hosts, and *.example.com for those below, of redirect URIs that lead to the web. Those of this
	// machine and of applications can always be registered. Default: all.
	RedirectHosts []string
	// Schemes are private schemes of redirect URIs besides those that are a domain name turned round. Default: cursor.
	Schemes []string
	// Unused is after what time a client is removed that no one uses. Default: 30 days.
	Unused time.Duration
	// Limit is the maximum number of clients that one network can register in the time Per. Default: 10 in an hour.
	Limit int
	Per   time.Duration
	// Clients is the maximum number of clients that have registered themselves. One that no person has ever signed in to
	// makes room for another after an hour. Default: 1000.
	Clients int
	// Management lets a client read, change and remove its registration.
	Management bool
}

// Deps are the dependencies of registrations. All are required.
type Deps struct {
	Clients *clientstore.Registry
	Tokens  *token.Ledger
	// Signs returns the algorithms that the issuer has keys for. A registration makes none.
	Signs  func() []jose.SignatureAlgorithm
	Origin func(*http.Request) audit.Origin
	Now    func() time.Time
	Random io.Reader
}

// Service registers the clients of one configuration. It is safe for concurrent use.
type Service struct {
	issuer string
	cfg    Config
	deps   Deps

	mu       sync.Mutex // guards all below
	began    time.Time  // of the time that is counted
	networks map[netip.Prefix]int
}

// New returns the registrations of an issuer.
func New(issuer string, cfg Config, deps Deps) *Service {
	setDefault(&cfg.Unused, defaultUnused)
	setDefault(&cfg.Limit, defaultLimit)
	setDefault(&cfg.Per, defaultPer)
	setDefault(&cfg.Clients, defaultClients)
	if cfg.Schemes == nil {
		cfg.Schemes = []string{"cursor"}
	}
	return &Service{issuer: issuer, cfg: cfg, deps: deps, networks: map[netip.Prefix]int{}}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// On reports whether clients can register.
func (s *Service) On() bool { return s.cfg.Who != "" }

// Methods are those of Path.
func (s *Service) Methods() []string {
	if s.cfg.Management {
		return []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete}
	}
	return []string{http.MethodPost}
}

// RemoveUnused removes the clients that no one uses. See clientstore.Registry.RemoveUnused.
func (s *Service) RemoveUnused(ctx context.Context) error {
	return s.deps.Clients.RemoveUnused(ctx, s.cfg.Unused)
}

// Handle serves POST /oauth/register (RFC 7591 3), and with a client_id in the query GET, PUT and DELETE (RFC 7592 2).
func (s *Service) Handle(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return s.manage(w, r)
	}
	if err := s.admit(r); err != nil {
		return err
	}
	m, err := readMetadata(r)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.deps.Random, idBytes)
	if err != nil {
		return oauth.ServerError(err)
	}
	c := client.Client{ID: id}
	if err := s.apply(&c, &m); err != nil {
		return err
	}
	from := s.deps.Origin(r)
	now := s.deps.Now().UTC().Truncate(time.Second)
	if !s.count(from.ClientIP, now) {
		return &oauth.Error{
			Status: http.StatusTooManyRequests, Code: "temporarily_unavailable", Description: "too many clients were registered",
			Cause: errMany, RetryAfter: s.cfg.Per,
		}
	}
	if err := s.use(r); err != nil {
		return err
	}
	reg := clientstore.Registered{Client: c, CreatedAt: now}
	text := ""
	if s.cfg.Management {
		if text, err = secret.NewToken(s.deps.Random, secret.Registration); err != nil {
			return oauth.ServerError(err)
		}
		reg.Token = secret.Hash(text)
	}
	if reg.Metadata, err = json.Marshal(m); err != nil {
		return oauth.ServerError(err)
	}
	secretText, err := s.deps.Clients.Register(r.Context(), reg, s.cfg.Clients, from)
	switch {
	case errors.Is(err, clientstore.ErrFull):
		return oauth.TemporarilyUnavailable(errFull)
	case err != nil:
		return refused(err)
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = id })
	return s.write(w, http.StatusCreated, &registrationResponse{ID: id, IssuedAt: now.Unix(), Secret: secretText, Token: text, metadata: m})
}

// manage reads, changes or removes the registration of the client that the query names. Without the right token no one
// learns anything, not even whether there is such a client.
func (s *Service) manage(w http.ResponseWriter, r *http.Request) error {
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	id := query.Get(idParam)
	text, _ := oauth.Bearer(r)
	if !secret.IsToken(secret.Registration, text) {
		return noToken()
	}
	hash := secret.Hash(text)
	reg, err := s.deps.Clients.FindRegistered(r.Context(), id, hash)
	if err != nil {
		return unknown(err)
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = id })
	var m metadata
	if err := json.Unmarshal(reg.Metadata, &m); err != nil {
		return oauth.ServerError(err)
	}
	switch r.Method {
	case http.MethodDelete:
		if err := s.deps.Clients.Unregister(r.Context(), id, hash, s.deps.Origin(r)); err != nil {
			return unknown(err)
		}
		jsonresponse.Headers(w.Header(), -1)
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
		return nil
	case http.MethodPut:
		if m, err = s.change(r, id, hash, &reg, m.Method); err != nil {
			return err
		}
	}
	return s.write(w, http.StatusOK, &registrationResponse{ID: id, IssuedAt: reg.CreatedAt.Unix(), Token: text, metadata: m})
}

// change replaces what a client has said of itself, all of it (RFC 7592 2.2), by what passes the checks of a
// registration. How it authenticates stays, and so does what an operator has decided: after that no token is right.
func (s *Service) change(r *http.Request, id, hash string, reg *clientstore.Registered, method string) (m metadata, err error) {
	if m, err = readMetadata(r); err != nil {
		return m, err
	}
	switch {
	case m.ID != id:
		return m, invalidMetadata("client_id is not that of the registration")
	case m.Method != "" && m.Method != method:
		return m, invalidMetadata("token_endpoint_auth_method cannot change")
	}
	m.ID, m.Method = "", method
	c := client.Client{ID: id, SecretHashes: reg.Client.SecretHashes}
	if err := s.apply(&c, &m); err != nil {
		return m, err
	}
	c.AuthMethod = reg.Client.AuthMethod
	if c.Sector() != reg.Client.Sector() { // it would learn by which name clients of that host know the people of its tokens
		return m, invalidMetadata("the host of the redirect_uris of a pairwise client cannot change, nor whether it is pairwise")
	}
	said, err := json.Marshal(m)
	if err != nil {
		return m, oauth.ServerError(err)
	}
	if err := s.deps.Clients.Reregister(r.Context(), clientstore.Registered{Client: c, Metadata: said, Token: hash},
		s.deps.Origin(r)); err != nil {
		return m, unknown(refused(err))
	}
	return m, nil
}

// admit holds that the caller can register a client at all.
func (s *Service) admit(r *http.Request) error {
	if s.cfg.Who == Open {
		return nil
	}
	text, _ := oauth.Bearer(r)
	in, err := s.deps.Tokens.Introspect(r.Context(), text)
	switch {
	case err != nil:
		return oauth.StorageError(err)
	case !in.For(token.Confirmation{}).Active, !in.MeantFor(s.issuer): // nothing is proved here
		return noToken()
	case !slices.Contains(in.Scope, Scope):
		return &oauth.Error{
			Status: http.StatusForbidden, Code: "insufficient_scope", Description: "the access token lacks the scope " + Scope,
			Challenge: realm + `, error="insufficient_scope", scope="` + Scope + `"`,
		}
	}
	return nil
}

// use counts a use of the token that admit has let pass. Metadata that are refused cost none.
func (s *Service) use(r *http.Request) error {
	if s.cfg.Who == Open {
		return nil
	}
	text, _ := oauth.Bearer(r)
	in, err := s.deps.Tokens.Use(r.Context(), text)
	if err != nil {
		return oauth.StorageError(err)
	}
	if !in.Active { // another request has taken the last use
		return noToken()
	}
	return nil
}

func noToken() error {
	return &oauth.Error{
		Status: http.StatusUnauthorized, Code: "invalid_token", Description: "a valid token is required",
		Challenge: realm + `, error="invalid_token"`,
	}
}

// unknown is the same for a client that there is not and for a wrong token. (RFC 7592 2.1)
func unknown(err error) error {
	if errors.Is(err, clientstore.ErrUnknown) {
		return noToken()
	}
	return oauth.StorageError(err)
}

// refused makes what is wrong with a client an answer.
func refused(err error) error {
	if invalid := new(client.InvalidError); errors.As(err, &invalid) {
		return oauth.InvalidClientMetadata(denial.New(denial.ClientMetadata, invalid.Error()), "the metadata do not fit together")
	}
	return oauth.StorageError(err)
}

// count counts one more client of a network. It is false when the network has registered as many as it may.
func (s *Service) count(address string, now time.Time) bool {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		addr = netip.IPv4Unspecified() // they share one count
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = v6Network // the most that one customer of a provider gets
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if began := now.Truncate(s.cfg.Per); !began.Equal(s.began) {
		s.began = began
		clear(s.networks)
	}
	if s.networks[network] >= s.cfg.Limit || (s.networks[network] == 0 && len(s.networks) >= maxNetworks) {
		return false
	}
	s.networks[network]++
	return true
}

// registrationResponse is the response to a client. (RFC 7591 3.2.1; RFC 7592 3)
type registrationResponse struct {
	metadata

	ID        string `json:"client_id"`
	IssuedAt  int64  `json:"client_id_issued_at"`
	Secret    string `json:"client_secret,omitempty"`
	SecretEnd *int64 `json:"client_secret_expires_at,omitempty"` // with a secret. 0: never
	Token     string `json:"registration_access_token,omitempty"`
	URI       string `json:"registration_client_uri,omitempty"`
}

func (s *Service) write(w http.ResponseWriter, status int, a *registrationResponse) error {
	if a.Secret != "" {
		a.SecretEnd = new(int64)
	}
	if a.Token != "" {
		a.URI = s.issuer + Path + "?" + idParam + "=" + a.ID // random characters of base64url
	}
	body, err := json.Marshal(a)
	if err != nil {
		return oauth.ServerError(err)
	}
	jsonresponse.WriteJSON(w, status, body)
	return nil
}
