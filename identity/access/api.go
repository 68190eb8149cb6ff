package access

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// APIDeps are the dependencies of the API, besides the requests. All are required.
type APIDeps struct {
	// Gate lets API clients in.
	Gate *jsonapi.Gate
	// PartitionOf returns the partition of a person.
	PartitionOf func(tx storage.Tx, personID string) (string, error)
	// Origin says where a request came from.
	Origin func(*http.Request) audit.Origin
}

// API serves the requests to API clients. What it does is what the commands do. It is safe for concurrent use.
// (docs/decisions/gateway.md#requested-access)
type API struct {
	s    *Service
	deps APIDeps
	mux  http.Handler
}

// NewAPI returns the API of the requests.
func NewAPI(s *Service, deps APIDeps) *API {
	a := &API{s: s, deps: deps}
	a.mux = a.routes()
	return a
}

// ServeHTTP implements http.Handler for what Paths names.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

const (
	maxBody      = 8 << 10
	maxQuery     = 4 << 10
	defaultLimit = 100
	maxLimit     = 1000
)

// page is a part of the list. Next is the parameter after of the next part; it is missing in the last one.
type page struct {
	Items []Request `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// noteRequest is the body of a refusal or withdrawal.
type noteRequest struct {
	Note string `json:"note,omitempty"`
}

// grantRequest is the body of a grant.
type grantRequest struct {
	For  string `json:"for,omitempty"`
	Uses int    `json:"uses,omitempty"`
	Note string `json:"note,omitempty"`
}

// handleList serves GET /api/access-requests.
func (a *API) handleList(w http.ResponseWriter, r *http.Request, client string) error {
	f, err := readFilter(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if f.Sees, err = a.sees(r, client); err != nil {
		return err
	}
	f.Limit++
	items, err := a.s.List(r.Context(), f)
	if err != nil {
		return err
	}
	out := page{Items: items}
	if len(items) == f.Limit {
		out.Items = items[:f.Limit-1]
		out.Next = out.Items[f.Limit-2].ID
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

// readFilter reads the parameters state, person_id, site, after and limit, each at most once. Others are refused: a
// misspelled filter would return everything.
func readFilter(raw string) (f Filter, err error) {
	if len(raw) > maxQuery {
		return f, badQuery("the query is too long")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return f, badQuery("the query is malformed").With(err)
	}
	f.Limit = defaultLimit
	for name, given := range values {
		if len(given) > 1 {
			return f, badQuery("a parameter is there twice")
		}
		ok := true
		switch value := given[0]; name {
		case "state":
			f.State, ok = State(value), slices.Contains([]State{Open, Granted, Refused, Revoked}, State(value))
		case "person_id":
			f.Person = value
		case "site":
			f.Site = value
		case "after":
			_, _, ok = parseID(value)
			f.After = value
		case "limit":
			f.Limit, err = strconv.Atoi(value)
			ok = err == nil && f.Limit >= 1 && f.Limit <= maxLimit
		default:
			return f, badQuery("a parameter is not one of state, person_id, site, after and limit")
		}
		if !ok {
			return f, badQuery(name + " is invalid")
		}
	}
	return f, nil
}

// sees returns which persons an API client knows of: those of its partitions, or of the one that the request names.
// nil: all.
func (a *API) sees(r *http.Request, client string) (func(storage.Tx, string) (bool, error), error) {
	partition, err := a.deps.Gate.Partition(r, client, false)
	if err != nil || partition == "" {
		return nil, err
	}
	return func(tx storage.Tx, personID string) (bool, error) {
		of, err := a.deps.PartitionOf(tx, personID)
		return of == partition, err
	}, nil
}

// find returns the person and site of the request that the path names. One that the API client must not know is
// unknown.
func (a *API) find(r *http.Request, client string) (personID, site string, err error) {
	personID, site, ok := parseID(r.PathValue("id"))
	if !ok {
		return "", "", jsonapi.NotFound()
	}
	sees, err := a.sees(r, client)
	if err != nil || sees == nil {
		return personID, site, err
	}
	err = a.s.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		ok, err = sees(tx, personID)
		return err
	})
	if err == nil && !ok {
		err = jsonapi.NotFound()
	}
	return personID, site, err
}

// handleGet serves GET /api/access-requests/{id}.
func (a *API) handleGet(w http.ResponseWriter, r *http.Request, client string) error {
	personID, site, err := a.find(r, client)
	if err != nil {
		return err
	}
	return answer(w, func() (Request, error) { return a.s.Find(r.Context(), personID, site) })
}

// handleGrant serves POST /api/access-requests/{id}/grant.
func (a *API) handleGrant(w http.ResponseWriter, r *http.Request, client string) error {
	personID, site, err := a.find(r, client)
	if err != nil {
		return err
	}
	var in grantRequest
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	terms := Terms{Uses: in.Uses}
	if in.For != "" {
		if terms.For, err = time.ParseDuration(in.For); err != nil || terms.For <= 0 {
			return jsonapi.Invalid(jsonapi.Problem{Path: "for", Problem: "must be a duration such as 8h"})
		}
	}
	return answer(w, func() (Request, error) {
		return a.s.Grant(r.Context(), personID, site, terms, in.Note, a.actor(r, client))
	})
}

// handleRefuse serves POST /api/access-requests/{id}/refuse.
func (a *API) handleRefuse(w http.ResponseWriter, r *http.Request, client string) error {
	return a.decide(w, r, client, a.s.Refuse)
}

// handleRevoke serves POST /api/access-requests/{id}/revoke.
func (a *API) handleRevoke(w http.ResponseWriter, r *http.Request, client string) error {
	return a.decide(w, r, client, a.s.Revoke)
}

func (a *API) decide(w http.ResponseWriter, r *http.Request, client string, decide Decision) error {
	personID, site, err := a.find(r, client)
	if err != nil {
		return err
	}
	var in noteRequest
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	return answer(w, func() (Request, error) { return decide(r.Context(), personID, site, in.Note, a.actor(r, client)) })
}

func answer(w http.ResponseWriter, do func() (Request, error)) error {
	out, err := do()
	if err != nil {
		return refused(err)
	}
	jsonapi.JSON(w, http.StatusOK, out)
	return nil
}

func (a *API) actor(r *http.Request, client string) audit.Actor {
	return audit.Actor{ID: client, Name: client, Origin: a.deps.Origin(r)}
}
