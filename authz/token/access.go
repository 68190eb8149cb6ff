package token

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CollectMargin is the time that a record stays beyond its validity, since storage collects by another clock.
const CollectMargin = 10 * time.Minute

// Types of tokens, as introspection names them.
const (
	TypeBearer  = "bearer"        // token server document, "Token response"
	TypeRefresh = "refresh_token" // RFC 7662 leaves it open
	typeDPoP    = "DPoP"          // RFC 9449 5: bound to a key
)

// Draft is an access token on its way into storage.
type Draft struct {
	Token, key string
	Rec        Access
	event      *audit.Event // nil: it is counted together with others
}

// DraftAccess makes an access token for a client. Issue stores it, in the transaction of its cause.
func (l *Ledger) DraftAccess(c *client.Client, rec Access, kind audit.Type, from audit.Origin) (*Draft, error) {
	rec.UsageLimit = l.deps.Clients.UsageLimit(rec.Scope)
	i := &Draft{Rec: rec}
	if !l.counts(c, &rec) {
		e, err := l.deps.Events.New(kind, from)
		if err != nil {
			return nil, oauth.ServerError(err)
		}
		e.PersonID, e.ClientID, e.SessionID, e.Actor = rec.Subject, rec.ClientID, rec.SessionID, cmp.Or(rec.Subject, rec.ClientID)
		i.event = &e
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

// Explain says more about a token in its event. An empty actor stays as it is.
func (i *Draft) Explain(actor, reason string) {
	if i.event == nil {
		return
	}
	i.event.Actor, i.event.Reason = cmp.Or(actor, i.event.Actor), reason
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
	if i.event == nil {
		return l.tally(tx, &i.Rec)
	}
	return l.deps.Events.Append(tx, *i.event)
}

// FindAccess returns a stored access token, valid or not.
func (l *Ledger) FindAccess(tx storage.Tx, key string) (rec Access, found bool, err error) {
	return accessTokens.Find(tx, key)
}

// DropAccess ends one access token.
func (l *Ledger) DropAccess(tx storage.Tx, key string) error { return accessTokens.Delete(tx, key) }

// NewSignIn returns the record of a sign-in.
func NewSignIn(result *authn.Result) SignIn {
	return SignIn{
		Subject: result.Subject, SessionID: result.SessionID, AuthTime: result.AuthTime, Level: result.Level, AMR: result.AMR,
		Provider: result.Provider,
		Details:  result.Details, References: result.References, Vouched: result.Vouched,
	}
}
