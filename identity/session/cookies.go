package session

import (
	"net/http"
	"time"
	"unicode/utf8"
)

func (s *Service) SetCookies(w http.ResponseWriter, rec Record, token, device string) {
	var life time.Duration
	if rec.Remembered {
		life = s.cfg.Remember
	}
	s.jar.Set(w, CookieSession, token, life)
	s.jar.Set(w, CookieDevice, device, DeviceLife)
}

// DeviceToken returns the value of the cookie that recognises this browser, or "".
func (s *Service) DeviceToken(r *http.Request) string {
	if v := s.jar.Get(r, CookieDevice); len(v) == 43 && utf8.ValidString(v) {
		return v
	}
	return ""
}
