package activation

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages that activate an account or verify an address.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(activatePath, s.deps.Front.Pages(s.showActivate, s.handleActivate))
	mux.Handle(activatedPath, s.deps.Front.Pages(s.showActivated, nil))
	mux.Handle(activationPath, s.deps.Front.Pages(s.showActivation, s.handleActivation))
	mux.Handle(activationDonePath, s.deps.Front.Pages(s.showActivationDone, nil))
	mux.Handle(verifyPath, s.deps.Front.Pages(s.showVerify, s.handleVerify))
	mux.Handle(verifiedPath, s.deps.Front.Pages(s.showVerified, nil))
}
