package shared

import (
	"context"
	"crypto/rand"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// recordWait is the time limit for the event of a storage that was opened again.
const recordWait = 15 * time.Second

// The events of the package.
var eventStorageReopened = audit.Type{Type: "storage.StorageReopenedEvent", Name: "Storage Reopened"}

// reopened records that the store was opened again after a failure. Webhooks of the newest configuration hear of it.
func (o *OpenStore) reopened(failure error) {
	rec := o.Recorder.Load()
	if rec == nil {
		rec = &audit.Recorder{Now: time.Now, Random: rand.Reader, Lane: o.Node.Lane}
	}
	e, err := rec.New(eventStorageReopened, audit.Self)
	if err == nil {
		e.Reason = Reason(failure)
		ctx, cancel := context.WithTimeout(context.Background(), recordWait)
		defer cancel()
		err = o.Update(ctx, func(tx storage.Tx) error { return rec.Append(tx, e) })
	}
	if err != nil {
		o.log.Error("no event of the storage that was opened again", zap.Error(err))
	}
}
