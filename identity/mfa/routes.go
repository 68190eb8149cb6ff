package mfa

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes registers step-ups, and the pages that set up their methods.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(stepUpPath, s.deps.Front.Pages(s.showStepUp, s.handleStepUp))
	mux.Handle(webflow.SecurityPath, s.deps.Front.Pages(s.showSecurity, nil))
	mux.Handle(passkeyStepUpPath, s.deps.Front.Pages(s.showPasskeyStepUp, s.handlePasskeyStepUp))
	mux.Handle(passkeyMethod.setUp, s.deps.Front.Pages(s.showAddPasskey, s.handleAddPasskey))
	mux.Handle(upgradePath, s.deps.Front.Pages(s.showUpgrade, s.handleUpgrade))
	mux.Handle(passkeyNamePath, s.deps.Front.Pages(s.showNamePasskey, s.handleNamePasskey))
	mux.Handle(passkeyRemovePath, s.deps.Front.Pages(s.showRemovePasskey, s.handleRemovePasskey))
	mux.Handle(TOTPMethod.setUp, s.deps.Front.Pages(s.showAuthenticator, s.handleAuthenticator))
	mux.Handle(RecoveryPath, s.deps.Front.Pages(s.showRecovery, s.handleRecovery))
	mux.Handle(recoveryFilePath, s.deps.Front.Pages(nil, s.handleRecoveryFile))
	mux.Handle(pinMethod.setUp, s.deps.Front.Pages(s.showPIN, s.handlePIN))
	mux.Handle(pinForgotPath, s.deps.Front.Pages(s.showPINForgot, s.handlePINForgot))
	mux.Handle(PINResetPath, s.deps.Front.Pages(s.showPINReset, s.handlePINReset))
	mux.Handle(preferredPath, s.deps.Front.Pages(s.showPreferred, s.handlePreferred))
	mux.Handle(pushMethod.setUp, s.deps.Front.Pages(s.showPush, s.handlePush))
	mux.Handle(pushStepUpPath, s.deps.Front.Pages(s.showPushStepUp, s.handlePushStepUp))
	mux.Handle(pushEnrolPath, s.deps.Front.Pages(s.showEnrol, s.handleEnrol))
	mux.Handle(pushApprovePath, s.deps.Front.Pages(s.showApprove, s.handleApprove))
	mux.Handle(smsMethod.setUp, s.deps.Front.Pages(s.showSMS, s.handleSMS))
	mux.Handle(removePath, s.deps.Front.Pages(s.showRemove, s.handleRemove))
}
