package access

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Events of the package.
var (
	eventRequested = audit.Type{Type: "access.AccessRequestedEvent", Name: "Access Requested"}
	eventGranted   = audit.Type{Type: "access.AccessGrantedEvent", Name: "Access Granted"}
	eventRefused   = audit.Type{Type: "access.AccessRefusedEvent", Name: "Access Refused"}
	eventRevoked   = audit.Type{Type: "access.AccessRevokedEvent", Name: "Access Revoked"}
)
