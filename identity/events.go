package identity

import "github.com/gatehouse-id/gatehouse/internal/event"

// Events of persons.
var (
	personCreated   = event.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}
	personActivated = event.Type{Type: "person.PersonActivatedEvent", Name: "Person Activated"}
	personInactive  = event.Type{Type: "person.PersonDeactivatedEvent", Name: "Person Deactivated"}
	personBlocked   = event.Type{Type: "person.PersonBlockedEvent", Name: "Person Blocked"}
	personRemoved   = event.Type{Type: "person.PersonRemovedEvent", Name: "Person Removed"}
	personUpdated   = event.Type{Type: "person.PersonUpdatedEvent", Name: "Person Updated"}
	groupCreated    = event.Type{Type: "group.GroupCreatedEvent", Name: "Group Created"}
	groupUpdated    = event.Type{Type: "group.GroupUpdatedEvent", Name: "Group Updated"}
	groupRemoved    = event.Type{Type: "group.GroupRemovedEvent", Name: "Group Removed"}
	passwordChanged = event.Type{Type: "person.PasswordChangedEvent", Name: "Password Changed"}
	breachUnknown   = event.Type{Type: "password.BreachCheckUnavailableEvent", Name: "Breach Check Unavailable"}
	sessionsEnded   = event.Type{Type: "session.SessionsEndedEvent", Name: "Sessions Ended"}
)

// Events of proofs.
var (
	loginFailed       = event.Type{Type: "login.LoginFailedEvent", Name: "Login Failed"}
	loginThrottled    = event.Type{Type: "login.LoginThrottledEvent", Name: "Login Throttled"}
	deliveredCodeMade = event.Type{Type: "person.DeliveredCodeMadeEvent", Name: "Delivered Code Made"}
	numberCodeSent    = event.Type{Type: "person.PhoneNumberCodeSentEvent", Name: "Phone Number Code Sent"}
)

// Events of sign-ins under way.
var (
	loginSucceeded = event.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded"}
	signedOut      = event.Type{Type: "session.SignedOutEvent", Name: "Signed Out"}
)

// Events of identity providers.
var (
	identityCoupled = event.Type{Type: "person.ExternalIdentityCoupledEvent", Name: "External Identity Coupled"}
)

// Events of step-ups.
var (
	stepUpSucceeded    = event.Type{Type: "login.StepUpSucceededEvent", Name: "Step-up Succeeded"}
	stepUpFailed       = event.Type{Type: "login.StepUpFailedEvent", Name: "Step-up Failed"}
	stepUpAdded        = event.Type{Type: "person.StepUpMethodAddedEvent", Name: "Step-up Method Added"}
	stepUpRemoved      = event.Type{Type: "person.StepUpMethodRemovedEvent", Name: "Step-up Method Removed"}
	recoveryMade       = event.Type{Type: "person.RecoveryCodesMadeEvent", Name: "Recovery Codes Made"}
	pinLocked          = event.Type{Type: "person.PINLockedEvent", Name: "PIN Locked"}
	stepUpPreferred    = event.Type{Type: "person.StepUpMethodPreferredEvent", Name: "Step-up Method Preferred"}
	pushDenied         = event.Type{Type: "login.PromptDeniedEvent", Name: "Prompt Denied"}
	pinReset           = event.Type{Type: "person.PINResetEvent", Name: "PIN Reset"}
	deliveredCodeAsked = event.Type{Type: "person.DeliveredCodeRequestedEvent", Name: "Delivered Code Requested"}
	passkeyAdded       = event.Type{Type: "person.PasskeyAddedEvent", Name: "Passkey Added"}
	passkeyRenamed     = event.Type{Type: "person.PasskeyRenamedEvent", Name: "Passkey Renamed"}
	passkeyRemoved     = event.Type{Type: "person.PasskeyRemovedEvent", Name: "Passkey Removed"}
	passkeySuspected   = event.Type{Type: "person.PasskeyCopySuspectedEvent", Name: "Passkey Copy Suspected"}
)

// Events of action tokens.
var (
	actionTokenMade     = event.Type{Type: "person.ActionTokenCreatedEvent", Name: "Action Token Created"}
	actionTokenUsed     = event.Type{Type: "person.ActionTokenProcessedEvent", Name: "Action Token Processed"}
	actionTokensRevoked = event.Type{Type: "person.ActionTokensRevokedEvent", Name: "Action Tokens Revoked"}
)

// Events of enrolment.
var (
	personInvited      = event.Type{Type: "person.PersonInvitedEvent", Name: "Person Invited"}
	invitationAccepted = event.Type{Type: "person.InvitationAcceptedEvent", Name: "Invitation Accepted"}
	invitationRefused  = event.Type{Type: "person.InvitationCheckFailedEvent", Name: "Invitation Check Failed"}
	invitationLocked   = event.Type{Type: "person.InvitationLockedEvent", Name: "Invitation Locked"}
	activationFailed   = event.Type{Type: "person.ActivationFailedEvent", Name: "Activation Failed"}
	personSignedUp     = event.Type{Type: "person.PersonSignedUpEvent", Name: "Person Signed Up"}
	passwordResetAsked = event.Type{Type: "person.PasswordResetRequestedEvent", Name: "Password Reset Requested"}
	usernameReminded   = event.Type{Type: "person.UsernameReminderSentEvent", Name: "Username Reminder Sent"}
	passwordReset      = event.Type{Type: "person.PasswordResetEvent", Name: "Password Reset"}
)

// Events of the account pages.
var (
	identityUncoupled = event.Type{Type: "person.ExternalIdentityUncoupledEvent", Name: "External Identity Uncoupled"}
	dataDownloaded    = event.Type{Type: "person.DataDownloadedEvent", Name: "Data Downloaded"}
	signInLinkMade    = event.Type{Type: "person.SignInLinkCreatedEvent", Name: "Sign-in Link Created"}
)

// Events of the sign-in itself.
var (
	credentialsValidated = event.Type{Type: "login.CredentialsValidatedEvent", Name: "Credentials Validated"}
)

// newEvents makes one event of each kind before a transaction that appends those it needs.
func (s *Service) newEvents(from event.Origin, kinds ...event.Type) ([]event.Event, error) {
	out := make([]event.Event, len(kinds))
	for i, k := range kinds {
		e, err := s.Events.New(k, from)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}
