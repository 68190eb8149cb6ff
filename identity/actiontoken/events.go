package actiontoken

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of action tokens.
var (
	actionTokenMade     = event.Type{Type: "person.ActionTokenCreatedEvent", Name: "Action Token Created"}
	actionTokenUsed     = event.Type{Type: "person.ActionTokenProcessedEvent", Name: "Action Token Processed"}
	actionTokensRevoked = event.Type{Type: "person.ActionTokensRevokedEvent", Name: "Action Tokens Revoked"}
)
