package account

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of the account pages.
var (
	identityUncoupled = event.Type{Type: "person.ExternalIdentityUncoupledEvent", Name: "External Identity Uncoupled"}
	dataDownloaded    = event.Type{Type: "person.DataDownloadedEvent", Name: "Data Downloaded"}
	signInLinkMade    = event.Type{Type: "person.SignInLinkCreatedEvent", Name: "Sign-in Link Created"}
)
