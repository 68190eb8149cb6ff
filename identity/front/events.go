package front

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of sign-ins under way.
var (
	LoginSucceeded = event.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded"}
	SignedOut      = event.Type{Type: "session.SignedOutEvent", Name: "Signed Out"}
)
