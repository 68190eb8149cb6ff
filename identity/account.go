package identity

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// showAccount serves GET /account: who is signed in.
func (s *Service) showAccount(w http.ResponseWriter, r *http.Request) {
	u, err := s.configured(r.Context())
	if err != nil {
		s.fail(w, r, err, "/account")
		return
	}
	level := u.StepUp.Actions.DashboardStepUpAuthenticationLevel
	si, ok := s.requireLevel(w, r, level, defaultReturn)
	if !ok {
		return
	}
	csrf, err := s.signOutToken(w, r, si)
	if err != nil {
		s.fail(w, r, err, "/account")
		return
	}
	p := si.person
	if !u.Attributes.NameVisibleOnDashboard {
		p.Name = ""
	}
	s.Pages.Render(w, r, page.View{Template: "account", Data: page.Account{
		Username: p.Username, Name: p.Name, Email: p.Email, Groups: p.Groups, Action: "/sign-out", CSRF: csrf, Security: securityPath,
	}})
}
