package grant

import (
	"context"
	"net/http"

	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// HandleRevoke serves POST /oauth/revoke (RFC 7009; token server document, "Revoke endpoint"). The answer is the same
// for a token that is revoked, is not known or belongs to another client.
func (s *Grants) HandleRevoke(w http.ResponseWriter, r *http.Request) error {
	f, err := oauth.ParseForm(r)
	if err != nil {
		return err
	}
	c, err := s.clients.Authenticate(r, f)
	if err != nil {
		return err
	}
	token := f.Get("token")
	if token == "" {
		return oauth.InvalidRequest(nil, "token is missing")
	}
	// token_type_hint only speeds a search up (RFC 7009 2.1), and the token itself says what it is.
	if err := s.Revoke(r.Context(), token, c.ID, audit.Actor{ID: c.ID, Origin: s.deps.Origin(r)}); err != nil {
		return err
	}
	jsonresponse.WriteJSON(w, http.StatusOK, nil)
	return nil
}

// Revoke ends a token: an access token alone, a refresh token with its grant and all tokens of it. The token must be
// clientID's, unless that is empty; otherwise nothing happens.
func (s *Grants) Revoke(ctx context.Context, token, clientID string, by audit.Actor) error {
	if secret.IsToken(secret.RefreshToken, token) {
		return s.revokeRefresh(ctx, secret.Hash(token), clientID, by)
	}
	if key, ok := s.tokens.AccessKey(token); ok {
		return s.revokeAccess(ctx, key, clientID, by)
	}
	return nil
}

func (s *Grants) revokeAccess(ctx context.Context, key, clientID string, by audit.Actor) error {
	e, err := s.deps.Events.New(eventAccessRevoked, by.Origin)
	if err != nil {
		return oauth.ServerError(err)
	}
	return s.update(ctx, func(tx storage.Tx) error {
		rec, found, err := s.tokens.FindAccess(tx, key)
		if err != nil || !found || !isOwner(rec.ClientID, clientID) {
			return err
		}
		if err := s.tokens.DropAccess(tx, key); err != nil {
			return err
		}
		e := by.Fill(e, rec.Subject, "")
		e.ClientID, e.SessionID = rec.ClientID, rec.SessionID
		return s.deps.Events.Append(tx, e)
	})
}

func (s *Grants) revokeRefresh(ctx context.Context, key, clientID string, by audit.Actor) error {
	e, err := s.deps.Events.New(EventRevoked, by.Origin)
	if err != nil {
		return oauth.ServerError(err)
	}
	return s.update(ctx, func(tx storage.Tx) error {
		rec, found, err := refreshes.Find(tx, key)
		if err != nil || !found || !isOwner(rec.ClientID, clientID) {
			return err
		}
		g, found, err := s.tokens.FindGrant(tx, rec.GrantID)
		if err != nil || !found { // it has ended before
			return err
		}
		// RFC 7009 2.1: the access tokens of the same grant too. A token that was rotated long ago still names its
		// grant.
		if err := token.DropGrant(tx, g.Subject, g.ClientID, rec.GrantID); err != nil {
			return err
		}
		e := by.Fill(e, g.Subject, "")
		e.ClientID, e.SessionID = g.ClientID, g.SessionID
		return s.deps.Events.Append(tx, e)
	})
}

func isOwner(owner, clientID string) bool { return clientID == "" || owner == clientID }
