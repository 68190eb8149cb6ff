package signal

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventCreated = event.Type{Type: "signal.StreamCreatedEvent", Name: "Stream Created"}
	eventUpdated = event.Type{Type: "signal.StreamUpdatedEvent", Name: "Stream Updated"}
	eventDeleted = event.Type{Type: "signal.StreamDeletedEvent", Name: "Stream Deleted"}
)
