package recovery

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages for forgotten passwords and usernames.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(forgotPath, s.front.Pages(s.showForgot, s.handleForgot))
	mux.Handle(forgotSentPath, s.front.Pages(s.showForgotSent, nil))
	mux.Handle(forgotTextPath, s.front.Pages(s.showForgotText, s.handleForgotText))
	mux.Handle(forgotCodePath, s.front.Pages(s.showForgotCode, s.handleForgotCode))
	mux.Handle(forgotUsernamePath, s.front.Pages(s.showForgotUsername, s.handleForgotUsername))
	mux.Handle(forgotUsernameSentPath, s.front.Pages(s.showForgotUsernameSent, nil))
	mux.Handle(resetPath, s.front.Pages(s.showReset, s.handleReset))
	mux.Handle(resetDonePath, s.front.Pages(s.showResetDone, nil))
}
