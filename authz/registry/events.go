package registry

import "github.com/gatehouse-id/gatehouse/internal/event"

var eventClientAuthFailed = event.Type{Type: "token.ClientAuthenticationFailedEvent", Name: "Client Authentication Failed", Brief: true}

var eventClientRevoked = event.Type{Type: "token.ClientRevokedEvent", Name: "Everything Of Client Revoked"}

var eventClientAdded = event.Type{Type: "client.ClientAddedEvent", Name: "Client Added"}

var eventClientRemoved = event.Type{Type: "client.ClientRemovedEvent", Name: "Client Removed"}
