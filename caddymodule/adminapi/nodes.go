package adminapi

import (
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

// adminListNodes lists the processes that use the storage.
func adminListNodes(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	return i.Node.List(r.Context())
}

// UpgradeAnswer is the form of records before and after an upgrade was finished.
type UpgradeAnswer struct {
	Before int `json:"before"`
	Now    int `json:"now"`
}

func adminFinishUpgrade(i *Instance, r *http.Request, _ struct{}) (any, error) {
	rec := &audit.Recorder{Now: time.Now, Random: rand.Reader}
	e, err := rec.New(eventUpgradeFinished, audit.Self)
	if err != nil {
		return nil, err
	}
	before, now, err := i.Node.Finish(r.Context(), func(tx storage.Tx) error { return rec.Append(tx, e) })
	if errors.Is(err, cluster.ErrOlder) {
		return nil, badRequestf("%v", err)
	}
	return UpgradeAnswer{Before: before, Now: now}, err
}
