package access

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of the package.
var (
	eventRequested = event.Type{Type: "access.AccessRequestedEvent", Name: "Access Requested"}
	eventGranted   = event.Type{Type: "access.AccessGrantedEvent", Name: "Access Granted"}
	eventRefused   = event.Type{Type: "access.AccessRefusedEvent", Name: "Access Refused"}
	eventRevoked   = event.Type{Type: "access.AccessRevokedEvent", Name: "Access Revoked"}
)
