// Package token is the ledger of issued tokens. It drafts, stores, reads and revokes grants, access tokens and ID
// tokens, and keeps the epochs that revoke many of them at once.
package token

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Ledger issues, reads and revokes the grants of persons and access tokens, and determines the subject by which a
// client knows a person.
type Ledger struct {
	deps   Deps
	issuer string
	global *globalState
	// pairwise is the key of pairwise subjects.
	pairwise *secret.MACKey
	pace     pace
	answers  *depcache.Cache[*cachedIntrospection] // about tokens
	jwts     *depcache.Cache[jwt]                  // that were verified
}

// Deps are the dependencies of the ledger. All but Verified are required.
type Deps struct {
	Store    storage.Store
	Keys     *keys.Keys
	Keyring  *secret.Keyring
	Events   *audit.Recorder
	Subjects Subjects
	Clients  *clientstore.Registry
	Now      func() time.Time
	Random   io.Reader
	// Verified reports whether the settings offer verified claims. nil: they do not.
	Verified func(tx storage.Tx) (bool, error)
}

// Subjects reads persons inside a transaction.
type Subjects interface {
	// Get returns the state of a person, or storage.ErrNotFound.
	Get(tx storage.Tx, subject string) (authn.Subject, error)
	// SignsIn reports whether people can sign in by a provider: it exists and is not disabled.
	SignsIn(tx storage.Tx, provider string) (bool, error)
	// Permissions returns the permissions of groups of a partition by the groups' names; a group without any has an
	// empty list.
	Permissions(tx storage.Tx, partition string, groups []string) (map[string][]string, error)
}

// New returns the ledger of a store. Several can share one.
func New(ctx context.Context, issuer string, deps Deps) (*Ledger, error) {
	l := &Ledger{
		deps: deps, issuer: issuer, answers: depcache.New(deps.Store, answersKept, (*cachedIntrospection).weigh),
		jwts: depcache.New(deps.Store, jwtsKept, func(j jwt) int { return len(j.key) }),
	}
	var err error
	if l.global, err = loadGlobalState(ctx, deps.Store); err != nil {
		return nil, err
	}
	key, err := loadPairwise(ctx, deps.Store, deps.Keyring, deps.Random)
	l.pairwise = secret.NewMACKey(key)
	return l, err
}

// update is Store.Update whose failures are 503: it is unknown what was written.
func (l *Ledger) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(l.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (l *Ledger) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(l.deps.Store.View(ctx, fn))
}

func (l *Ledger) now() time.Time { return l.deps.Now().UTC() }

// ProviderCounts reports whether a sign-in by a provider still counts, because people can sign in by it. "": the
// provider is not known, and it does.
func (l *Ledger) ProviderCounts(tx storage.Tx, provider string) (bool, error) {
	if provider == "" {
		return true, nil
	}
	return l.deps.Subjects.SignsIn(tx, provider)
}

// Standing is the current state of what a record depends on.
type Standing struct {
	Client  *client.Client // nil: no client was asked for
	Subject authn.Subject  // zero: no person was asked for
	Epochs  Epochs
	// Refused is the reason why the person may not use the client. nil: they may, or it was not checked.
	Refused error
}

// CheckStanding reads a client and a person. It is false when one of them is missing, disabled or blocked, or when the
// person may not use the client, which makes all their records invalid. An empty clientID or subject is not read.
func (l *Ledger) CheckStanding(tx storage.Tx, clientID, subject string) (st Standing, ok bool, err error) {
	keys := [][]byte{globals.Key(globalKey)}
	if clientID != "" {
		keys = append(keys, l.deps.Clients.EpochKeys(clientID)...)
	}
	values, err := tx.GetMany(keys...)
	if err != nil {
		return st, false, err
	}
	// From storage, not from memory alone: another process can have raised it.
	if st.Epochs.Global, err = l.globalEpoch(values[0]); err != nil {
		return st, false, err
	}
	if clientID != "" {
		c, epoch, err := l.deps.Clients.DecodeWithEpoch(clientID, values[1:])
		if err != nil || c == nil || c.Disabled {
			return st, false, err
		}
		st.Client, st.Epochs.Client = c, epoch
	}
	if subject != "" {
		sub, err := l.deps.Subjects.Get(tx, subject)
		if errors.Is(err, storage.ErrNotFound) || (err == nil && !sub.Active) {
			return st, false, nil
		}
		if err != nil {
			return st, false, err
		}
		st.Subject, st.Epochs.Person = sub, sub.Epoch
		if st.Client != nil {
			st.Refused = l.deps.Clients.MayPerson(st.Client, &sub)
		}
	}
	return st, st.Refused == nil, nil
}
