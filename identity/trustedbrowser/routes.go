package trustedbrowser

import "github.com/gatehouse-id/gatehouse/identity/webflow"

const offerPath = "/step-up/trust"

// Routes adds the page that asks whether the browser is trusted.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(offerPath, s.deps.Front.Pages(s.showOffer, s.handleOffer))
}
