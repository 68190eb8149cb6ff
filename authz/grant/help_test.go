package grant_test

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

var accessTokens = storage.NewTable[token.Access]("authz_access")

// moveToProvider changes an access token as if its person had signed in with another provider, which the client has
// lost since.
func moveToProvider(ctx context.Context, store storage.Store, text, provider string) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		rec, err := accessTokens.Get(tx, secret.Hash(text))
		if err != nil {
			return err
		}
		rec.Provider = provider
		return accessTokens.Put(tx, secret.Hash(text), rec, time.Time{})
	})
}
