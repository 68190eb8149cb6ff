// Package grant implements the token endpoint for codes, refresh tokens, passwords and clients' own tokens, and the
// revocation and introspection endpoints. Other grants have packages of their own, such as device and exchange.
package grant

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jwtresponse"
	"github.com/gatehouse-id/gatehouse/authz/logout"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Passwords signs people in for clients that ask for the password themselves.
type Passwords interface {
	// CheckPassword returns the sign-in of a person, without a session, and the person's epoch when the password was
	// checked; or authn.ErrBadCredentials, authn.ErrSecondFactor, or a *authn.ThrottledError. Any other error is a
	// failure, not a verdict.
	CheckPassword(ctx context.Context, clientID, username, password string, from audit.Origin) (*authn.Session, error)
	// CheckPasswordOnly is CheckPassword without authn.ErrSecondFactor: the password is enough.
	CheckPasswordOnly(ctx context.Context, clientID, username, password string, from audit.Origin) (*authn.Session, error)
}

// Subjects reads persons and their sessions inside a transaction.
type Subjects interface {
	// Session returns a live session, or storage.ErrNotFound when it has ended, has expired or never was.
	Session(tx storage.Tx, id string, now time.Time) (authn.Session, error)
	// Permissions returns the permissions of groups of a partition by the groups' names.
	Permissions(tx storage.Tx, partition string, groups []string) (map[string][]string, error)
	// RefreshDetails asks the identity provider of a session for the details of its person again, until ctx ends. nil:
	// the provider cannot be asked, or the person has signed in by another one since, whose details the client is not
	// necessarily allowed to know.
	RefreshDetails(ctx context.Context, subject, session, provider string) (map[string][]string, error)
}

// Deps are the dependencies of the grants. All but Passwords are required.
type Deps struct {
	Store     storage.Store
	Clients   *clientstore.Registry
	Tokens    *token.Ledger
	Visits    *logout.Visits
	Personal  *apppassword.Passwords
	Subjects  Subjects
	Passwords Passwords // nil: no client has the password grant
	Envelopes *jwtresponse.Envelopes
	Events    *audit.Recorder
	// Prove returns what a client has proved to have in a request, and what notes in a transaction that the proof was
	// used. A nil function: nothing has to be noted.
	Prove  func(http.ResponseWriter, *http.Request, *client.Client) (token.Confirmation, func(storage.Tx) error, error)
	Origin func(*http.Request) audit.Origin
	Log    *zap.Logger
	Now    func() time.Time
	Random io.Reader
}

// Grants answers the token endpoint of one configuration. It is safe for concurrent use.
type Grants struct {
	issuer   string
	deps     Deps
	clients  *clientstore.Registry
	tokens   *token.Ledger
	visits   *logout.Visits
	personal *apppassword.Passwords
	served   map[string]served
	identity Answer // of identity assertions; nil: none are taken
}

// New returns the grants of an issuer.
func New(issuer string, deps Deps) *Grants {
	s := &Grants{
		issuer: issuer, deps: deps, clients: deps.Clients, tokens: deps.Tokens, visits: deps.Visits, personal: deps.Personal,
		served: maps.Clone(tokenGrants),
	}
	if !deps.Clients.TrustsIssuers() {
		delete(s.served, typeJWTBearer)
	}
	return s
}

// update is Store.Update whose failures are 503: no one knows what was written.
func (s *Grants) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (s *Grants) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.View(ctx, fn))
}

// now is the clock of the package. It is read once, before a transaction.
func (s *Grants) now() time.Time { return s.deps.Now().UTC() }
