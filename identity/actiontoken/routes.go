package actiontoken

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the page of sign-ins by an action token.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(TicketPath, s.deps.Front.Pages(s.showTicket, s.handleTicket))
}
