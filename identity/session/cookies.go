package session

import (
	"net/http"
	"time"
	"unicode/utf8"
)

// The cookies of this package, and how long the second one lives.
const (
	CookieSession = "session" // opens a session
	CookieDevice  = "device"  // recognises a browser; it opens nothing

	DeviceLife = 400 * 24 * time.Hour // the longest that browsers keep a cookie
)

// SetCookies sets the cookies of a new sign-in.
func (s *Service) SetCookies(w http.ResponseWriter, rec Record, token, device string) {
	var life time.Duration
	if rec.Remembered {
		life = s.cfg.Remember
	}
	s.deps.Jar.Set(w, CookieSession, token, life)
	s.deps.Jar.Set(w, CookieDevice, device, DeviceLife)
	s.offerDevice(w, token)
}

// SetNewCookie sets the cookie of a new session that lasts until the browser closes.
func (s *Service) SetNewCookie(w http.ResponseWriter, token string) {
	s.deps.Jar.Set(w, CookieSession, token, 0)
	s.offerDevice(w, token)
}

// SetCookie sets the new cookie of a session that continues.
func (s *Service) SetCookie(w http.ResponseWriter, token string, rec Record, now time.Time) {
	var life time.Duration
	if rec.Remembered {
		life = max(s.ends(rec).Sub(now), time.Second)
	}
	s.deps.Jar.Set(w, CookieSession, token, life)
	if !rec.IsBound() {
		s.offerDevice(w, token)
	}
}

// DeviceToken returns the value of the cookie that recognises this browser, or "".
func (s *Service) DeviceToken(r *http.Request) string {
	if v := s.deps.Jar.Get(r, CookieDevice); len(v) == 43 && utf8.ValidString(v) {
		return v
	}
	return ""
}
