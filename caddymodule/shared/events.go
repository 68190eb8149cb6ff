package shared

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// recordWait is the time limit for the event of a storage that was opened again.
const recordWait = 15 * time.Second

// The events of the package.
var (
	eventStorageReopened = audit.Type{Type: "storage.StorageReopenedEvent", Name: "Storage Reopened"}
	eventQuotaReached    = audit.Type{Type: "quota.QuotaReachedEvent", Name: "Quota Reached"}
)

// TellContact tells the owner of a client that a share of a quota is used, in percent.
type TellContact func(tx storage.Tx, u limit.Use, percent int64, at time.Time) error

// announce makes the event of a quota that is nearly or wholly used up.
func (o *OpenStore) announce() limit.Tell {
	rec := o.Recorder.Load()
	if rec == nil {
		return nil
	}
	e, err := rec.New(eventQuotaReached, audit.Self)
	if err != nil {
		return nil
	}
	return func(tx storage.Tx, u limit.Use, percent int64) error {
		e := e
		e.Reason = fmt.Sprintf("%d%% of %s: %d of %d", percent, u.About, u.Used, u.Limit)
		switch {
		case u.Name == "": // of a site or a token
		case u.Addr[0] == limit.AClient:
			e.ClientID = u.Name
		case u.Addr[0] == limit.APerson:
			e.PersonID = u.Name
		default:
			e.Reason += " (" + u.Name + ")"
		}
		if err := rec.Append(tx, e); err != nil {
			return err
		}
		if tell := o.Contact.Load(); tell != nil && e.ClientID != "" {
			return tell(tx, u, percent, e.Occurred)
		}
		return nil
	}
}

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
