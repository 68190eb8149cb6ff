package identity

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of the sign-in itself.
var (
	credentialsValidated = event.Type{Type: "login.CredentialsValidatedEvent", Name: "Credentials Validated"}
)
