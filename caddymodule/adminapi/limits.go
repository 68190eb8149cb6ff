package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/internal/limit"
)

// LimitID is the id of a limit that a caller has used.
type LimitID struct {
	ID string `json:"id"`
}

const mostUses = 100

func adminListLimits(i *Instance, _ http.ResponseWriter, _ *http.Request) (any, error) {
	return i.manage().NearLimits(admin.NearShare, mostUses, time.Now(), nil), nil
}

func adminLiftLimit(i *Instance, r *http.Request, in LimitID) (any, error) {
	err := i.manage().LiftLimit(r.Context(), in.ID, caller(r))
	if errors.Is(err, admin.ErrGone) {
		return nil, badRequestf("%v", limit.ErrUnknown)
	}
	return struct{}{}, err
}
