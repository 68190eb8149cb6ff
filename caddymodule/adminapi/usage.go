package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/storage"
)

// UsagePage is a part of the usage that a query selects.
type UsagePage struct {
	Items []usage.Row `json:"items"`
	Next  string      `json:"next,omitempty"` // the value of after for the following part
}

// adminUsage answers the usage that the parameters select: from and to (2026-01-31), client, site, after and limit.
func adminUsage(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	v := r.URL.Query()
	q, err := usage.ParseQuery(v, time.Now())
	if err != nil {
		return nil, badRequest{err}
	}
	if q.Limit, err = pageSize(v.Get("limit")); err != nil {
		return nil, err
	}
	var out UsagePage
	err = i.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		if out.Items, out.Next, err = q.Find(tx); out.Items == nil {
			out.Items = []usage.Row{}
		}
		return err
	})
	if errors.Is(err, usage.ErrCursor) || errors.Is(err, usage.ErrDays) {
		return nil, badRequest{err}
	}
	return out, err
}
