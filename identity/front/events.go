package front

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of sign-ins under way.
var (
	// LoginSucceeded says that a person has signed in.
	LoginSucceeded = event.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded"}
	// SignedOut says that a session has ended.
	SignedOut = event.Type{Type: "session.SignedOutEvent", Name: "Signed Out"}
)
