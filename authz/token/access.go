package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CollectMargin is how much longer than its validity a record stays, since storage collects by another clock.
const CollectMargin = 10 * time.Minute

// Types of tokens, as introspection names them.
const (
	TypeBearer  = "bearer"        // token server document, "Token response"
	TypeRefresh = "refresh_token" // RFC 7662 leaves it open
)

// Introspection is the state of a token. For an unknown, expired or revoked token Active is false and nothing else is
// set. The caller can change it, except for Person, which is shared.
type Introspection struct {
	Active    bool
	Scope     []string
	ClientID  string
	Subject   string // the person, or the client for its own token
	TokenType string // bearer or refresh_token
	IssuedAt  time.Time
	ExpiresAt time.Time
	AuthTime  time.Time // zero for a client's own token
	Audience  []string  // resources it is meant for (RFC 8707). Empty: any
	Level     int       // authentication level, 1 to 4. 0 for a client's own token
	AMR       []string  // words of the token server document
	SessionID string
	Person    *login.Subject // nil for a client's own token
	// UsageLimit is how often the token can be used, UsageCount how often it was. 0 and 0: without limit.
	UsageLimit, UsageCount int

	// App is the mobile app instance that got the token. nil: another kind of client.
	App *client.App

	Provider string   // of the sign-in
	Claims   []string // for the userinfo endpoint, in addition to those of the scopes
	Sector   string   // in which the client knows the person; Subject is the public identifier
}

// Introspect reads an access token. Calling it does not count as a use of the token. An unknown, expired, revoked or
// used-up token and other text is inactive. An error is a failure, not a verdict: callers must refuse.
func (l *Ledger) Introspect(ctx context.Context, token string) (*Introspection, error) {
	in, err := l.Recheck(ctx, token)
	if err == nil && in.usedUp() {
		in = &Introspection{}
	}
	return in, err
}

