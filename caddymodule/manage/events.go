package manage

import (
	"context"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/sheet"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Events of what administrators do to many persons. What happens to each person has an event of its own.
var (
	jobStarted = event.Type{Type: "console.BulkChangeStartedEvent", Name: "Bulk Change Started"}
	jobStopped = event.Type{Type: "console.BulkChangeStoppedEvent", Name: "Bulk Change Stopped"}
	// chainChecked says that somebody has asked for a check of the seals.
	chainChecked = event.Type{Type: "console.EventChainCheckedEvent", Name: "Event Chain Check Asked For"}

	// examined says that somebody has the doctor look at a site.
	examined = event.Type{Type: "console.SiteExaminationEvent", Name: "Site Examination Asked For"}

	sentAgain = event.Type{Type: "console.QueuedMessageSentNowEvent", Name: "Queued Message Sent Now"}
	dropped   = event.Type{Type: "console.QueuedMessageDroppedEvent", Name: "Queued Message Dropped"}

	exported = event.Type{Type: "console.PersonsExportedEvent", Name: "Persons Exported"}
)

// exportedEvents is how many events one transaction of an export reads.
const exportedEvents = 500

// Events returns what a search finds, and the usernames of the persons in it by their ids.
func (s *Service) Events(tx storage.Tx, q event.Search) (found []event.Numbered, next event.Cursor, names map[string]string, err error) {
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
func (s *Service) ExportEvents(ctx context.Context, q event.Search, w io.Writer) error {
	q.Limit = exportedEvents
	out := sheet.New(w, "time", "type", "name", "person_id", "username", "actor", "actor_name", "client_id", "ip_address", "user_agent", "reason", "reference", "id")
	for {
		var found []event.Numbered
		var next event.Cursor
		var names map[string]string
		err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
			found, next, names, err = s.Events(tx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range found {
			out.Row(e.Occurred.UTC().Format(time.RFC3339Nano), e.Type, e.Name, e.PersonID, names[e.PersonID], e.Actor, e.AgentUser, e.ClientID, e.ClientIP, e.UserAgent, e.Reason, e.Ref, e.ID)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if q.Behind = next; len(next) == 0 {
			return nil
		}
	}
}
