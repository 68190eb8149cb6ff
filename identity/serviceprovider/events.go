package serviceprovider

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Events of service providers.
var (
	eventSignedIn  = audit.Type{Type: "login.ServiceProviderSignedInEvent", Name: "Signed In at a Service Provider"}
	eventAgreed    = audit.Type{Type: "consent.AttributesAllowedEvent", Name: "Attributes Allowed to a Service Provider"}
	eventWithdrawn = audit.Type{Type: "consent.AttributesWithdrawnEvent", Name: "Attributes Withdrawn from a Service Provider"}
	eventSignedOut = audit.Type{Type: "session.SignedOutByServiceProviderEvent", Name: "Signed Out by a Service Provider"}
)
