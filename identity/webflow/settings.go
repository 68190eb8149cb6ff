package webflow

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Landing returns the end of a sign-in that no application has asked for: the place that the person asked for, if that
// is allowed, otherwise that of the configuration, otherwise the account page.
func Landing(u *settings.Units, wanted string) string {
	if to := Allowed(u, wanted); to != "" {
		return to
	}
	switch {
	case u.Redirects.URLAfterLogin != "":
		return Absolute(u, u.Redirects.URLAfterLogin)
	case u.Redirects.DefaultOriginURL != "":
		return u.Redirects.DefaultOriginURL + "/"
	}
	return person.DefaultReturn
}

// AfterSignUp returns the destination of a new person who came for no application.
func AfterSignUp(u *settings.Units) string {
	if u.Redirects.URLAfterSignUp != "" {
		return Absolute(u, u.Redirects.URLAfterSignUp)
	}
	return Landing(u, "")
}

// Allowed returns a place where a request asks to be sent if it is one of our paths or whitelisted, otherwise "".
func Allowed(u *settings.Units, wanted string) string {
	if to := OwnPath(wanted); to != "" {
		return to
	}
	if wanted != "" && settings.Whitelisted(u.Redirects.URLWhitelist, wanted) {
		return wanted
	}
	return ""
}

// OwnPath is one of our paths that a link asked for, or "". No link signs the person out after a sign-in or a step-up,
// also not by the language switch, which leads on.
func OwnPath(wanted string) string {
	to := web.LocalPath(wanted)
	if u, err := url.Parse(to); err != nil || slices.Contains([]string{"/sign-out", "/oauth/logout", web.LanguagePath}, path.Clean(u.Path)) {
		return ""
	}
	return to
}

// Absolute puts a path of the configuration on the default origin, if there is one.
func Absolute(u *settings.Units, target string) string {
	if strings.HasPrefix(target, "/") {
		return u.Redirects.DefaultOriginURL + target
	}
	return target
}

// TargetsOf names the origin of a place elsewhere, for the policy of the page whose form leads there.
func TargetsOf(to string) []string {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{u.Scheme + "://" + u.Host}
}

// LogoutTarget returns where a browser is sent after a sign-out that no client has asked for, or "" for our own page.
func LogoutTarget(u *settings.Units) string {
	if u.Redirects.URLAfterLogout == "" {
		return ""
	}
	return Absolute(u, u.Redirects.URLAfterLogout)
}

// AfterLogout is LogoutTarget for callers that have not read the settings.
func (s *Service) AfterLogout(ctx context.Context) (string, error) {
	u, err := s.deps.Person.Settings(ctx)
	if err != nil {
		return "", err
	}
	return LogoutTarget(u), nil
}
