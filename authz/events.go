package authz

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventIDTokenIssued    = event.Type{Type: "token.IDTokenIssuedEvent", Name: "ID Token Issued", Counts: event.CountActive}
	eventSessionEnded     = event.Type{Type: "session.SessionEndedEvent", Name: "Session Ended"}
	eventKeysRotated      = event.Type{Type: "token.SigningKeysRotatedEvent", Name: "Signing Keys Rotated"}
	eventKeyRetired       = event.Type{Type: "token.SigningKeyRetiredEvent", Name: "Signing Key Retired"}
	eventConsentGiven     = event.Type{Type: "consent.ConsentGivenEvent", Name: "Consent Given"}
	eventConsentWithdrawn = event.Type{Type: "consent.ConsentWithdrawnEvent", Name: "Consent Withdrawn"}
)
