package authz

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ledger is what was issued and is not forgotten yet: grants of persons and access tokens. It issues, reads and ends
// them, and says by which subject a client knows a person.
type ledger struct {
	deps   ledgerDeps
	issuer string
	global *globalState
	// pairwise is the key of pairwise subjects.
	pairwise []byte
}

// ledgerDeps is what the ledger works with. All are required.
type ledgerDeps struct {
	Store    storage.Store
	Keys     *Keys
	Keyring  *secret.Keyring
	Events   *event.Recorder
	Subjects subjectReader
	Clients  *registry
	Now      func() time.Time
	Random   io.Reader
}

// subjectReader reads persons inside a transaction.
type subjectReader interface {
	// Get returns the state of a person, or storage.ErrNotFound.
	Get(tx storage.Tx, subject string) (login.Subject, error)
}

// newLedger returns the ledger of a store. Several can share one.
func newLedger(ctx context.Context, issuer string, deps ledgerDeps) (*ledger, error) {
	l := &ledger{deps: deps, issuer: issuer}
	var err error
	if l.global, err = loadGlobalState(ctx, deps.Store); err != nil {
		return nil, err
	}
	l.pairwise, err = loadPairwise(ctx, deps.Store, deps.Keyring, deps.Random)
	return l, err
}

// update is Store.Update whose failures are 503: nobody knows what was written.
func (l *ledger) update(ctx context.Context, fn func(storage.Tx) error) error {
	return storageError(l.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (l *ledger) view(ctx context.Context, fn func(storage.Tx) error) error {
	return storageError(l.deps.Store.View(ctx, fn))
}

func (l *ledger) now() time.Time { return l.deps.Now().UTC() }

// standing is what a record hangs on, as it is now.
type standing struct {
	Client  *Client       // nil where no client was asked for
	Subject login.Subject // zero where no person was asked for
	Epochs  epochs
}

// standing reads client and person. It is false when one of them is not there, disabled or blocked: then nothing of theirs
// is valid. An empty clientID or subject is not looked at.
func (l *ledger) standing(tx storage.Tx, clientID, subject string) (standing, bool, error) {
	st := standing{Epochs: epochs{Global: l.global.epoch.Load()}}
	if clientID != "" {
		c, state, err := l.deps.Clients.state(tx, clientID)
		if err != nil || c == nil || c.Disabled {
			return st, false, err
		}
		st.Client, st.Epochs.Client = c, state.Epoch
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
	}
	return st, true, nil
}
