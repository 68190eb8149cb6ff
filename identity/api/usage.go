package api

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/storage"
)

// usageAnswer is the answer of GET /api/v1/usage.
type usageAnswer struct {
	Usage []usage.Row `json:"usage" rest:"required"`
	Next  string      `json:"next,omitempty"` // after of the following page
}

// handleUsage serves GET /api/v1/usage: the requests of each client by site and day.
// (docs/decisions/gateway.md#usage)
func (a *API) handleUsage(w http.ResponseWriter, r *http.Request, client string) error {
	q, table, err := a.readUsage(r.URL.RawQuery)
	if err != nil {
		return err
	}
	partition, err := a.deps.Gate.Partition(r, client, false)
	if err != nil {
		return err
	}
	if partition != "" {
		return &jsonapi.Error{Status: http.StatusForbidden, Message: "usage is counted for all partitions together"}
	}
	out := usageAnswer{Usage: []usage.Row{}}
	if table {
		err = csvfile.Answer(w, "usage.csv", func(w io.Writer) error { return q.Export(r.Context(), a.deps.Store, w) })
	} else {
		err = a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
			rows, next, err := q.Find(tx)
			out = usageAnswer{append([]usage.Row{}, rows...), next}
			return err
		})
	}
	if errors.Is(err, usage.ErrCursor) || errors.Is(err, usage.ErrDays) {
		return badQuery(err.Error())
	}
	if err == nil && !table {
		jsonapi.JSON(w, http.StatusOK, out)
	}
	return err
}

// readUsage reads the parameters, each at most once.
func (a *API) readUsage(raw string) (q usage.Query, table bool, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil || len(raw) > maxQuery {
		return q, false, badQuery("the query is malformed or too long")
	}
	for _, name := range []string{"from", "to", "client", "site", "limit", "after", "format"} {
		if len(values[name]) > 1 {
			return q, false, badQuery(name + " is there twice")
		}
	}
	if q, err = usage.ParseQuery(values, a.deps.Now()); err != nil {
		return q, false, badQuery(err.Error())
	}
	q.Limit = listed
	if values.Has("limit") {
		var ok bool
		if q.Limit, ok = number(values["limit"], 1, maxRows); !ok {
			return q, false, badLimit()
		}
	}
	switch values.Get("format") {
	case "", "json":
		return q, false, nil
	case "csv":
		return q, true, nil
	}
	return q, false, badQuery("format must be json or csv")
}
