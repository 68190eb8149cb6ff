package federation

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of identity providers.
var (
	IdentityCoupled = event.Type{Type: "person.ExternalIdentityCoupledEvent", Name: "External Identity Coupled"}
)
