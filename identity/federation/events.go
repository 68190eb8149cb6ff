package federation

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of identity providers.
var (
	// IdentityCoupled says that an identity of a provider signs a person in from now on.
	IdentityCoupled = audit.Type{Type: "person.ExternalIdentityCoupledEvent", Name: "External Identity Coupled"}
)
