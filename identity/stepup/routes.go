package stepup

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes: step-ups, and the pages that set up their methods.
func (s *Service) Routes(mux front.Router) {
	mux.Handle("/step-up", s.front.Methods(s.showStepUp, s.handleStepUp))
	mux.Handle(front.SecurityPath, s.front.Methods(s.showSecurity, nil))
	mux.Handle(passkeyStepUpPath, s.front.Methods(s.showPasskeyStepUp, s.handlePasskeyStepUp))
	mux.Handle(passkeyMethod.setUp, s.front.Methods(s.showAddPasskey, s.handleAddPasskey))
	mux.Handle(passkeyNamePath, s.front.Methods(s.showNamePasskey, s.handleNamePasskey))
	mux.Handle(passkeyRemovePath, s.front.Methods(s.showRemovePasskey, s.handleRemovePasskey))
	mux.Handle(TOTPMethod.setUp, s.front.Methods(s.showAuthenticator, s.handleAuthenticator))
	mux.Handle(RecoveryPath, s.front.Methods(s.showRecovery, s.handleRecovery))
	mux.Handle(PINMethod.setUp, s.front.Methods(s.showPIN, s.handlePIN))
	mux.Handle(pinForgotPath, s.front.Methods(s.showPINForgot, s.handlePINForgot))
	mux.Handle(PINResetPath, s.front.Methods(s.showPINReset, s.handlePINReset))
	mux.Handle(preferredPath, s.front.Methods(s.showPreferred, s.handlePreferred))
	mux.Handle(PushMethod.setUp, s.front.Methods(s.showPush, s.handlePush))
	mux.Handle(pushStepUpPath, s.front.Methods(s.showPushStepUp, s.handlePushStepUp))
	mux.Handle(pushEnrolPath, s.front.Methods(s.showEnrol, s.handleEnrol))
	mux.Handle(pushApprovePath, s.front.Methods(s.showApprove, s.handleApprove))
	mux.Handle(SMSMethod.setUp, s.front.Methods(s.showSMS, s.handleSMS))
	mux.Handle(removePath, s.front.Methods(s.showRemove, s.handleRemove))
}
