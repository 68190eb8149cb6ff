package authz

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What the commands do. Whoever may call these functions is the operator: there is no authentication here.

var (
	// ErrClientExists says that the id is taken, by the configuration or by an earlier command.
	ErrClientExists = errors.New("authz: a client of this id exists already")
	// ErrClientUnknown says that there is no such client.
	ErrClientUnknown = errors.New("authz: no such client")
	// ErrClientFixed says that a client stands in the configuration, where it is changed and removed.
	ErrClientFixed = errors.New("authz: the client stands in the configuration; change it there")
)

// secretBytes is the randomness of a client secret that we make.
const secretBytes = 32

// AddClient stores a client. A confidential one without a secret or keys gets one, which is returned and stored as a keyed hash only; in
// all other cases secretText is empty. Errors: ErrClientExists, what Validate says, a failure of storage.
func (s *Server) AddClient(ctx context.Context, c Client) (secretText string, err error) {
	if !c.Public && c.AuthMethod != methodPrivateKey && len(c.Secrets)+len(c.SecretHashes) == 0 {
		if secretText, err = newSecret(s.Random); err != nil {
			return "", err
		}
		c.Secrets = []secret.String{secret.New(secretText)}
	}
	if err := s.refreshProviders(ctx); err != nil {
		return "", err
	}
	if err := cmp.Or(c.Validate(), s.clients.checkProviders(&c)); err != nil {
		return "", err
	}
	if s.clients.fixed[c.ID] != nil {
		return "", ErrClientExists
	}
	c.SecretHashes, c.Secrets = s.hashed(c.ID, c.Secrets, c.SecretHashes), nil
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode client: %w", err)
	}
	e, err := s.Events.NewBy(ctx, eventClientAdded)
	if err != nil {
		return "", err
	}
	e.ClientID = c.ID
	now := s.now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := clients.Create(tx, c.ID, clientRecord{Client: raw, CreatedAt: now}, never); err != nil {
			return err
		}
		return s.Events.Append(tx, e)
	})
	if errors.Is(err, storage.ErrExists) {
		err = ErrClientExists
	}
	return secretText, err
}

// newSecret returns a client secret of 256 bits, which needs no encoding anywhere.
func newSecret(random io.Reader) (string, error) {
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// hashed returns what is stored in place of a client's secrets.
func (s *Server) hashed(id string, secrets []secret.String, hashes []string) []string {
	out := slices.Clone(hashes)
	for _, sum := range s.clients.checks.credential("client", id, secrets, nil).sums {
		out = append(out, hmacPrefix+base64.RawURLEncoding.EncodeToString(sum))
	}
	return out
}

// ClientInfo is a client as ListClients shows it: without secrets and their hashes.
type ClientInfo struct {
	Client

	// Stored clients were added by command; the others stand in the configuration.
	Stored    bool      `json:"stored"`
	CreatedAt time.Time `json:"created_at,omitzero"` // of stored ones
}

// ListClients returns all clients in the order of their ids, defaults filled in.
func (s *Server) ListClients(ctx context.Context) ([]ClientInfo, error) {
	var out []ClientInfo
	for _, reg := range s.clients.fixed {
		out = append(out, ClientInfo{Client: *reg.client})
	}
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		for e, err := range clients.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			reg, err := s.clients.parse(e.Key, e.Value.Client)
			if err != nil {
				return err
			}
			out = append(out, ClientInfo{Client: *reg.client, Stored: true, CreatedAt: e.Value.CreatedAt})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list clients: %w", err)
	}
	for i := range out {
		out[i].Secrets, out[i].SecretHashes = nil, nil
	}
	slices.SortFunc(out, func(a, b ClientInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// RemoveClient removes a client that was added by command and ends everything it was given, for a later client of that id too.
// Errors: ErrClientUnknown, ErrClientFixed, a failure of storage.
func (s *Server) RemoveClient(ctx context.Context, id string) error {
	if s.clients.fixed[id] != nil {
		return ErrClientFixed
	}
	return s.endClient(ctx, id, eventClientRemoved, func(tx storage.Tx) error { return clients.Delete(tx, id) })
}

// RevokeClient ends every token, code and grant of a client. It may get new ones at once. Errors: ErrClientUnknown, a failure of storage.
func (s *Server) RevokeClient(ctx context.Context, id string) error {
	return s.endClient(ctx, id, eventClientRevoked, func(storage.Tx) error { return nil })
}

func (s *Server) endClient(ctx context.Context, id string, kind event.Type, also func(storage.Tx) error) error {
	e, err := s.Events.NewBy(ctx, kind)
	if err != nil {
		return err
	}
	e.ClientID = id
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		c, state, err := s.clients.state(tx, id)
		if err != nil {
			return err
		}
		if c == nil {
			return ErrClientUnknown
		}
		state.Epoch++
		if err := clientStates.Put(tx, id, state, never); err != nil { // kept for ever: the epoch never comes back
			return err
		}
		if err := also(tx); err != nil {
			return err
		}
		return s.Events.Append(tx, e)
	})
}

// RevokeEverything ends every token, code, grant and site session issued before now, whoever has it.
func (s *Server) RevokeEverything(ctx context.Context) error {
	e, err := s.Events.NewBy(ctx, eventAllRevoked)
	if err != nil {
		return err
	}
	epoch, err := endEverything(ctx, s.Store, func(tx storage.Tx) error { return s.Events.Append(tx, e) })
	if err != nil {
		return err
	}
	s.global.raise(epoch)
	return nil
}

// RevokeToken ends a token of whichever client: an access token alone, a refresh token with all that its grant gave. One that is not
// known is no error.
func (s *Server) RevokeToken(ctx context.Context, token string) error {
	return s.revoke(ctx, token, "", event.CallerOf(ctx).Origin)
}

// WithdrawConsent forgets what a person allowed a client and ends every grant that came of it. It returns how many grants there were.
func (s *Server) WithdrawConsent(ctx context.Context, subject, clientID string) (n int, err error) {
	e, err := s.Events.NewBy(ctx, eventConsentWithdrawn)
	if err != nil {
		return 0, err
	}
	e.PersonID, e.ClientID = subject, clientID
	key, now := storage.Key(subject, clientID), s.now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		had, err := consents.Has(tx, key)
		if err != nil {
			return err
		}
		if n, err = dropGrants(tx, subject, clientID); err != nil || (n == 0 && !had) {
			return err
		}
		if err := consents.Delete(tx, key); err != nil {
			return err
		}
		if err := s.tellUnlinked(tx, subject, clientID, now); err != nil {
			return err
		}
		return s.Events.Append(tx, e)
	})
	return n, err
}

