package enrol

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for new accounts and for forgotten passwords and usernames.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(activatePath, s.front.Pages(s.showActivate, s.handleActivate))
	mux.Handle(activatedPath, s.front.Pages(s.showActivated, nil))
	mux.Handle(activationPath, s.front.Pages(s.showActivation, s.handleActivation))
	mux.Handle(activationDonePath, s.front.Pages(s.showActivationDone, nil))
	mux.Handle(forgotPath, s.front.Pages(s.showForgot, s.handleForgot))
	mux.Handle(forgotSentPath, s.front.Pages(s.showForgotSent, nil))
	mux.Handle(forgotTextPath, s.front.Pages(s.showForgotText, s.handleForgotText))
	mux.Handle(forgotCodePath, s.front.Pages(s.showForgotCode, s.handleForgotCode))
	mux.Handle(forgotUsernamePath, s.front.Pages(s.showForgotUsername, s.handleForgotUsername))
	mux.Handle(forgotUsernameSentPath, s.front.Pages(s.showForgotUsernameSent, nil))
	mux.Handle(resetPath, s.front.Pages(s.showReset, s.handleReset))
	mux.Handle(resetDonePath, s.front.Pages(s.showResetDone, nil))
	mux.Handle(signUpPath, s.front.Pages(s.showSignUp, s.handleSignUp))
	mux.Handle(signUpCodePath, s.front.Pages(s.showSignUpCode, s.handleSignUpCode))
	mux.Handle(signUpSentPath, s.front.Pages(s.showSignUpSent, nil))
	mux.Handle(verifyPath, s.front.Pages(s.showVerify, s.handleVerify))
	mux.Handle(verifiedPath, s.front.Pages(s.showVerified, nil))
	mux.Handle(registerPath, s.front.Pages(s.showRegister, s.handleRegister))
	mux.Handle(registerCodePath, s.front.Pages(s.showRegisterCode, s.handleRegisterCode))
	mux.Handle(invitationPath, s.front.Pages(s.showInvitation, s.handleInvitation))
	mux.Handle(invitationCheckPath, s.front.Pages(s.showInvitationCheck, s.handleInvitationCheck))
}
