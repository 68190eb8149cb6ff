package account

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of the account pages.
var (
	identityUncoupled = audit.Type{Type: "person.ExternalIdentityUncoupledEvent", Name: "External Identity Uncoupled"}
	dataDownloaded    = audit.Type{Type: "person.DataDownloadedEvent", Name: "Data Downloaded"}
	signInLinkMade    = audit.Type{Type: "person.SignInLinkCreatedEvent", Name: "Sign-in Link Created"}
)
