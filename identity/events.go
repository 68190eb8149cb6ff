package identity

import "github.com/gatehouse-id/gatehouse/internal/event"

// The kinds of events of this package.
var (
	personCreated        = event.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}
	personActivated      = event.Type{Type: "person.PersonActivatedEvent", Name: "Person Activated"}
	personInactive       = event.Type{Type: "person.PersonDeactivatedEvent", Name: "Person Deactivated"}
	personBlocked        = event.Type{Type: "person.PersonBlockedEvent", Name: "Person Blocked"}
	personInvited        = event.Type{Type: "person.PersonInvitedEvent", Name: "Person Invited"}
	invitationAccepted   = event.Type{Type: "person.InvitationAcceptedEvent", Name: "Invitation Accepted"}
	invitationRefused    = event.Type{Type: "person.InvitationCheckFailedEvent", Name: "Invitation Check Failed"}
	invitationLocked     = event.Type{Type: "person.InvitationLockedEvent", Name: "Invitation Locked"}
	activationFailed     = event.Type{Type: "person.ActivationFailedEvent", Name: "Activation Failed"}
	personRemoved        = event.Type{Type: "person.PersonRemovedEvent", Name: "Person Removed"}
	personUpdated        = event.Type{Type: "person.PersonUpdatedEvent", Name: "Person Updated"}
	groupCreated         = event.Type{Type: "group.GroupCreatedEvent", Name: "Group Created"}
	groupUpdated         = event.Type{Type: "group.GroupUpdatedEvent", Name: "Group Updated"}
	groupRemoved         = event.Type{Type: "group.GroupRemovedEvent", Name: "Group Removed"}
	passwordChanged      = event.Type{Type: "person.PasswordChangedEvent", Name: "Password Changed"}
	loginSucceeded       = event.Type{Type: "login.LoginSucceededEvent", Name: "Login Succeeded"}
	loginFailed          = event.Type{Type: "login.LoginFailedEvent", Name: "Login Failed"}
	identityCoupled      = event.Type{Type: "person.ExternalIdentityCoupledEvent", Name: "External Identity Coupled"}
	identityUncoupled    = event.Type{Type: "person.ExternalIdentityUncoupledEvent", Name: "External Identity Uncoupled"}
	dataDownloaded       = event.Type{Type: "person.DataDownloadedEvent", Name: "Data Downloaded"}
	loginThrottled       = event.Type{Type: "login.LoginThrottledEvent", Name: "Login Throttled"}
	credentialsValidated = event.Type{Type: "login.CredentialsValidatedEvent", Name: "Credentials Validated"}
	breachUnknown        = event.Type{Type: "password.BreachCheckUnavailableEvent", Name: "Breach Check Unavailable"}
	stepUpSucceeded      = event.Type{Type: "login.StepUpSucceededEvent", Name: "Step-up Succeeded"}
	stepUpFailed         = event.Type{Type: "login.StepUpFailedEvent", Name: "Step-up Failed"}
	stepUpAdded          = event.Type{Type: "person.StepUpMethodAddedEvent", Name: "Step-up Method Added"}
	stepUpRemoved        = event.Type{Type: "person.StepUpMethodRemovedEvent", Name: "Step-up Method Removed"}
	recoveryMade         = event.Type{Type: "person.RecoveryCodesMadeEvent", Name: "Recovery Codes Made"}
	pinLocked            = event.Type{Type: "person.PINLockedEvent", Name: "PIN Locked"}
	stepUpPreferred      = event.Type{Type: "person.StepUpMethodPreferredEvent", Name: "Step-up Method Preferred"}
	pushDenied           = event.Type{Type: "login.PromptDeniedEvent", Name: "Prompt Denied"}
	pinReset             = event.Type{Type: "person.PINResetEvent", Name: "PIN Reset"}
	deliveredCodeMade    = event.Type{Type: "person.DeliveredCodeMadeEvent", Name: "Delivered Code Made"}
	deliveredCodeAsked   = event.Type{Type: "person.DeliveredCodeRequestedEvent", Name: "Delivered Code Requested"}
	passkeyAdded         = event.Type{Type: "person.PasskeyAddedEvent", Name: "Passkey Added"}
	passkeyRenamed       = event.Type{Type: "person.PasskeyRenamedEvent", Name: "Passkey Renamed"}
	passkeyRemoved       = event.Type{Type: "person.PasskeyRemovedEvent", Name: "Passkey Removed"}
	passkeySuspected     = event.Type{Type: "person.PasskeyCopySuspectedEvent", Name: "Passkey Copy Suspected"}
	personSignedUp       = event.Type{Type: "person.PersonSignedUpEvent", Name: "Person Signed Up"}
	passwordResetAsked   = event.Type{Type: "person.PasswordResetRequestedEvent", Name: "Password Reset Requested"}
	numberCodeSent       = event.Type{Type: "person.PhoneNumberCodeSentEvent", Name: "Phone Number Code Sent"}
	usernameReminded     = event.Type{Type: "person.UsernameReminderSentEvent", Name: "Username Reminder Sent"}
	passwordReset        = event.Type{Type: "person.PasswordResetEvent", Name: "Password Reset"}
	actionTokenMade      = event.Type{Type: "person.ActionTokenCreatedEvent", Name: "Action Token Created"}
	actionTokenUsed      = event.Type{Type: "person.ActionTokenProcessedEvent", Name: "Action Token Processed"}
	signInLinkMade       = event.Type{Type: "person.SignInLinkCreatedEvent", Name: "Sign-in Link Created"}
	actionTokensRevoked  = event.Type{Type: "person.ActionTokensRevokedEvent", Name: "Action Tokens Revoked"}
	signedOut            = event.Type{Type: "session.SignedOutEvent", Name: "Signed Out"}
	sessionsEnded        = event.Type{Type: "session.SessionsEndedEvent", Name: "Sessions Ended"}
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
