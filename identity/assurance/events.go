package assurance

import "github.com/gatehouse-id/gatehouse/internal/audit"

// Every event of the package.
var (
	eventValidated = audit.Type{Type: "person.IdentityCardValidatedEvent", Name: "Identity Card Validated"}
	eventRefused   = audit.Type{Type: "person.IdentityCardRefusedEvent", Name: "Identity Card Refused"}
	eventWithdrawn = audit.Type{Type: "person.IdentityAssuranceWithdrawnEvent", Name: "Identity Assurance Withdrawn"}
	// EventSignedIn says that a sign-in by a provider has changed how well the identity of a person is assured.
	EventSignedIn = audit.Type{Type: "person.IdentityAssuranceChangedEvent", Name: "Identity Assurance Changed by a Sign-in"}
)
