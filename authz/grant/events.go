package grant

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	EventAccessIssued    = event.Type{Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true, Counts: event.CountActive}
	eventAccessRefreshed = event.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed", Counts: event.CountActive}
	eventAccessRevoked   = event.Type{Type: "token.AccessTokenRevokedEvent", Name: "Access Token Revoked", Brief: true}
	EventRevoked         = event.Type{Type: "token.RefreshTokenRevokedEvent", Name: "Refresh Token Revoked"}
	eventRefreshReused   = event.Type{Type: "token.RefreshTokenReusedEvent", Name: "Refresh Token Reused"}
	EventCodeReplayed    = event.Type{Type: "token.CodeReplayedEvent", Name: "Authorization Code Replayed"}
	eventCodeRefused     = event.Type{Type: "token.CodeRefusedEvent", Name: "Authorization Code Refused"}
)
