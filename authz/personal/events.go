package personal

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventMade = event.Type{Type: "token.AppPasswordCreatedEvent", Name: "App Password Created"}
	eventUsed = event.Type{Type: "token.AppPasswordUsedEvent", Name: "App Password Used"}
	// EventRevoked is that of Revoke, for callers of Drop.
	EventRevoked = event.Type{Type: "token.AppPasswordRevokedEvent", Name: "App Password Revoked"}
)
