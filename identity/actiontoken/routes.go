package actiontoken

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes adds the page of sign-ins by an action token.
func (s *Service) Routes(mux front.Router) {
	mux.Handle(TicketPath, s.front.Pages(s.showTicket, s.handleTicket))
}
