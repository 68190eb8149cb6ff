package api

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxRows and listed are how many persons of a page there can be, and are without a limit.
const (
	maxRows = 1000
	listed  = 100
)

// personsAnswer is the answer of GET /api/persons.
type personsAnswer struct {
	Persons []listedPerson `json:"persons" rest:"required"`
	// Next continues the list as after. Absent: this is its end. A page can be short, even empty, and have it.
	Next string `json:"next,omitempty"`
}

// listedPerson is a person in a list.
type listedPerson struct {
	person.Person

	LastSignIn time.Time `json:"last_sign_in,omitzero"` // absent: none is known
}

// handlePersons serves GET /api/persons: a list of persons, or a search. (docs/decisions/events.md#lists)
func (a *API) handlePersons(w http.ResponseWriter, r *http.Request, client string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(r.URL.RawQuery) > maxQuery {
		return badQuery("the query is malformed or too long")
	}
	q, table, err := readPersonsQuery(values)
	if err != nil {
		return err
	}
	if q.Partition, err = a.deps.Gate.Partition(r, client, true); err != nil {
		return err
	}
	persons := a.deps.Identity.Person
	var page personindex.Answer
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		if name := values.Get("group"); name != "" {
			g, err := persons.Group(tx, q.Partition, name)
			if err != nil {
				return err
			}
			q.Group = g.ID
		}
		if table {
			return nil
		}
		var err error
		page, err = personindex.Find(tx, persons, q)
		return err
	})
	if err == nil && table {
		err = csvfile.Answer(w, "persons.csv", func(w io.Writer) error { return personindex.Export(r.Context(), a.deps.Store, persons, q, w) })
	}
	switch {
	case errors.Is(err, person.ErrNoGroup):
		return badQuery("group: there is no such group")
	case errors.Is(err, personindex.ErrCursor):
		return badQuery("after must be the value of next in the previous page, with the same parameters")
	case err != nil || table:
		return err
	}
	out := personsAnswer{Persons: []listedPerson{}, Next: page.Next}
	for _, f := range page.Persons {
		out.Persons = append(out.Persons, listedPerson{f.Person, f.Seen})
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// readPersonsQuery reads the parameters, each at most once.
func readPersonsQuery(values url.Values) (q personindex.Query, table bool, err error) {
	for _, name := range []string{"text", "group", "state", "seen_since", "seen_before", "order", "limit", "after", "format"} {
		if len(values[name]) > 1 {
			return q, false, badQuery(name + " is there twice")
		}
	}
	q = personindex.Query{Text: values.Get("text"), State: person.State(values.Get("state")), After: values.Get("after"), Limit: listed}
	switch q.State {
	case "", person.Active, person.Inactive, person.Blocked, person.Removed:
	default:
		return q, false, badQuery("state must be ACTIVE, INACTIVE, BLOCKED or REMOVED")
	}
	switch values.Get("order") {
	case "":
	case "recent":
		q.Recent = true
	default:
		return q, false, badQuery("order must be recent, or absent")
	}
	switch values.Get("format") {
	case "", "json":
	case "csv":
		table = true
	default:
		return q, false, badQuery("format must be json or csv")
	}
	if values.Has("limit") {
		var ok bool
		if q.Limit, ok = number(values["limit"], 1, maxRows); !ok {
			return q, false, badLimit()
		}
	}
	for name, to := range map[string]*time.Time{"seen_since": &q.SeenSince, "seen_before": &q.SeenBefore} {
		if s := values.Get(name); s != "" {
			var ok bool
			if *to, ok = moment(s); !ok {
				return q, false, badQuery(name + " must be a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970")
			}
		}
	}
	return q, table, nil
}
