package admin

import (
	"context"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Events of what administrators do to many persons. What happens to each person has an event of its own.
var (
	jobStarted = audit.Type{Type: "console.BulkChangeStartedEvent", Name: "Bulk Change Started"}
	jobStopped = audit.Type{Type: "console.BulkChangeStoppedEvent", Name: "Bulk Change Stopped"}
	// chainChecked says that someone has asked for a check of the seals.
	chainChecked = audit.Type{Type: "console.EventChainCheckedEvent", Name: "Event Chain Check Asked For"}

	// examined says that someone has the doctor look at a site.
	examined = audit.Type{Type: "console.SiteExaminationEvent", Name: "Site Examination Asked For"}

	sentAgain = audit.Type{Type: "console.QueuedMessageSentNowEvent", Name: "Queued Message Sent Now"}
	dropped   = audit.Type{Type: "console.QueuedMessageDroppedEvent", Name: "Queued Message Dropped"}

	exported = audit.Type{Type: "console.PersonsExportedEvent", Name: "Persons Exported"}

	limitLifted = audit.Type{Type: "quota.LimitLiftedEvent", Name: "Limit Lifted"}
)

// exportedEvents is the number of events that one transaction of an export reads.
const exportedEvents = 500

// Events returns what a search finds, and the usernames of the persons in it by their ids.
func (s *Service) Events(tx storage.Tx, q audit.Search) (found []audit.Numbered, next audit.Cursor, names map[string]string, err error) {
	if found, next, err = q.Find(tx); err != nil {
		return nil, nil, nil, err
	}
	var ids []string
	for _, e := range found {
		ids = append(ids, e.PersonID, e.Actor)
	}
	names, err = s.Names(tx, ids)
	return found, next, names, err
}

// ExportEvents writes the events that a search finds as a CSV file, newest first, part by part, whatever their number.
func (s *Service) ExportEvents(ctx context.Context, q audit.Search, w io.Writer) error {
	q.Limit = exportedEvents
	out := csvfile.New(w, "time", "type", "name", "person_id", "username", "actor", "actor_name", "client_id", "ip_address",
		"user_agent", "reason", "reference", "id")
	for {
		var found []audit.Numbered
		var next audit.Cursor
		var names map[string]string
		err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
			found, next, names, err = s.Events(tx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range found {
			out.Row(e.Occurred.UTC().Format(time.RFC3339Nano), e.Type, e.Name, e.PersonID, names[e.PersonID], e.Actor, e.AgentUser, e.ClientID,
				e.ClientIP, e.UserAgent, e.Reason, e.Ref, e.ID)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if q.Behind = next; len(next) == 0 {
			return nil
		}
	}
}
