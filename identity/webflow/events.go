package webflow

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of sign-ins under way.
var (
	// LoginSucceeded says that a person has signed in.
	LoginSucceeded = audit.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded", Counts: audit.CountSignIn}
	// SignedOut says that a session has ended.
	SignedOut = audit.Type{Type: "session.SignedOutEvent", Name: "Signed Out"}
	// SeeingBegun and SeeingEnded say that an administrator has looked at a person's account.
	SeeingBegun = audit.Type{Type: "person.AccountSeenEvent", Name: "Account Seen By An Administrator"}
	SeeingEnded = audit.Type{Type: "person.AccountSeenEndedEvent", Name: "Account No Longer Seen By An Administrator"}
)

// SignedInBy begins the reason of an event that a provider's answer has caused, in front of the provider's name.
const SignedInBy = "signed in by "

// ByPasskey is the reason of a sign-in by a passkey.
const ByPasskey = "by passkey"
