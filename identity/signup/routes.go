package signup

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for new accounts.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(signUpPath, s.front.Pages(s.showSignUp, s.handleSignUp))
	mux.Handle(signUpCodePath, s.front.Pages(s.showSignUpCode, s.handleSignUpCode))
	mux.Handle(signUpSentPath, s.front.Pages(s.showSignUpSent, nil))
	mux.Handle(registerPath, s.front.Pages(s.showRegister, s.handleRegister))
	mux.Handle(registerCodePath, s.front.Pages(s.showRegisterCode, s.handleRegisterCode))
}
