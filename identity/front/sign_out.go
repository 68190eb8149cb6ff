package front

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/session"
)

// SignOutToken returns the token of a form that signs out, bound to this browser and session.
func (s *Service) SignOutToken(w http.ResponseWriter, r *http.Request, si *session.Current) (string, error) {
	browser, err := s.jar.Browser(w, r, s.NewID)
	return s.pages.CSRF(browser, "sign_out:"+si.ID), err
}
