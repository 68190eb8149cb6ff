package token

import "github.com/gatehouse-id/gatehouse/internal/event"

var (
	eventAllRevoked = event.Type{Type: "token.EverythingRevokedEvent", Name: "Everything Revoked"}
	eventManyIssued = event.Type{Type: "token.AccessTokensIssuedEvent", Name: "Access Tokens Issued", Brief: true}
)
