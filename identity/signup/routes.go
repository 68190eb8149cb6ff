package signup

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for new accounts.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(signUpPath, s.deps.Front.Pages(s.showSignUp, s.handleSignUp))
	mux.Handle(signUpCodePath, s.deps.Front.Pages(s.showSignUpCode, s.handleSignUpCode))
	mux.Handle(signUpSentPath, s.deps.Front.Pages(s.showSignUpSent, nil))
	mux.Handle(registerPath, s.deps.Front.Pages(s.showRegister, s.handleRegister))
	mux.Handle(registerCodePath, s.deps.Front.Pages(s.showRegisterCode, s.handleRegisterCode))
}
