package front

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// IsOpen returns session.ErrClosed while nobody may sign in.
func (s *Service) IsOpen(ctx context.Context) error {
	u, err := s.person.Settings(ctx)
	if err == nil && !u.Features.LoginEnabled {
		err = session.ErrClosed
	}
	return err
}

// AnswerClosed answers who wants to sign in while nobody may; any other error is returned.
func (s *Service) AnswerClosed(w http.ResponseWriter, r *http.Request, d login.Demand, err error) error {
	if !errors.Is(err, session.ErrClosed) {
		return err
	}
	s.log.Info("sign-in refused", zap.String("client_ip", s.origin(r).ClientIP), zap.NamedError("cause", err))
	if d.Passive {
		return &login.Refusal{Code: "login_required", Reason: "signing in is switched off"}
	}
	s.pages.Error(w, r, http.StatusForbidden, "error.closed", "")
	return login.ErrResponded
}

// PasswordTaken returns nil when a password signs in without a page; otherwise a *login.Refusal.
func (s *Service) PasswordTaken(ctx context.Context) error {
	u, err := s.person.Settings(ctx)
	if err == nil && !(u.Features.LoginEnabled && u.PasswordLogin()) {
		err = &login.Refusal{Code: "access_denied", Reason: "signing in is switched off"}
	}
	return err
}

// Landing is where a person goes who has signed in for nothing in particular: where they asked to go, if that may be, otherwise where the
// configuration says, otherwise the account page.
func Landing(u *config.Units, wanted string) string {
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

// Allowed returns a place where a request asks to be sent, when it is a path of ours or whitelisted, otherwise "".
func Allowed(u *config.Units, wanted string) string {
	if to := page.LocalPath(wanted); to != "" {
		return to
	}
	if wanted != "" && config.Whitelisted(u.Redirects.URLWhitelist, wanted) {
		return wanted
	}
	return ""
}

// Absolute puts a path of the configuration on the default origin, if there is one.
func Absolute(u *config.Units, target string) string {
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

// AfterLogout returns where a person goes who has signed out and whom no client has sent, or "" for our own page.
func (s *Service) AfterLogout(ctx context.Context) (string, error) {
	u, err := s.person.Settings(ctx)
	if err != nil || u.Redirects.URLAfterLogout == "" {
		return "", err
	}
	return Absolute(u, u.Redirects.URLAfterLogout), nil
}
