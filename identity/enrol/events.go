package enrol

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of enrolment.
var (
	personInvited          = audit.Type{Type: "person.PersonInvitedEvent", Name: "Person Invited"}
	invitationAccepted     = audit.Type{Type: "person.InvitationAcceptedEvent", Name: "Invitation Accepted"}
	invitationFailed       = audit.Type{Type: "person.InvitationCheckFailedEvent", Name: "Invitation Check Failed"}
	invitationLocked       = audit.Type{Type: "person.InvitationLockedEvent", Name: "Invitation Locked"}
	activationFailed       = audit.Type{Type: "person.ActivationFailedEvent", Name: "Activation Failed"}
	personSignedUp         = audit.Type{Type: "person.PersonSignedUpEvent", Name: "Person Signed Up"}
	passwordResetRequested = audit.Type{Type: "person.PasswordResetRequestedEvent", Name: "Password Reset Requested"}
	usernameReminderSent   = audit.Type{Type: "person.UsernameReminderSentEvent", Name: "Username Reminder Sent"}
	passwordReset          = audit.Type{Type: "person.PasswordResetEvent", Name: "Password Reset"}
)
