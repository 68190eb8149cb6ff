package actiontoken

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of action tokens.
var (
	actionTokenMade     = audit.Type{Type: "person.ActionTokenCreatedEvent", Name: "Action Token Created"}
	actionTokenUsed     = audit.Type{Type: "person.ActionTokenProcessedEvent", Name: "Action Token Processed"}
	actionTokensRevoked = audit.Type{Type: "person.ActionTokensRevokedEvent", Name: "Action Tokens Revoked"}
)
