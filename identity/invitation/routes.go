package invitation

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for invited people.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(invitationPath, s.deps.Front.Pages(s.showInvitation, s.handleInvitation))
	mux.Handle(invitationCheckPath, s.deps.Front.Pages(s.showInvitationCheck, s.handleInvitationCheck))
}
