package adminapi

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// BackupID is the header with the id of a backup, by which the command says what has become of it.
const BackupID = "Gatehouse-Backup"

// FinishedBackup says that a backup is kept, or what the problem was.
type FinishedBackup struct {
	ID      string `json:"id"`
	Problem string `json:"problem,omitempty"`
}

// adminBackup streams a copy of the store. The reader notices a stream that breaks off: its end is missing.
func adminBackup(i *Instance, w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := i.Backups.Begin(r.Context(), r.URL.Query().Get("file"), caller(r))
	if err != nil {
		return nil, badRequestf("%v", err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(BackupID, id)
	if err := i.Backups.Copy(r.Context(), w, id, caller(r)); err != nil {
		i.Log.Error("backup failed", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	return nil, nil
}

func adminFinishBackup(i *Instance, r *http.Request, in FinishedBackup) (any, error) {
	return Outcome{"noted"}, i.Backups.Finish(r.Context(), in.ID, in.Problem, caller(r))
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
	rec := &audit.Recorder{Now: time.Now, Random: rand.Reader}
	e, err := rec.New(eventLossAccepted, audit.Self)
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
