package ssf

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	eventCreated = audit.Type{Type: "signal.StreamCreatedEvent", Name: "Stream Created"}
	eventUpdated = audit.Type{Type: "signal.StreamUpdatedEvent", Name: "Stream Updated"}
	eventDeleted = audit.Type{Type: "signal.StreamDeletedEvent", Name: "Stream Deleted"}
)
