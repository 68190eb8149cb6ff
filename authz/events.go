package authz

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventAccessIssued     = event.Type{Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true}
	eventIDTokenIssued    = event.Type{Type: "token.IDTokenIssuedEvent", Name: "ID Token Issued"}
	eventAccessRefreshed  = event.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed"}
	eventAccessRevoked    = event.Type{Type: "token.AccessTokenRevokedEvent", Name: "Access Token Revoked", Brief: true}
	eventGrantRevoked     = event.Type{Type: "token.RefreshTokenRevokedEvent", Name: "Refresh Token Revoked"}
	eventRefreshReused    = event.Type{Type: "token.RefreshTokenReusedEvent", Name: "Refresh Token Reused"}
	eventCodeReplayed     = event.Type{Type: "token.CodeReplayedEvent", Name: "Authorization Code Replayed"}
	eventCodeRefused      = event.Type{Type: "token.CodeRefusedEvent", Name: "Authorization Code Refused"}
	eventSessionEnded     = event.Type{Type: "session.SessionEndedEvent", Name: "Session Ended"}
	eventKeysRotated      = event.Type{Type: "token.SigningKeysRotatedEvent", Name: "Signing Keys Rotated"}
	eventConsentGiven     = event.Type{Type: "consent.ConsentGivenEvent", Name: "Consent Given"}
	eventConsentWithdrawn = event.Type{Type: "consent.ConsentWithdrawnEvent", Name: "Consent Withdrawn"}
)
