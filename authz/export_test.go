package authz

import (
	"cmp"
	"context"
	"time"

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

// SendLogouts does what Run does, until nothing is due.
func SendLogouts(ctx context.Context, s *Server) error {
	return cmp.Or(s.moveLogouts(ctx), s.logouts.Send(ctx, s.sendLogout))
}

// PutEarlierLogout stores a logout token as versions before the outbox did, after two tries.
func PutEarlierLogout(tx storage.Tx, person, session, client string, due time.Time) error {
	type record struct {
		DueAt time.Time `cbor:"1,keyasint,omitempty"`
		Tries int       `cbor:"2,keyasint,omitempty"`
	}
	table := storage.NewTable[record]("authz_logout")
	return table.Put(tx, storage.Key(person, session, client), record{due, 2}, never)
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
