package api

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxLimit = 1000 // events of a page
	maxQuery = 8192 // bytes
)

// resultSet is the answer of the events API. (identity service document, "Events API records")
type resultSet struct {
	ResultSet  []audit.Info `json:"resultSet"`
	Pagination pagination   `json:"pagination"`
}

type pagination struct {
	Offset       int `json:"offset"`
	PageSize     int `json:"pageSize"` // the limit of the request
	TotalResults int `json:"totalResults"`
}

// handleEvents serves GET /api/events (identity service document, "Events API"). A page and its total come from one
// snapshot.
func (a *API) handleEvents(w http.ResponseWriter, r *http.Request, client string) error {
	q, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if q.Partition, err = a.deps.Gate.Partition(r, client, false); err != nil {
		return err
	}
	answer := resultSet{Pagination: pagination{Offset: q.Offset, PageSize: q.Limit}}
	err = a.deps.Store.View(r.Context(), func(tx storage.Tx) error {
		found, total, err := audit.Find(tx, q)
		if err != nil {
			return err
		}
		answer.Pagination.TotalResults = total
		answer.ResultSet = make([]audit.Info, len(found))
		names := map[string]string{}
		for i, e := range found {
			if answer.ResultSet[i], err = a.info(tx, e, names); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, audit.ErrTooMany) {
		return badQuery("there are too many events to look through: ask for a shorter time").With(err)
	}
	if err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, answer)
	return nil
}

func (a *API) info(tx storage.Tx, e audit.Event, names map[string]string) (audit.Info, error) {
	info := e.Info()
	if e.AgentUser == "" && e.Actor != "" {
		var err error
		if info.EventAgentUser, err = a.nameOf(tx, e.Actor, names); err != nil {
			return audit.Info{}, err
		}
	}
	return info, nil
}

// nameOf returns the username of an actor whose event does not hold it, or the id of an actor that is not a person.
func (a *API) nameOf(tx storage.Tx, actor string, names map[string]string) (string, error) {
	if name, ok := names[actor]; ok {
		return name, nil
	}
	name := actor
	if a.deps.Subject != nil {
		s, err := a.deps.Subject(tx, actor)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return "", err
		}
		if s.Username != "" {
			name = s.Username
		}
	}
	names[actor] = name
	return name, nil
}

// readQuery reads the parameters actor, userId, limit, offset, since and until, each at most once. Other parameters are
// ignored.
func readQuery(raw string) (q audit.Query, err error) {
	if len(raw) > maxQuery {
		return q, badQuery("the query is too long")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, badQuery("the query is malformed").With(err)
	}
	for _, name := range []string{"userId", "actor", "since", "until"} {
		if len(values[name]) > 1 {
			return q, badQuery(name + " is there twice")
		}
	}
	q.Person, q.Actor = fold(values.Get("userId")), fold(values.Get("actor"))
	if q.Person == "" && q.Actor == "" {
		return q, noIDs()
	}
	var ok bool
	if q.Limit, ok = number(values["limit"], 1, maxLimit); !ok {
		return q, badLimit()
	}
	if q.Offset, ok = number(values["offset"], 0, math.MaxInt32); !ok { // int32 on the wire
		return q, badOffset()
	}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := values.Get(name); s != "" {
			if *to, ok = moment(s); !ok {
				return q, badQuery(name + " must be a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970")
			}
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, badQuery("since must be before until")
	}
	return q, nil
}

// moment reads a time as RFC 3339, or as events have it: milliseconds since 1970.
func moment(s string) (time.Time, bool) {
	if n, ok := number([]string{s}, 1, math.MaxInt64/int(time.Millisecond)); ok {
		return time.UnixMilli(int64(n)), true
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil && t.Unix() > 0
}

// fold: a UUID is the same in either case (RFC 9562 4). Actors may have other names.
func fold(id string) string {
	if _, err := uuid.Parse(id); err == nil && len(id) == 36 {
		return strings.ToLower(id)
	}
	return id
}

// number reads the one value of a parameter: decimal digits and nothing else.
func number(values []string, low, high int) (int, bool) {
	if len(values) != 1 || values[0] == "" || strings.Trim(values[0], "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(values[0])
	return n, err == nil && n >= low && n <= high
}
