package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/storage"
)

// adminListCalls answers the calls of the log that the parameters select: since and until (RFC 3339), person, client,
// address, site, path (with * at the end: its beginning), after and limit.
func adminListCalls(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	s := calllog.Search{Client: q.Get("client"), Address: q.Get("address"), Site: q.Get("site"), Path: q.Get("path")}
	var err error
	if s.Since, s.Until, s.Person, s.Behind, s.Limit, err = i.readSelection(r); err != nil {
		return nil, err
	}
	out := Page[calllog.Found]{Items: []calllog.Found{}}
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		found, next, err := s.Find(tx)
		out.Items, out.Next = append(out.Items[:0], found...), afterCursor(next)
		return err
	})
	return out, err
}
