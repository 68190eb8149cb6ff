package registry

import "github.com/gatehouse-id/gatehouse/internal/event"

// The events of the package.
var (
	eventClientAuthFailed = event.Type{Type: "token.ClientAuthenticationFailedEvent", Name: "Client Authentication Failed", Brief: true}
	eventClientRevoked    = event.Type{Type: "token.ClientRevokedEvent", Name: "Everything Of Client Revoked"}
	eventClientRegistered = event.Type{Type: "client.ClientRegisteredEvent", Name: "Client Registered"}
	eventClientAdded      = event.Type{Type: "client.ClientAddedEvent", Name: "Client Added"}
	eventClientUpdated    = event.Type{Type: "client.ClientUpdatedEvent", Name: "Client Updated"}
	eventSecretReplaced   = event.Type{Type: "client.ClientSecretReplacedEvent", Name: "Client Secret Replaced"}
	eventClientRemoved    = event.Type{Type: "client.ClientRemovedEvent", Name: "Client Removed"}
)
