package assurance

import "github.com/gatehouse-id/gatehouse/internal/event"

// Every event of the package.
var (
	eventValidated = event.Type{Type: "person.IdentityCardValidatedEvent", Name: "Identity Card Validated"}
	eventRefused   = event.Type{Type: "person.IdentityCardRefusedEvent", Name: "Identity Card Refused"}
	eventWithdrawn = event.Type{Type: "person.IdentityAssuranceWithdrawnEvent", Name: "Identity Assurance Withdrawn"}
	// EventSignedIn says that a sign-in by a provider has changed how well the identity of a person is assured.
	EventSignedIn = event.Type{Type: "person.IdentityAssuranceChangedEvent", Name: "Identity Assurance Changed by a Sign-in"}
)
