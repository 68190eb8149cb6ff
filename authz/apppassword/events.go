package apppassword

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	eventMade = audit.Type{Type: "token.AppPasswordCreatedEvent", Name: "App Password Created"}
	eventUsed = audit.Type{Type: "token.AppPasswordUsedEvent", Name: "App Password Used"}
	// EventRevoked is that of Revoke, for callers of Drop.
	EventRevoked = audit.Type{Type: "token.AppPasswordRevokedEvent", Name: "App Password Revoked"}
)
