package front

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/session"
)

// SecurityForm returns the token of a form of this session.
func (s *Service) SecurityForm(w http.ResponseWriter, r *http.Request, si *session.Current, form string) (string, error) {
	browser, err := s.jar.Browser(w, r, s.NewID)
	return s.pages.CSRF(browser, form+":"+si.ID), err
}

// CheckSecurityForm tells whether a POST is of that form. Otherwise it has written the answer.
func (s *Service) CheckSecurityForm(w http.ResponseWriter, r *http.Request, si *session.Current, form, again string) bool {
	q := &Request{Request: r, W: w}
	err := s.CheckForm(q, SessionForm(form, si), again)
	s.Render(q, err)
	return err == nil
}
