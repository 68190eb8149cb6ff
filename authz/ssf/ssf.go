// Package ssf notifies receivers when a session of a person ends, an account is disabled or a credential changes
// (OpenID Shared Signals Framework 1.0, CAEP 1.0, RISC 1.0). Receivers are clients with the scope ssf.manage; each has
// one stream, by push (RFC 8935) or poll (RFC 8936). (docs/decisions/introspection.md#shared-signals)
package ssf

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Scopes of a receiver. (CAEP Interoperability Profile 1.0, 2.7.3)
const (
	ScopeRead   = "ssf.read"   // reads its stream
	ScopeManage = "ssf.manage" // everything
)

// Delivery methods. (OpenID SSF 1.0, 6.1)
const (
	methodPush = "urn:ietf:rfc:8935"
	methodPoll = "urn:ietf:rfc:8936"
)

// The states of a stream. (OpenID SSF 1.0, 8.1.2)
const (
	enabled  = "enabled"
	paused   = "paused"
	disabled = "disabled"
)

const (
	mostStreams  = 100
	mostSubjects = 100_000            // that one receiver names
	kept         = 7 * 24 * time.Hour // how long an event waits for its receiver
	verifyEvery  = 10 * time.Second   // between two verifications
	maxText      = 256                // characters of a state, reason or description
)

// Config is the operator's configuration.
type Config struct {
	// On says that there are streams at all.
	On bool
	// All says that a receiver hears of everybody, until it asks not to hear of someone. Otherwise it hears of those
	// that it has named.
	All bool
}

// Subjects reads persons and their sessions inside a transaction.
type Subjects interface {
	Get(tx storage.Tx, subject string) (authn.Subject, error)
	Session(tx storage.Tx, id string, now time.Time) (authn.Session, error)
}

// Deps are the dependencies of the service. All are required.
type Deps struct {
	Store    storage.Store
	Keys     *keys.Keys
	Keyring  *secret.Keyring
	Clients  *clientstore.Registry
	Tokens   *token.Ledger
	Subjects Subjects
	Events   *audit.Recorder
	Origin   func(*http.Request) audit.Origin
	HTTP     *http.Client // pushes to addresses that receivers name, so to public ones
	Log      *zap.Logger
	Now      func() time.Time
	Random   io.Reader
}

// Service is the transmitter of one configuration. It is safe for concurrent use.
type Service struct {
	deps   Deps
	cfg    Config
	issuer string
	wake   chan struct{}

	mu      sync.Mutex        // guards stamped
	stamped map[string]string // the last item of a stream that stamp has looked at; absent: it begins again
}

// New returns the transmitter of a store. Several can share one.
func New(issuer string, cfg Config, deps Deps) *Service {
	return &Service{deps: deps, cfg: cfg, issuer: issuer, wake: make(chan struct{}, 1), stamped: map[string]string{}}
}

// On reports whether there are streams.
func (s *Service) On() bool { return s.cfg.On }

func (s *Service) now() time.Time { return s.deps.Now().UTC() }

func (s *Service) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.View(ctx, fn))
}

func (s *Service) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.Update(ctx, fn))
}

const realm = `Bearer realm="gatehouse"`

// receiver returns the client that asks: the owner of an access token of its own that has the scope, and is still
// allowed it.
func (s *Service) receiver(r *http.Request, scope string) (*client.Client, error) {
	text, ok := oauth.Bearer(r)
	if !ok || text == "" {
		return nil, &oauth.Error{
			Status: http.StatusUnauthorized, Code: "invalid_token", Description: "one access token is required", Cause: errNone, Challenge: realm,
		}
	}
	in, err := s.deps.Tokens.Introspect(r.Context(), text)
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	if in = in.For(token.Confirmation{}); !in.Active || in.AppPassword != "" || !in.MeantFor(s.issuer) {
		return nil, &oauth.Error{
			Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the access token is not valid", Cause: errInactive,
			Challenge: realm + `, error="invalid_token", error_description="the access token is not valid"`,
		}
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = in.ClientID })
	if in.Person != nil || !slices.Contains(in.Scope, scope) && !slices.Contains(in.Scope, ScopeManage) {
		return nil, &oauth.Error{
			Status: http.StatusForbidden, Code: "insufficient_scope",
			Description: "this needs an access token of a client itself with the scope " + scope,
			Cause:       errScope, Challenge: realm + `, error="insufficient_scope", scope="` + scope + `"`, // RFC 6750 3.1
		}
	}
	c, err := s.deps.Clients.Get(r.Context(), in.ClientID)
	if err != nil {
		return nil, oauth.StorageError(err)
	}
	return c, s.deps.Clients.May(c, clientstore.Permission{Grant: client.GrantClientCredentials, Scope: in.Scope})
}

var (
	errNone      = denial.New(denial.NoCredentials, "no access token, or several")
	errInactive  = denial.New(denial.TokenInactive, "the access token is unknown, has expired or was revoked")
	errScope     = denial.New(denial.ScopeMissing, "the access token lacks the scope, or is a person's")
	errNoStream  = denial.New(denial.NotFound, "the client has no such stream")
	errFull      = denial.New(denial.TooManyBegun, "there are too many streams, or too many subjects of one")
	errTooSoon   = denial.New(denial.Throttled, "verifications are asked for too often")
	errHasStream = errors.New("the client has a stream already")
)

func noStream() error {
	return &oauth.Error{Status: http.StatusNotFound, Code: "not_found", Description: "there is no such stream", Cause: errNoStream}
}

// find returns the stream of a client. An id that is not empty must be that of the stream.
func find(tx storage.Tx, clientID, id string) (streamRecord, error) {
	rec, found, err := streams.Find(tx, clientID)
	if err == nil && (!found || id != "" && rec.ID != id) {
		err = noStream()
	}
	return rec, err
}

// wants reports whether the receiver has asked for a kind.
func (r *streamRecord) wants(k kind) bool {
	return len(r.Requested) == 0 || k == verification || slices.Contains(r.Requested, uris[k])
}
