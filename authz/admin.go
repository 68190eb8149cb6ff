package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What the commands do. Callers must be the operator: there is no authentication here.

// MaxLevelOf returns the highest level of sign-ins that an API client can make tokens for.
func (s *Server) MaxLevelOf(apiClient string) int { return s.clients.MaxLevelOf(apiClient) }

// PartitionsOf returns the partitions that an API client is limited to. None: all.
func (s *Server) PartitionsOf(apiClient string) []string { return s.clients.PartitionsOf(apiClient) }

// Clients returns the registry, in which the commands change clients.
func (s *Server) Clients() *clientstore.Registry { return s.clients }

// AuthorizeAPI authenticates a request to an API of another package. See clientstore.Registry.AuthorizeAPI.
func (s *Server) AuthorizeAPI(r *http.Request, api string) (client string, err error) {
	return s.clients.AuthorizeAPI(r, api)
}

// RevokeEverything ends every token, code, grant and site session that was issued before now. also is done in the same
// transaction.
func (s *Server) RevokeEverything(ctx context.Context, by audit.Actor, also ...func(storage.Tx) error) error {
	return s.tokens.RevokeEverything(ctx, by, also...)
}

// RevokeToken ends a token of any client: an access token alone, a refresh token together with its grant. An unknown
// token is not an error.
func (s *Server) RevokeToken(ctx context.Context, token string, by audit.Actor) error {
	if secret.IsToken(secret.AppPassword, token) {
		return s.personal.RevokeText(ctx, token, by)
	}
	return s.grants.Revoke(ctx, token, "", by)
}

// WithdrawConsent forgets what a person allowed a client and ends the grants that followed. It returns their number.
func (s *Server) WithdrawConsent(ctx context.Context, subject, clientID string, by audit.Actor) (n int, err error) {
	e, err := s.deps.Events.New(eventConsentWithdrawn, by.Origin)
	if err != nil {
		return 0, err
	}
	e = by.Fill(e, subject, "")
	e.ClientID = clientID
	now := s.now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		had, err := consent.Has(tx, subject, clientID)
		if err != nil {
			return err
		}
		if n, err = s.tokens.DropGrants(tx, subject, clientID, now); err != nil || (n == 0 && !had) {
			return err
		}
		if err := consent.Forget(tx, subject, clientID); err != nil {
			return err
		}
		if err := s.tellUnlinked(tx, subject, clientID, now); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	return n, err
}

// tellUnlinked calls Deps.Unlinked: a client has lost the access that a person had given to it.
func (s *Server) tellUnlinked(tx storage.Tx, person, clientID string, now time.Time) error {
	if s.deps.Unlinked == nil {
		return nil
	}
	c, found, err := s.clients.Find(tx, clientID)
	if err != nil || !found { // the subject of the person at an unknown client cannot be computed
		return err
	}
	return s.deps.Unlinked(tx, authn.Unlinked{
		Person: person, Subject: s.tokens.SubjectFor(c, person), ClientID: clientID,
		Client: cmp.Or(c.Name, clientID), At: now,
	})
}

// IssueRequest asks for an access token of a client itself.
type IssueRequest struct {
	ClientID  string        // one with the grant client_credentials
	Scope     []string      // empty: the client's default scopes, and those of the resources
	Resources []string      // empty: for no resource in particular
	Lifetime  time.Duration // zero: the client's
}

// Issued is an access token that was issued by command.
type Issued struct {
	Token     secret.String
	Scope     []string
	ExpiresAt time.Time
}

// IssueToken issues an access token to a client as client_credentials would, without its secret. Errors: ErrUnknown, an
// *Error with the reason of a refusal, a failure of storage.
func (s *Server) IssueToken(ctx context.Context, q IssueRequest, by audit.Actor) (Issued, error) {
	c, err := s.clients.Get(ctx, q.ClientID)
	if errors.Is(err, storage.ErrNotFound) {
		return Issued{}, clientstore.ErrUnknown
	}
	if err != nil {
		return Issued{}, err
	}
	scope := q.Scope
	if len(scope) == 0 {
		if scope, err = s.clients.DefaultScopes(c, q.Resources, client.GrantClientCredentials); err != nil {
			return Issued{}, err
		}
	}
	lifetime := cmp.Or(q.Lifetime, c.Lifetimes.AccessToken)
	if lifetime < 0 {
		return Issued{}, oauth.InvalidRequest(nil, "the lifetime is negative")
	}
	if c.TokenFormat == client.FormatJWT && lifetime > client.MaxJWTLifetime {
		return Issued{}, oauth.InvalidRequest(nil, "the lifetime is too long for a JWT, whose key must stay published")
	}
	i, err := s.grants.IssueOwn(ctx, &grant.Request{Client: c, From: by.Origin, Now: s.now()}, scope, c.OwnResources(q.Resources), lifetime)
	if err != nil {
		return Issued{}, err
	}
	return Issued{Token: secret.New(i.Token), Scope: i.Rec.Scope, ExpiresAt: i.Rec.ExpiresAt}, nil
}

// Held returns what a person holds of a kind: tokens, sessions or consents. The error for an unknown person is an
// *oauth.Error of 404.
func (s *Server) Held(tx storage.Tx, personID, kind string, now time.Time) ([]Item, error) {
	return s.listItems(tx, itemKinds[kind], "", personID, now)
}

// EndHeld ends one item of what a person holds of a kind, or all when item is empty. See Held.
func (s *Server) EndHeld(ctx context.Context, personID, kind, item string, by audit.Actor) error {
	defer s.visits.Wake()
	return s.endItems(ctx, itemKinds[kind], "", personID, item, by)
}

// RotateKeys publishes successors of the signing keys. See keys.Keys.Rotate.
func (s *Server) RotateKeys(ctx context.Context, by audit.Actor) error {
	e, err := s.deps.Events.New(eventKeysRotated, by.Origin)
	if err != nil {
		return err
	}
	if err := s.deps.Keys.Rotate(ctx); err != nil {
		return err
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error { return s.deps.Events.Append(tx, by.Fill(e, "", "")) })
}

// RetireKey takes a signing key out of use at once. (keys.Keys.Retire)
func (s *Server) RetireKey(ctx context.Context, id string, by audit.Actor) error {
	e, err := s.deps.Events.New(eventKeyRetired, by.Origin)
	if err != nil {
		return err
	}
	e = by.Fill(e, "", "key "+audit.Clean(id))
	return s.deps.Keys.Retire(ctx, id, func(tx storage.Tx) error { return s.deps.Events.Append(tx, e) })
}

// SigningKeys returns the signing keys of the store, newest first.
func (s *Server) SigningKeys() []keys.Info { return s.deps.Keys.List() }
