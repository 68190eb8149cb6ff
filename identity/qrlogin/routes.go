package qrlogin

import (
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the page that shows a code, and the page of the phone.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(federation.PhonePath, s.deps.Front.Pages(s.showCode, s.handleCode))
	mux.Handle(PhonePath, s.deps.Front.Pages(s.showPhone, s.handlePhone))
}
