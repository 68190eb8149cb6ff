package actiontoken

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes: sign-ins by an action token.
func (s *Service) Routes(mux front.Router) {
	mux.Handle("/sign-in/token", s.front.Methods(s.showTicket, s.handleTicket))
}