// Recheck is Introspect for a request that was let in already: a token that was used up since, perhaps by this request,
// is still active.
func (l *Ledger) Recheck(ctx context.Context, token string) (*Introspection, error) {
	key, ok := l.AccessKey(token)
	if !ok {
		return &Introspection{}, nil // without a storage read
	}
	now := l.now()
	var out *Introspection
	err := l.view(ctx, func(tx storage.Tx) (err error) {
		out, err = l.inspect(tx, key, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// inspect reads an access token. Without an error the result is not nil.
func (l *Ledger) inspect(tx storage.Tx, key string, now time.Time) (*Introspection, error) {
	rec, found, err := accessTokens.Find(tx, key)
	if err != nil {
		return nil, err
	}
	if !found || !rec.ExpiresAt.After(now) || rec.Epochs.Global != l.global.epoch.Load() {
		return &Introspection{}, nil
	}
	c, person, ok, err := l.holders(tx, &rec, now)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &Introspection{}, nil
	}
	out := &Introspection{
		Active: true, Scope: c.StillAllowed(rec.Scope), ClientID: rec.ClientID, Subject: rec.Subject, TokenType: TypeBearer,
		IssuedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt, AuthTime: rec.AuthTime, Audience: rec.Audience, Level: rec.Level,
		AMR: rec.AMR, SessionID: rec.SessionID, Person: person, UsageLimit: rec.UsageLimit, Provider: rec.Provider,
		Claims: c.AllowedClaims(rec.Claims), Sector: c.Sector(), App: c.App,
	}
	if out.Subject == "" {
		out.Subject = rec.ClientID // the sub of a client-credentials token is the client (docs/decisions.md#introspection)
	}
	if rec.UsageLimit == 0 {
		return out, nil
	}
	used, found, err := uses.Find(tx, key)
	if err != nil || !found {
		return &Introspection{}, err
	}
	out.UsageCount = used.Count
	return out, nil
}

// holders reads what an access token depends on: its grant and its client in one round trip, its person in another. It
// is false when one of them has ended.
func (l *Ledger) holders(tx storage.Tx, rec *Access, now time.Time) (*client.Client, *login.Subject, bool, error) {
	keys := make([][]byte, 0, 3)
	keys = append(keys, l.deps.Clients.EpochKeys(rec.ClientID)...)
	if rec.GrantID != "" {
		keys = append(keys, grants.Key(rec.GrantID))
	}
	values, err := tx.GetMany(keys...)
	if err != nil {
		return nil, nil, false, err
	}
	c, epoch, err := l.deps.Clients.DecodeWithEpoch(rec.ClientID, values)
	if err != nil || c == nil || c.Disabled || epoch != rec.Epochs.Client {
		return nil, nil, false, err
	}
	var details map[string][]string
	if rec.GrantID != "" {
		raw := values[len(values)-1]
		if raw == nil {
			return nil, nil, false, nil // revoked
		}
		g, err := grants.Decode(raw)
		if err != nil || !g.ExpiresAt.After(now) {
			return nil, nil, false, err
		}
		details = g.Details
	}
	if rec.Subject == "" {
		return c, nil, true, nil
	}
	person, err := l.deps.Subjects.Get(tx, rec.Subject)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil, false, nil
	}
	if err != nil || !person.Active || person.Epoch != rec.Epochs.Person {
		return nil, nil, false, err
	}
	if details != nil {
		person.Details = details
	}
	return c, &person, true, nil
}

// Draft is an access token on its way into storage.
type Draft struct {
	Token, key string
	Rec        Access
	event      event.Event
	counted    bool // together with others, without the event
}

// DraftAccess makes an access token for a client. Issue stores it, in the transaction of its cause.
func (l *Ledger) DraftAccess(c *client.Client, rec Access, kind event.Type, from event.Origin) (*Draft, error) {
	rec.UsageLimit = l.deps.Clients.UsageLimit(rec.Scope)
	i := &Draft{Rec: rec, counted: l.counts(c, &rec)}
	if !i.counted {
		e, err := l.deps.Events.New(kind, from)
		if err != nil {
			return nil, oauth.ServerError(err)
		}
		e.PersonID, e.ClientID, e.SessionID, e.Actor = rec.Subject, rec.ClientID, rec.SessionID, cmp.Or(rec.Subject, rec.ClientID)
		i.event = e
	}
	var err error
	if c.TokenFormat == client.FormatJWT {
		i.Token, i.key, err = l.signAccess(c, &rec)
	} else if i.Token, err = secret.NewToken(l.deps.Random, secret.AccessToken); err == nil {
		i.key = secret.Hash(i.Token)
	}
	if err != nil {
		return nil, oauth.ServerError(err)
	}
	return i, nil
}

// Issue stores a draft together with its event, or counts it.
func (l *Ledger) Issue(tx storage.Tx, i *Draft) error {
	// Put, not Create: a key of 256 random bits is unique, and looking it up would cost every writer a read.
	if err := accessTokens.Put(tx, i.key, i.Rec, i.Rec.ExpiresAt.Add(CollectMargin)); err != nil {
		return fmt.Errorf("store access token: %w", err)
	}
	if i.Rec.UsageLimit > 0 {
		if err := uses.Create(tx, i.key, useRecord{}, i.Rec.ExpiresAt.Add(CollectMargin)); err != nil {
			return fmt.Errorf("store use of access token: %w", err)
		}
	}
	if i.counted {
		return tally(tx, &i.Rec)
	}
	return l.deps.Events.Append(tx, i.event)
}

// FindAccess returns a stored access token, valid or not.
func (l *Ledger) FindAccess(tx storage.Tx, key string) (rec Access, found bool, err error) {
	return accessTokens.Find(tx, key)
}

// DropAccess ends one access token.
func (l *Ledger) DropAccess(tx storage.Tx, key string) error { return accessTokens.Delete(tx, key) }

// NewSignIn returns the record of a sign-in.
func NewSignIn(result *login.Result) SignIn {
	return SignIn{
		Subject: result.Subject, SessionID: result.SessionID, AuthTime: result.AuthTime, Level: result.Level, AMR: result.AMR, Provider: result.Provider,
		Details: result.Details, References: result.References,
	}
}
