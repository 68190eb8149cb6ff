package mfa

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes registers step-ups, and the pages that set up their methods.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(stepUpPath, s.front.Pages(s.showStepUp, s.handleStepUp))
	mux.Handle(webflow.SecurityPath, s.front.Pages(s.showSecurity, nil))
	mux.Handle(passkeyStepUpPath, s.front.Pages(s.showPasskeyStepUp, s.handlePasskeyStepUp))
	mux.Handle(passkeyMethod.setUp, s.front.Pages(s.showAddPasskey, s.handleAddPasskey))
	mux.Handle(upgradePath, s.front.Pages(s.showUpgrade, s.handleUpgrade))
	mux.Handle(passkeyNamePath, s.front.Pages(s.showNamePasskey, s.handleNamePasskey))
	mux.Handle(passkeyRemovePath, s.front.Pages(s.showRemovePasskey, s.handleRemovePasskey))
	mux.Handle(TOTPMethod.setUp, s.front.Pages(s.showAuthenticator, s.handleAuthenticator))
	mux.Handle(RecoveryPath, s.front.Pages(s.showRecovery, s.handleRecovery))
	mux.Handle(recoveryFilePath, s.front.Pages(nil, s.handleRecoveryFile))
	mux.Handle(pinMethod.setUp, s.front.Pages(s.showPIN, s.handlePIN))
	mux.Handle(pinForgotPath, s.front.Pages(s.showPINForgot, s.handlePINForgot))
	mux.Handle(PINResetPath, s.front.Pages(s.showPINReset, s.handlePINReset))
	mux.Handle(preferredPath, s.front.Pages(s.showPreferred, s.handlePreferred))
	mux.Handle(pushMethod.setUp, s.front.Pages(s.showPush, s.handlePush))
	mux.Handle(pushStepUpPath, s.front.Pages(s.showPushStepUp, s.handlePushStepUp))
	mux.Handle(pushEnrolPath, s.front.Pages(s.showEnrol, s.handleEnrol))
	mux.Handle(pushApprovePath, s.front.Pages(s.showApprove, s.handleApprove))
	mux.Handle(smsMethod.setUp, s.front.Pages(s.showSMS, s.handleSMS))
	mux.Handle(removePath, s.front.Pages(s.showRemove, s.handleRemove))
}
