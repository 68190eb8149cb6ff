package serviceprovider

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of service providers.
var (
	eventSignedIn  = event.Type{Type: "login.ServiceProviderSignedInEvent", Name: "Signed In at a Service Provider"}
	eventAgreed    = event.Type{Type: "consent.AttributesAllowedEvent", Name: "Attributes Allowed to a Service Provider"}
	eventWithdrawn = event.Type{Type: "consent.AttributesWithdrawnEvent", Name: "Attributes Withdrawn from a Service Provider"}
	eventSignedOut = event.Type{Type: "session.SignedOutByServiceProviderEvent", Name: "Signed Out by a Service Provider"}
)
