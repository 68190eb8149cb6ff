package enrol

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes: how people come in, and back in.
func (s *Service) Routes(mux front.Router) {
	mux.Handle(activatePath, s.front.Methods(s.showActivate, s.handleActivate))
	mux.Handle(activatedPath, s.front.Methods(s.showActivated, nil))
	mux.Handle(forgotPath, s.front.Methods(s.showForgot, s.handleForgot))
	mux.Handle(forgotTextPath, s.front.Methods(s.showForgotText, s.handleForgotText))
	mux.Handle(forgotCodePath, s.front.Methods(s.showForgotCode, s.handleForgotCode))
	mux.Handle(forgotNamePath, s.front.Methods(s.showForgotUsername, s.handleForgotUsername))
	mux.Handle(forgotNameSentPath, s.front.Methods(s.showForgotUsernameSent, nil))
	mux.Handle(sentPath, s.front.Methods(s.showForgotSent, nil))
	mux.Handle(ResetPath, s.front.Methods(s.showReset, s.handleReset))
	mux.Handle(signUpPath, s.front.Methods(s.showSignUp, s.handleSignUp))
	mux.Handle(signUpCodePath, s.front.Methods(s.showSignUpCode, s.handleSignUpCode))
	mux.Handle(signUpSentPath, s.front.Methods(s.showSignUpSent, nil))
	mux.Handle(ActivationPath, s.front.Methods(s.showActivation, s.handleActivation))
	mux.Handle(VerifyPath, s.front.Methods(s.showVerify, s.handleVerify))
	mux.Handle(verifiedPath, s.front.Methods(s.showVerified, nil))
	mux.Handle(activateDonePath, s.front.Methods(s.showActivationDone, nil))
	mux.Handle(resetDonePath, s.front.Methods(s.showResetDone, nil))
	mux.Handle(registerPath, s.front.Methods(s.showRegister, s.handleRegister))
	mux.Handle(registerCodePath, s.front.Methods(s.showRegisterCode, s.handleRegisterCode))
	mux.Handle(InvitationPath, s.front.Methods(s.showInvitation, s.handleInvitation))
	mux.Handle(invitationCheckPath, s.front.Methods(s.showInvitationCheck, s.handleInvitationCheck))
}
