package token_test

import (
	"context"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

var uses = storage.NewTable[struct{}]("authz_access_use")

// loseUses removes the count of uses of an access token, as a damaged store would.
func loseUses(ctx context.Context, store storage.Store, text string) error {
	return store.Update(ctx, func(tx storage.Tx) error { return uses.Delete(tx, secret.Hash(text)) })
}
