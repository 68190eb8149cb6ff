package front

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
)

// SecurityForm returns the token of a form of this session.
func (s *Service) SecurityForm(w http.ResponseWriter, r *http.Request, si *session.Current, form string) (string, error) {
	browser, err := s.jar.Browser(w, r, s.NewID)
	return s.pages.CSRF(browser, form+":"+si.ID), err
}

// CheckSecurityForm tells whether a POST is of that form. Otherwise it has written the answer.
func (s *Service) CheckSecurityForm(w http.ResponseWriter, r *http.Request, si *session.Current, form, again string) bool {
	err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), form+":"+si.ID)
	if err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, again)
	}
	return err == nil
}