// tellUnlinked tells whoever wants to know that a client has lost what a person had given to it.
func (s *Server) tellUnlinked(tx storage.Tx, person, clientID string, now time.Time) error {
	if s.Unlinked == nil {
		return nil
	}
	c, found, err := s.clients.find(tx, clientID)
	if err != nil || !found { // the subject by which an unknown client knew the person cannot be told
		return err
	}
	return s.Unlinked(tx, login.Unlinked{Person: person, Subject: s.subjectFor(c, person), ClientID: clientID, Client: cmp.Or(c.Name, clientID), At: now})
}

// IssueRequest asks for an access token of a client itself.
type IssueRequest struct {
	ClientID  string        // one with the grant client_credentials
	Scope     []string      // empty: the client's default scopes
	Resources []string      // empty: for no resource in particular
	Lifetime  time.Duration // zero: the client's
}

// Issued is an access token that was issued by command.
type Issued struct {
	Token     secret.String
	Scope     []string
	ExpiresAt time.Time
}

// IssueToken issues an access token to a client as client_credentials would, without its secret. Errors: ErrClientUnknown, an *Error
// with the reason of a refusal, a failure of storage.
func (s *Server) IssueToken(ctx context.Context, q IssueRequest) (Issued, error) {
	c, err := s.findClient(ctx, q.ClientID)
	if errors.Is(err, storage.ErrNotFound) {
		return Issued{}, ErrClientUnknown
	}
	if err != nil {
		return Issued{}, err
	}
	scope := q.Scope
	if len(scope) == 0 {
		scope = c.DefaultScopes
	}
	if len(scope) == 0 {
		return Issued{}, invalidScope(nil, "no scope was asked and the client has no default")
	}
	lifetime := cmp.Or(q.Lifetime, c.Lifetimes.AccessToken)
	if lifetime < 0 {
		return Issued{}, invalidRequest(nil, "the lifetime is negative")
	}
	if c.TokenFormat == formatJWT && lifetime > maxJWTLifetime {
		return Issued{}, invalidRequest(nil, "the lifetime is too long for a JWT, whose key must stay published")
	}
	i, err := s.issueOwn(ctx, c, scope, q.Resources, lifetime, event.CallerOf(ctx).Origin, s.now())
	if err != nil {
		return Issued{}, err
	}
	return Issued{Token: secret.New(i.token), Scope: i.rec.Scope, ExpiresAt: i.rec.ExpiresAt}, nil
}
