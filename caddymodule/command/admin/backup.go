package admin

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/backup"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// adminBackup streams a copy of the store. The reader notices a stream that breaks off: its end is missing.
func adminBackup(i *Instance, w http.ResponseWriter, r *http.Request) (any, error) {
	if _, ok := i.Store.(storage.Backuper); !ok {
		return nil, badRequestf("%v", backup.ErrUnsupported)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := i.Backups.Copy(r.Context(), w, r.URL.Query().Get("file"), caller(r)); err != nil {
		i.Log.Error("backup failed", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	return nil, nil
}

// txStore lets a function that wants a store work in one transaction.
type txStore struct {
	storage.Store
	tx storage.Tx
}

func (t txStore) Update(_ context.Context, fn func(storage.Tx) error) error { return fn(t.tx) }

func (t txStore) View(_ context.Context, fn func(storage.Tx) error) error { return fn(t.tx) }

// LossAccepted ends every token and session of a store that lacks what was answered, and records it.
func LossAccepted(ctx context.Context) (func(storage.Tx) error, error) {
	rec := &event.Recorder{Now: time.Now, Random: rand.Reader}
	e, err := rec.New(eventLossAccepted, event.Self)
	if err != nil {
		return nil, err
	}
	end := EndOlder(ctx)
	return func(tx storage.Tx) error {
		if err := end(tx); err != nil {
			return err
		}
		return rec.Append(tx, e)
	}, nil
}

// EndOlder ends every token and session of a restored store: some may have been revoked after the backup was made.
func EndOlder(ctx context.Context) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		if err := token.EndEverything(ctx, txStore{tx: tx}); err != nil {
			return err
		}
		return session.EndAllSessions(tx)
	}
}
