package identity

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of the sign-in itself.
var (
	credentialsValidated = audit.Type{Type: "login.CredentialsValidatedEvent", Name: "Credentials Validated"}
)
