package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CallsPage is a part of the recorded calls that a search finds.
type CallsPage struct {
	Items []calllog.Found `json:"items"`
	Next  audit.Cursor    `json:"next,omitempty"` // the value of behind for the following part
}

// adminListCalls answers the calls of the log that the parameters select: since and until (RFC 3339), person, client,
// address, site, path (with * at the end: its beginning), behind and limit.
func adminListCalls(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	s := calllog.Search{Client: q.Get("client"), Address: q.Get("address"), Site: q.Get("site"), Path: q.Get("path")}
	var err error
	if s.Since, s.Until, s.Person, s.Behind, s.Limit, err = i.readSelection(r); err != nil {
		return nil, err
	}
	var out CallsPage
	err = i.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		if out.Items, out.Next, err = s.Find(tx); out.Items == nil {
			out.Items = []calllog.Found{}
		}
		return err
	})
	return out, err
}
