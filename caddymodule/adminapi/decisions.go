package adminapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	"github.com/gatehouse-id/gatehouse/storage"
)

// DecisionsAnswer are the decisions of sites with shadow rules.
type DecisionsAnswer struct {
	Items []decisionlog.Decision `json:"items"`
	// Profiles are the claims of the persons as they are now, by the ids of the persons.
	Profiles map[string]map[string]string `json:"profiles"`
	// Lost is the number of decisions that were not kept since the server has started.
	Lost int64 `json:"lost,omitempty"`
}

func adminListDecisions(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	if err != nil {
		return nil, badRequestf("since: want a time such as 2026-11-22T18:30:00Z")
	}
	out := DecisionsAnswer{Items: []decisionlog.Decision{}}
	list, lost, err := i.Decisions.List(r.Context(), since)
	if err != nil {
		return nil, err
	}
	out.Items, out.Lost = append(out.Items, list...), lost
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		out.Profiles = map[string]map[string]string{}
		for _, d := range list {
			if _, known := out.Profiles[d.PersonID]; known || d.PersonID == "" {
				continue
			}
			subject, err := i.Identity.Subjects().Get(tx, d.PersonID)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			out.Profiles[d.PersonID] = subject.Profile
		}
		return nil
	})
	return out, err
}
