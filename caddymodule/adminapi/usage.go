package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/storage"
)

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
	out := Page[usage.Row]{Items: []usage.Row{}}
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		found, next, err := q.Find(tx)
		out.Items, out.Next = append(out.Items[:0], found...), next
		return err
	})
	if errors.Is(err, usage.ErrCursor) || errors.Is(err, usage.ErrDays) {
		return nil, badRequest{err}
	}
	return out, err
}
