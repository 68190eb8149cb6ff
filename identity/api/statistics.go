package api

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/storage"
)

// statisticsAnswer is the answer of GET /api/v1/statistics/{measure}.
type statisticsAnswer struct {
	Measure string    `json:"measure" rest:"required"`
	By      string    `json:"by,omitempty"`
	Unit    string    `json:"unit" rest:"required"`
	Since   time.Time `json:"since" rest:"required"` // the start of the first bucket
	Until   time.Time `json:"until" rest:"required"`
	// Starts are the starts of the buckets; each of Series has as many counts.
	Starts []time.Time        `json:"starts" rest:"required"`
	Series []statisticsSeries `json:"series" rest:"required"`
}

// statisticsSeries is one line of a chart. The name is empty for what was not split, and for what had no value.
type statisticsSeries struct {
	Name   string  `json:"name"`
	Total  int64   `json:"total"`
	Counts []int64 `json:"counts"`
}

// measuresAnswer is the answer of GET /api/v1/statistics.
type measuresAnswer struct {
	Measures []string `json:"measures" rest:"required"`
}

// handleMeasures serves GET /api/v1/statistics: what is counted. (docs/decisions/events.md#counters)
func (a *API) handleMeasures(w http.ResponseWriter, _ *http.Request, _ string) error {
	jsonapi.JSON(w, http.StatusOK, measuresAnswer{stats.Measures()})
	return nil
}

// handleStatistics serves GET /api/v1/statistics/{measure}. (docs/decisions/events.md#counters)
func (a *API) handleStatistics(w http.ResponseWriter, r *http.Request, client string) error {
	q, table, err := readStatistics(r.URL.RawQuery, r.PathValue("measure"), a.deps.Now())
	if err != nil {
		return err
	}
	if q.Partition, err = a.deps.Gate.Partition(r, client, false); err != nil {
		return err
	}
	var found stats.Answer
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		found, err = stats.Read(tx, q)
		return err
	})
	if bad := new(stats.QueryError); errors.As(err, &bad) {
		return badQuery(bad.Problem)
	}
	if err != nil {
		return err
	}
	if table {
		return writeStatistics(w, found)
	}
	out := statisticsAnswer{
		Measure: q.Measure, By: string(q.By), Unit: string(q.Unit), Since: found.Starts[0], Until: q.Until.UTC(), Starts: found.Starts,
		Series: []statisticsSeries{},
	}
	for _, s := range found.Series {
		out.Series = append(out.Series, statisticsSeries(s))
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// writeStatistics answers with a table for spreadsheets.
func writeStatistics(w http.ResponseWriter, found stats.Answer) error {
	h := w.Header()
	h.Set("Content-Type", csvfile.Type)
	h.Set("Content-Disposition", `attachment; filename="statistics.csv"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	out := csvfile.New(w, "start", "name", "count")
	for _, s := range found.Series {
		for i, n := range s.Counts {
			out.Row(found.Starts[i].Format(time.RFC3339), s.Name, strconv.FormatInt(n, 10))
		}
	}
	_ = out.Flush() // the client has gone
	return nil
}

// readStatistics reads the parameters by, unit, since, until and format, each at most once.
func readStatistics(raw, measure string, now time.Time) (q stats.Query, table bool, err error) {
	if len(raw) > maxQuery {
		return q, false, badQuery("the query is too long")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, false, badQuery("the query is malformed").With(err)
	}
	for _, name := range []string{"by", "unit", "since", "until", "format"} {
		if len(values[name]) > 1 {
			return q, false, badQuery(name + " is there twice")
		}
	}
	q = stats.Query{Measure: measure, By: stats.Dimension(values.Get("by")), Unit: stats.Unit(values.Get("unit"))}
	if q.Unit == "" {
		q.Unit = stats.Day
	}
	switch values.Get("format") {
	case "", "json":
	case "csv":
		table = true
	default:
		return q, false, badQuery("format must be json or csv")
	}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := values.Get(name); s != "" {
			var ok bool
			if *to, ok = moment(s); !ok {
				return q, false, badQuery(name + " must be a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970")
			}
		}
	}
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-map[stats.Unit]time.Duration{
			stats.Minute: time.Hour, stats.Hour: 24 * time.Hour,
			stats.Day: 30 * 24 * time.Hour,
		}[q.Unit])
	}
	return q, table, nil
}
