package federation

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of identity providers.
var (
	// IdentityCoupled says that an identity of a provider signs a person in from now on.
	IdentityCoupled = event.Type{Type: "person.ExternalIdentityCoupledEvent", Name: "External Identity Coupled"}
)
