package clientstore

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The events of the package.
var (
	eventClientAuthFailed = audit.Type{Type: "token.ClientAuthenticationFailedEvent", Name: "Client Authentication Failed", Brief: true}
	eventClientRevoked    = audit.Type{Type: "token.ClientRevokedEvent", Name: "Everything Of Client Revoked"}
	eventClientRegistered = audit.Type{Type: "client.ClientRegisteredEvent", Name: "Client Registered"}
	eventClientAdded      = audit.Type{Type: "client.ClientAddedEvent", Name: "Client Added"}
	eventClientUpdated    = audit.Type{Type: "client.ClientUpdatedEvent", Name: "Client Updated"}
	eventSecretReplaced   = audit.Type{Type: "client.ClientSecretReplacedEvent", Name: "Client Secret Replaced"}
	eventClientRemoved    = audit.Type{Type: "client.ClientRemovedEvent", Name: "Client Removed"}
)
