package exchange

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of the package.
var (
	eventExchanged = event.Type{Type: "token.TokenExchangedEvent", Name: "Token Exchanged"}
	eventAsserted  = event.Type{Type: "token.IdentityAssertionIssuedEvent", Name: "Identity Assertion Issued"}
)
