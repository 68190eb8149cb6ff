package enrol

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of enrolment.
var (
	personInvited          = event.Type{Type: "person.PersonInvitedEvent", Name: "Person Invited"}
	invitationAccepted     = event.Type{Type: "person.InvitationAcceptedEvent", Name: "Invitation Accepted"}
	invitationFailed       = event.Type{Type: "person.InvitationCheckFailedEvent", Name: "Invitation Check Failed"}
	invitationLocked       = event.Type{Type: "person.InvitationLockedEvent", Name: "Invitation Locked"}
	activationFailed       = event.Type{Type: "person.ActivationFailedEvent", Name: "Activation Failed"}
	personSignedUp         = event.Type{Type: "person.PersonSignedUpEvent", Name: "Person Signed Up"}
	passwordResetRequested = event.Type{Type: "person.PasswordResetRequestedEvent", Name: "Password Reset Requested"}
	usernameReminderSent   = event.Type{Type: "person.UsernameReminderSentEvent", Name: "Username Reminder Sent"}
	passwordReset          = event.Type{Type: "person.PasswordResetEvent", Name: "Password Reset"}
)
