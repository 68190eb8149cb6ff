package exchange

import "github.com/gatehouse-id/gatehouse/internal/audit"

// The kinds of events of the package.
var (
	eventExchanged  = audit.Type{Type: "token.TokenExchangedEvent", Name: "Token Exchanged"}
	eventTransacted = audit.Type{Type: "token.TransactionTokenIssuedEvent", Name: "Transaction Token Issued"}
	eventAsserted   = audit.Type{Type: "token.IdentityAssertionIssuedEvent", Name: "Identity Assertion Issued"}
)
