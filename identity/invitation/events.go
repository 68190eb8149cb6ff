package invitation

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of invitations.
var (
	personInvited      = audit.Type{Type: "person.PersonInvitedEvent", Name: "Person Invited"}
	invitationAccepted = audit.Type{Type: "person.InvitationAcceptedEvent", Name: "Invitation Accepted"}
	invitationFailed   = audit.Type{Type: "person.InvitationCheckFailedEvent", Name: "Invitation Check Failed"}
	invitationLocked   = audit.Type{Type: "person.InvitationLockedEvent", Name: "Invitation Locked"}
)
