package recovery

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of recovery.
var (
	passwordResetRequested = audit.Type{Type: "person.PasswordResetRequestedEvent", Name: "Password Reset Requested"}
	usernameReminderSent   = audit.Type{Type: "person.UsernameReminderSentEvent", Name: "Username Reminder Sent"}
	passwordReset          = audit.Type{Type: "person.PasswordResetEvent", Name: "Password Reset"}
)
