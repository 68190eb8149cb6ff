// Package consent remembers what persons have allowed clients. Whether a person is asked, and the page that asks, do
// not belong here.
package consent

import (
	"iter"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Covers tells whether a person has allowed a client all of the scopes. It is false for no scopes too when nothing is
// remembered.
func Covers(tx storage.Tx, person, clientID string, scope []string) (bool, error) {
	given, found, err := consents.Find(tx, storage.Key(person, clientID))
	return found && client.IsSubset(scope, given.Scope), err
}

// maxUses are the uses that are remembered of a person and a client.
const maxUses = 50

// Allows tells whether a person has allowed a client this use before: the same, with at least these scopes.
func Allows(tx storage.Tx, person, clientID, use string, scope []string) (bool, error) {
	given, _, err := consents.Find(tx, storage.Key(person, clientID))
	return slices.ContainsFunc(given.Uses, func(u Use) bool { return u.For == use && client.IsSubset(scope, u.Scope) }), err
}

// Remember adds the scopes to those that the person has allowed the client. use is empty for a client that somebody has
// registered.
func Remember(tx storage.Tx, person, clientID, use string, scope []string, now time.Time) error {
	key := storage.Key(person, clientID)
	rec, found, err := consents.Find(tx, key)
	if err != nil {
		return err
	}
	if !found {
		rec.CreatedAt = now
	}
	rec.UpdatedAt = now
	rec.Scope = slices.Clone(rec.Scope)
	for _, name := range scope {
		if !slices.Contains(rec.Scope, name) {
			rec.Scope = append(rec.Scope, name)
		}
	}
	if use != "" {
		rec.Uses = append(slices.Clone(rec.Uses[max(0, len(rec.Uses)-maxUses+1):]), Use{use, scope})
	}
	return consents.Put(tx, key, rec, time.Time{})
}

// Has tells whether anything is remembered of a person and a client.
func Has(tx storage.Tx, person, clientID string) (bool, error) {
	return consents.Has(tx, storage.Key(person, clientID))
}

// Forget forgets what a person has allowed a client.
func Forget(tx storage.Tx, person, clientID string) error {
	return consents.Delete(tx, storage.Key(person, clientID))
}

// Of returns what a person has allowed, by client.
func Of(tx storage.Tx, person string) iter.Seq2[Given, error] {
	return func(yield func(Given, error) bool) {
		for e, err := range consents.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
			if err != nil {
				yield(Given{}, err)
				return
			}
			if !yield(Given{Record: e.Value, ClientID: storage.Parts(e.Key)[1]}, nil) {
				return
			}
		}
	}
}

// Given is what a person has allowed one client.
type Given struct {
	Record

	ClientID string
}
