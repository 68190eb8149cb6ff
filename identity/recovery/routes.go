package recovery

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for forgotten passwords and usernames.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(forgotPath, s.deps.Front.Pages(s.showForgot, s.handleForgot))
	mux.Handle(forgotSentPath, s.deps.Front.Pages(s.showForgotSent, nil))
	mux.Handle(forgotTextPath, s.deps.Front.Pages(s.showForgotText, s.handleForgotText))
	mux.Handle(forgotCodePath, s.deps.Front.Pages(s.showForgotCode, s.handleForgotCode))
	mux.Handle(forgotUsernamePath, s.deps.Front.Pages(s.showForgotUsername, s.handleForgotUsername))
	mux.Handle(forgotUsernameSentPath, s.deps.Front.Pages(s.showForgotUsernameSent, nil))
	mux.Handle(resetPath, s.deps.Front.Pages(s.showReset, s.handleReset))
	mux.Handle(resetDonePath, s.deps.Front.Pages(s.showResetDone, nil))
}
