package usage

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxRead bounds the records that one search reads.
const maxRead = 20_000

// Query selects the usage of days. Empty members select everything.
type Query struct {
	Client, Site string
	Since, Until time.Time // from the day of Since on, and before Until
	After        string    // next of the page before
	Limit        int
}

// Row is the number of requests of a client at a site on a day.
type Row struct {
	Day      string `json:"day"` // 2026-01-31
	Client   string `json:"client_id"`
	Site     string `json:"site"`
	Requests int64  `json:"requests"`          // that passed
	Limited  int64  `json:"limited,omitempty"` // that a limit or quota has refused
}

// Columns are those of Cells.
var Columns = []string{"day", "client_id", "site", "requests", "limited"}

// Cells are the values of a row.
func (r *Row) Cells() []string {
	return []string{r.Day, r.Client, r.Site, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Limited, 10)}
}

const (
	dayForm = "2006-01-02"
	// usual is the number of days of a query that names none.
	usual = 30
)

// Errors of a query.
var (
	ErrCursor = errors.New("after must be the value of next in the previous page, with the same parameters")
	ErrDays   = errors.New("the first day must not be after the last, and at most 750 days are kept")
)

// DayError says which parameter is no day.
type DayError struct{ Param string }

// Error implements error.
func (e *DayError) Error() string { return e.Param + " must be a day such as 2026-01-31" }

// ParseQuery reads the parameters from and to (days, both included), client, site and after. Without days it selects
// the last thirty ones. The error is a *DayError.
func ParseQuery(v url.Values, now time.Time) (q Query, err error) {
	q = Query{Client: strings.TrimSpace(v.Get("client")), Site: strings.TrimSpace(v.Get("site")), After: v.Get("after")}
	if _, host, ok := strings.Cut(q.Site, "://"); ok {
		q.Site = strings.TrimSuffix(host, "/")
	}
	q.Until = now.UTC().Truncate(day)
	for name, to := range map[string]*time.Time{"from": &q.Since, "to": &q.Until} {
		if text := v.Get(name); text != "" {
			if *to, err = time.Parse(dayForm, text); err != nil {
				return q, &DayError{name}
			}
		}
	}
	q.Until = q.Until.Add(day)
	if q.Since.IsZero() {
		q.Since = q.Until.AddDate(0, 0, -usual)
	}
	return q, nil
}

// Find returns what a query selects, the newest days first, and the value of After for the following page. next empty:
// there is no more. rows can be short although there is more: a query reads a bounded number of records.
func (q Query) Find(tx storage.Tx) (rows []Row, next string, err error) {
	first, last := q.Since.Unix()/daySeconds, (q.Until.Unix()-1)/daySeconds
	if first > last || first < 0 || last-first > int64(kept/day) {
		return nil, "", ErrDays
	}
	after := dayKey(last + 1)
	if q.After != "" {
		raw, err := base64.RawURLEncoding.DecodeString(q.After)
		if after = string(raw); err != nil || len(raw) < len(dayKey(0)) {
			return nil, "", ErrCursor
		}
		last = min(last, dayOf(after))
	}
	left := maxRead
	// One client has its records side by side on each day.
	part := func(prefix, after string) (more bool, err error) {
		for e, err := range amounts.Scan(tx, storage.Range{Prefix: []byte(prefix), After: []byte(after), Descending: true}) {
			if err != nil {
				return false, err
			}
			day := dayOf(e.Key)
			if day < first {
				return false, nil
			}
			if q.Site == "" || q.Site == e.Value.Site {
				rows = append(rows, Row{startOf(day).Format(dayForm), e.Value.Client, e.Value.Site, e.Value.Passed, e.Value.Limited})
			}
			if left--; len(rows) == q.Limit || left <= 0 {
				next = base64.RawURLEncoding.EncodeToString([]byte(e.Key))
				return false, nil
			}
		}
		return true, nil
	}
	if q.Client == "" {
		_, err = part("", after)
		return rows, next, err
	}
	for day := last; day >= first; day-- {
		prefix := dayKey(day) + string(storage.Prefix(q.Client))
		more, err := part(prefix, min(after, prefix+"\xff"))
		if err != nil || !more {
			return rows, next, err
		}
	}
	return rows, "", nil
}

// Export writes all that a query selects as a CSV file, in several transactions.
func (q Query) Export(ctx context.Context, store storage.Store, w io.Writer) error {
	q.Limit = perUpdate
	out := csvfile.New(w, Columns...)
	for {
		var rows []Row
		next := ""
		err := store.View(ctx, func(tx storage.Tx) (err error) {
			rows, next, err = q.Find(tx)
			return err
		})
		if err != nil {
			return err
		}
		for i := range rows {
			out.Row(rows[i].Cells()...)
		}
		if q.After = next; next == "" {
			return out.Flush()
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
