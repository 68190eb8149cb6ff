package qrlogin

import (
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// What approves: mobile_login.authentication_type, and mobile_authentication_type of a login method.
const (
	byBrowser = "BROWSER" // the browser of a phone, on our page
	byApp     = "APP"     // an app, by the API
)

// stepUpTypes are the values of mobile_login.step_up_type, as methods are called.
var stepUpTypes = map[string]string{
	"PIN": session.MethodPIN, "SMS": session.MethodSMS, "EMAIL": session.MethodEmail, "GOOGLE_AUTHENTICATOR": session.MethodTOTP,
	"PUSH": session.MethodPush, "EXTERNALLY_DELIVERED_CODE": session.MethodDelivered, "PASSKEY": session.MethodPasskey,
}

// way is one way in which phones sign people in.
type way struct {
	id     string // of the login method. Empty: the service's own
	name   string // of the login method, for people
	level  int    // of a sign-in
	by     string // what approves. Empty: either
	factor string // the method of step-up that approves. Empty: the sign-in on the phone is enough
	mobile settings.MobileLogin
	links  settings.QRCodeAttributes
}

// Level returns the level of a sign-in by a login method, "" for the service's own. 0: phones sign no one in this way.
// shown reports whether the sign-in page offers the service's own.
func (s *Service) Level(u *settings.Units, method string) (level int, shown bool) {
	w := s.wayOf(u, method)
	if w == nil {
		return 0, false
	}
	return w.level, w.mobile.ShowUseMobileToLogin
}

// wayOf returns the way of a login method, "" for the service's own, or nil while phones sign no one in by it.
func (s *Service) wayOf(u *settings.Units, method string) *way {
	mobile := u.LoginMethods.MobileLogin
	w := &way{id: method, level: session.PasswordLevel, by: mobile.AuthenticationType, mobile: mobile}
	if !u.Features.MobileAuthenticationEnabled || !u.Features.LoginEnabled || method == "" && !mobile.Enabled {
		return nil
	}
	if method != "" {
		i := slices.IndexFunc(u.LoginMethods.LoginMethods, func(m settings.LoginMethod) bool {
			return m.ID == method && m.Type == settings.TypeQRCode && m.Enabled
		})
		if i < 0 {
			return nil
		}
		m := &u.LoginMethods.LoginMethods[i]
		w.name, w.level = m.Name, max(m.AuthenticationLevel, session.PasswordLevel)
		if m.QRCode != nil {
			w.links = *m.QRCode
		}
		if w.links.MobileAuthenticationType != "" {
			w.by = w.links.MobileAuthenticationType
		}
	}
	if mobile.StepUpType != "" {
		w.factor = stepUpTypes[mobile.StepUpType]
		gives := s.deps.StepUp.LevelOf(u, w.factor)
		if gives == 0 { // no one could approve
			return nil
		}
		w.level = max(w.level, gives)
	}
	return w
}

// tries returns the number of wrong numbers that end a code.
func (w *way) tries() int { return max(w.mobile.AllowedLoginAttempts, 1) }

// open is the link to the app on the same device, or "".
func (w *way) open(token string) string {
	if !w.links.DeepLinkingEnabled || w.links.DeepLinkingRedirectURL == "" || w.by == byBrowser {
		return ""
	}
	to, err := url.Parse(w.links.DeepLinkingRedirectURL)
	if err != nil {
		return ""
	}
	v := to.Query()
	v.Set(challenge.LinkParam, token)
	to.RawQuery = v.Encode()
	return to.String()
}
