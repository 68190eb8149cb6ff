package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// configured returns what the configuration API has set, as it is now.
func (s *Service) configured(ctx context.Context) (u *config.Units, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		u, err = s.Units(tx)
		return err
	})
	return u, err
}

// isOpen returns errClosed while nobody may sign in.
func (s *Service) isOpen(ctx context.Context) error {
	u, err := s.configured(ctx)
	if err == nil && !u.Features.LoginEnabled {
		err = errClosed
	}
	return err
}

// answerClosed answers who wants to sign in while nobody may; any other error is returned.
func (s *Service) answerClosed(w http.ResponseWriter, r *http.Request, d login.Demand, err error) error {
	if !errors.Is(err, errClosed) {
		return err
	}
	s.Log.Info("sign-in refused", zap.String("client_ip", s.Origin(r).ClientIP), zap.NamedError("cause", err))
	if d.Passive {
		return &login.Refusal{Code: "login_required", Reason: "signing in is switched off"}
	}
	s.Pages.Error(w, r, http.StatusForbidden, "error.closed", "")
	return login.ErrResponded
}

// passwordTaken returns nil when a password signs in without a page; otherwise a *login.Refusal.
func (s *Service) passwordTaken(ctx context.Context) error {
	u, err := s.configured(ctx)
	if err == nil && !(u.Features.LoginEnabled && u.PasswordLogin()) {
		err = &login.Refusal{Code: "access_denied", Reason: "signing in is switched off"}
	}
	return err
}

// landing is where a person goes who has signed in for nothing in particular: where they asked to go, if that may be, otherwise where the
// configuration says, otherwise the account page.
func landing(u *config.Units, wanted string) string {
	if to := allowed(u, wanted); to != "" {
		return to
	}
	switch {
	case u.Redirects.URLAfterLogin != "":
		return absolute(u, u.Redirects.URLAfterLogin)
	case u.Redirects.DefaultOriginURL != "":
		return u.Redirects.DefaultOriginURL + "/"
	}
	return defaultReturn
}

// allowed returns a place where a request asks to be sent, when it is a path of ours or whitelisted, otherwise "".
func allowed(u *config.Units, wanted string) string {
	if to := page.LocalPath(wanted); to != "" {
		return to
	}
	if wanted != "" && config.Whitelisted(u.Redirects.URLWhitelist, wanted) {
		return wanted
	}
	return ""
}

// absolute puts a path of the configuration on the default origin, if there is one.
func absolute(u *config.Units, target string) string {
	if strings.HasPrefix(target, "/") {
		return u.Redirects.DefaultOriginURL + target
	}
	return target
}

// targetsOf names the origin of a place elsewhere, for the policy of the page whose form leads there.
func targetsOf(to string) []string {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{u.Scheme + "://" + u.Host}
}

// AfterLogout returns where a person goes who has signed out and whom no client has sent, or "" for our own page.
func (s *Service) AfterLogout(ctx context.Context) (string, error) {
	u, err := s.configured(ctx)
	if err != nil || u.Redirects.URLAfterLogout == "" {
		return "", err
	}
	return absolute(u, u.Redirects.URLAfterLogout), nil
}

// checkPolicy holds a new password, in the form that is hashed, against the policy. It is not ok when there is no such form.
func (s *Service) checkPolicy(ctx context.Context, normal string, ok bool) error {
	u, err := s.configured(ctx)
	switch {
	case err != nil:
		return err
	case !ok || len(u.PasswordPolicy.Check(normal)) > 0:
		return &ValidationError{"password", policyProblem(u.PasswordPolicy)}
	case u.PasswordPolicy.BreachedPasswordBlocked:
		return s.checkBreached(ctx, normal)
	}
	return nil
}

// policyProblem says what the policy demands, all of it, so that nobody has to try again and again.
func policyProblem(p config.PasswordPolicy) string {
	text := fmt.Sprintf("must have %d to %d characters", p.MinLength, min(p.MaxLength, maxPassword))
	var classes []string
	for _, c := range []struct {
		required bool
		name     string
	}{
		{p.LowerCaseCharRequired, "a lower case letter"},
		{p.UpperCaseCharRequired, "an upper case letter"},
		{p.SpecialCharRequired, "a character that is neither letter nor digit"},
	} {
		if c.required {
			classes = append(classes, c.name)
		}
	}
	if len(classes) > 0 {
		text += ", among them " + strings.Join(classes, " and ")
	}
	return text
}

// checkConfigured holds what is known of a person against what the configuration API demands of it. before is nil for a new one.
func (s *Service) checkConfigured(tx storage.Tx, p, before *profileRecord) error {
	u, err := s.Units(tx)
	if err != nil {
		return err
	}
	for _, e := range p.Profile.EmailAddresses {
		known := before != nil && slices.ContainsFunc(before.Profile.EmailAddresses, func(old EmailAddress) bool { return old.Value == e.Value })
		if !known && !u.Features.CustomEmailValidation.Check(e.Value) {
			return &ValidationError{"email", "is not an address that is taken here"}
		}
	}
	must := u.Attributes.PersonCreationMandatoryFields
	switch {
	case before != nil:
	case must.FirstNameRequired && p.Profile.Name.FirstName == "":
		return &ValidationError{"given_name", "is required"}
	case must.LastNameRequired && p.Profile.Name.LastName == "":
		return &ValidationError{"family_name", "is required"}
	case must.MobileNumberRequired && len(p.Profile.PhoneNumbers) == 0:
		return &ValidationError{"phone_number", "is required"}
	}
	return nil
}

// The types of activation. (identity service document, FeaturesConfiguration)
const (
	activationByCode  = "EXTERNALLY_DELIVERED_CODE"
	activationByEmail = "EMAIL" // by a link or a code that is sent to the person
)

// inactiveError says that the password is right, and the person inactive.
type inactiveError struct{ account account }

func (e *inactiveError) Error() string { return "identity: the person has to be activated first" }

// ofInactive turns the right password of somebody who can be activated into an *inactiveError: only the right one tells.
func (s *Service) ofInactive(ctx context.Context, a account) error {
	u, err := s.configured(ctx)
	if err == nil && u.Features.PersonActivation.Enabled && a.person.State == Inactive && (u.Features.PersonActivation.Type == activationByCode || a.person.awaits()) {
		err = &inactiveError{a}
	}
	if err == nil {
		err = errMismatch
	}
	return err
}
