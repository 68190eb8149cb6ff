package authz

import (
	"context"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MoveToProvider makes an access token one of a person who signed in with another provider, as if the client had lost that provider since.
func MoveToProvider(ctx context.Context, store storage.Store, token, provider string) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		rec, err := accessTokens.Get(tx, secret.Hash(token))
		if err != nil {
			return err
		}
		rec.Provider = provider
		return accessTokens.Put(tx, secret.Hash(token), rec, never)
	})
}

// LoseUses removes the count of uses of an access token, as a damaged store would.
func LoseUses(ctx context.Context, store storage.Store, token string) error {
	return store.Update(ctx, func(tx storage.Tx) error { return uses.Delete(tx, secret.Hash(token)) })
}

// SendLogouts makes one round of what Run does.
func SendLogouts(ctx context.Context, s *Server) error { return s.sendLogouts(ctx) }
