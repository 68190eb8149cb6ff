package person

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Settings returns what the configuration API has set, as it is now.
func (s *Service) Settings(ctx context.Context) (u *config.Units, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		u, err = s.units(tx)
		return err
	})
	return u, err
}

// checkPolicy holds a new password, in the form that is hashed, against the policy. It is not ok when there is no such form.
func (s *Service) checkPolicy(ctx context.Context, normal string, ok bool) error {
	u, err := s.Settings(ctx)
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
	text := fmt.Sprintf("must have %d to %d characters", p.MinLength, min(p.MaxLength, MaxPassword))
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

// CheckConfigured holds what is known of a person against what the configuration API demands of it. before is nil for a new one.
func (s *Service) CheckConfigured(tx storage.Tx, p, before *ProfileRecord) error {
	u, err := s.units(tx)
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
	ActivationByCode  = "EXTERNALLY_DELIVERED_CODE"
	activationByEmail = "EMAIL" // by a link or a code that is sent to the person
)

// InactiveError says that the password is right, and the person inactive.
type InactiveError struct{ Account Holder }

func (e *InactiveError) Error() string { return "identity: the person has to be activated first" }

// OfInactive turns the right password of somebody who can be activated into an *InactiveError: only the right one tells.
func (s *Service) OfInactive(ctx context.Context, a Holder) error {
	u, err := s.Settings(ctx)
	if err == nil && u.Features.PersonActivation.Enabled && a.Person.State == Inactive && (u.Features.PersonActivation.Type == ActivationByCode || a.Person.AwaitsNow()) {
		err = &InactiveError{a}
	}
	if err == nil {
		err = ErrMismatch
	}
	return err
}
