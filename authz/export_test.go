package authz

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of other packages, for tests that damage or change a stored token.
var (
	accessTokens = storage.NewTable[token.Access]("authz_access")
	uses         = storage.NewTable[struct{}]("authz_access_use")

	earlierLogouts = storage.NewTable[struct{}]("authz_logout")
)

// MoveToProvider changes an access token as if its person had signed in with another provider, which the client has
// lost since.
func MoveToProvider(ctx context.Context, store storage.Store, text, provider string) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		rec, err := accessTokens.Get(tx, secret.Hash(text))
		if err != nil {
			return err
		}
		rec.Provider = provider
		return accessTokens.Put(tx, secret.Hash(text), rec, time.Time{})
	})
}

// LoseUses removes the count of uses of an access token, as a damaged store would.
func LoseUses(ctx context.Context, store storage.Store, text string) error {
	return store.Update(ctx, func(tx storage.Tx) error { return uses.Delete(tx, secret.Hash(text)) })
}

// SendLogouts does what Run does, until nothing is due.
func SendLogouts(ctx context.Context, s *Server) error {
	return s.visits.Send(ctx)
}

// PutEarlierLogout stores a logout token as versions before the outbox did, after two tries.
func PutEarlierLogout(tx storage.Tx, person, session, clientID string, due time.Time) error {
	type record struct {
		DueAt time.Time `cbor:"1,keyasint,omitempty"`
		Tries int       `cbor:"2,keyasint,omitempty"`
	}
	table := storage.NewTable[record]("authz_logout")
	return table.Put(tx, storage.Key(person, session, clientID), record{due, 2}, time.Time{})
}

// EarlierLogouts returns how many of those records there are.
func EarlierLogouts(ctx context.Context, store storage.Store) (n int, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		n = 0
		for _, err := range earlierLogouts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// SettleTallies does what Run does with counted tokens.
func SettleTallies(ctx context.Context, s *Server) error { return s.tokens.SettleTallies(ctx) }
