package token

import "github.com/gatehouse-id/gatehouse/internal/audit"

var (
	eventAllRevoked = audit.Type{Type: "token.EverythingRevokedEvent", Name: "Everything Revoked"}
	eventManyIssued = audit.Type{Type: "token.AccessTokensIssuedEvent", Name: "Access Tokens Issued", Brief: true}
)
