package authz

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	eventIDTokenIssued    = audit.Type{Type: "token.IDTokenIssuedEvent", Name: "ID Token Issued", Counts: audit.CountActive}
	eventSessionEnded     = audit.Type{Type: "session.SessionEndedEvent", Name: "Session Ended"}
	eventKeysRotated      = audit.Type{Type: "token.SigningKeysRotatedEvent", Name: "Signing Keys Rotated"}
	eventKeyRetired       = audit.Type{Type: "token.SigningKeyRetiredEvent", Name: "Signing Key Retired"}
	eventConsentGiven     = audit.Type{Type: "consent.ConsentGivenEvent", Name: "Consent Given"}
	eventConsentWithdrawn = audit.Type{Type: "consent.ConsentWithdrawnEvent", Name: "Consent Withdrawn"}
)
