package grant

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	EventAccessIssued = audit.Type{
		Type: "token.AccessTokenIssuedEvent", Name: "Access Token Issued", Brief: true,
		Counts: audit.CountActive,
	}
	eventAccessRefreshed = audit.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed", Counts: audit.CountActive}
	eventAccessRevoked   = audit.Type{Type: "token.AccessTokenRevokedEvent", Name: "Access Token Revoked", Brief: true}
	EventRevoked         = audit.Type{Type: "token.RefreshTokenRevokedEvent", Name: "Refresh Token Revoked"}
	eventRefreshReused   = audit.Type{Type: "token.RefreshTokenReusedEvent", Name: "Refresh Token Reused"}
	EventCodeReplayed    = audit.Type{Type: "token.CodeReplayedEvent", Name: "Authorization Code Replayed"}
	eventCodeRefused     = audit.Type{Type: "token.CodeRefusedEvent", Name: "Authorization Code Refused"}
)
