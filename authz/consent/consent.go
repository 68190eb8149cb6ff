// Package consent remembers which scopes and claims people have allowed each client. The page that asks is in package
// authz.
package consent

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Wish is the request of a client for consent.
type Wish struct {
	// Use is the hash of the permissions besides scopes. Empty: none, so the tokens open all that accepts the scopes.
	Use     string
	Scope   []string
	Details string // authorization details in JSON
}

// ForResources returns the use of tokens that are for these resources and no others.
func ForResources(resources []string) string {
	if len(resources) == 0 {
		return ""
	}
	return secret.Hash(strings.Join(slices.Sorted(slices.Values(resources)), "\n"))
}

// Covers reports whether a person has allowed a client all of a wish, by any use. It is false for no scopes too when
// nothing is remembered.
func Covers(tx storage.Tx, person, clientID string, w Wish) (bool, error) {
	given, found, err := consents.Find(tx, storage.Key(person, clientID))
	return found && client.IsSubset(w.Scope, given.Scope) && rar.Covers(given.Details, w.Details), err
}

// The bounds of the uses that are remembered of a person and a client.
const (
	maxUses    = 50
	maxUseText = 128 << 10 // bytes of authorization details
)

// Allows reports whether a person has allowed a client a wish before, by the same use.
func Allows(tx storage.Tx, person, clientID string, w Wish) (bool, error) {
	given, _, err := consents.Find(tx, storage.Key(person, clientID))
	if w.Use == "" {
		plain := given.Plain
		return plain != nil && client.IsSubset(w.Scope, plain.Scope) && rar.Covers(plain.Details, w.Details), err
	}
	return slices.ContainsFunc(given.Uses, func(u Use) bool {
		return u.For == w.Use && client.IsSubset(w.Scope, u.Scope) && rar.Covers(rar.Split(u.Details), w.Details)
	}), err
}

// Remember adds a wish to what the person has allowed the client.
func Remember(tx storage.Tx, person, clientID string, w Wish, now time.Time) error {
	key := storage.Key(person, clientID)
	rec, found, err := consents.Find(tx, key)
	if err != nil {
		return err
	}
	if !found {
		rec.CreatedAt = now
	}
	rec.UpdatedAt = now
	rec.Scope, rec.Details = union(rec.Scope, w.Scope), rar.Remember(rec.Details, w.Details)
	if w.Use == "" {
		plain := Plain{}
		if rec.Plain != nil {
			plain = *rec.Plain
		}
		rec.Plain = &Plain{Scope: union(plain.Scope, w.Scope), Details: rar.Remember(plain.Details, w.Details)}
	} else {
		rec.Uses = newest(append(slices.Clone(rec.Uses), Use{w.Use, w.Scope, w.Details}))
	}
	return consents.Put(tx, key, rec, time.Time{})
}

// union returns the scopes of both lists, once each.
func union(scope, more []string) []string {
	scope = slices.Clone(scope)
	for _, name := range more {
		if !slices.Contains(scope, name) {
			scope = append(scope, name)
		}
	}
	return scope
}

// newest returns the last of the uses, within the bounds.
func newest(uses []Use) []Use {
	uses = uses[max(0, len(uses)-maxUses):]
	size := 0
	for i := len(uses) - 1; i >= 0; i-- {
		if size += len(uses[i].Details); size > maxUseText {
			return uses[i+1:]
		}
	}
	return uses
}

// Scopes returns the scopes that a person has allowed a client, by any use.
func Scopes(tx storage.Tx, person, clientID string) ([]string, error) {
	given, _, err := consents.Find(tx, storage.Key(person, clientID))
	return given.Scope, err
}

// Has reports whether anything is remembered of a person and a client.
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

// Given is the consent of a person for one client.
type Given struct {
	Record

	ClientID string
}
