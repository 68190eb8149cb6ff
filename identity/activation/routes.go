package activation

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages that activate an account or verify an address.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(activatePath, s.front.Pages(s.showActivate, s.handleActivate))
	mux.Handle(activatedPath, s.front.Pages(s.showActivated, nil))
	mux.Handle(activationPath, s.front.Pages(s.showActivation, s.handleActivation))
	mux.Handle(activationDonePath, s.front.Pages(s.showActivationDone, nil))
	mux.Handle(verifyPath, s.front.Pages(s.showVerify, s.handleVerify))
	mux.Handle(verifiedPath, s.front.Pages(s.showVerified, nil))
}
