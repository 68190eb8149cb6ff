package settings

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Rights are the settings that a caller can change. (docs/decisions/console.md#settings-of-sign-in)
type Rights int

// The rights. Each includes the ones before it.
const (
	Ordinary Rights = iota // everything but the settings of sign-in
	SignIn                 // the settings of sign-in too, except login methods that sign in people with a role in the console
	Owner                  // everything
)

type rightsKey struct{}

// WithRights returns a context for the changes of a caller. Without it a caller has Ordinary rights.
func WithRights(ctx context.Context, r Rights) context.Context {
	return context.WithValue(ctx, rightsKey{}, r)
}

// signInSettings decide who a person is, and how strongly that is shown: units, objects and members. No one should be
// able to sign in as someone else by changing them.
var signInSettings = []string{
	"login_methods", "step_up", "ui_extension",
	"features.automated_external_identity_coupling_enabled", "features.bind_multiple_external_accounts_with_one_cim_account",
	"features.migration_enabled", "features.unauthenticated_migration_enabled",
	"features.person_identifier_in_external_profile_required_for_migration",
	"features.action_token.login", "features.action_token.app_to_web", "features.action_token.coupling",
	"features.google_authenticator_step_up_authentication_enabled", "features.mobile_authentication_enabled",
	"features.pin_enabled", "features.sms_enabled", "email_notifications.step_up_authentication", "email_notifications.pin_reset",
	"features.externally_delivered_code_step_up", "features.step_up_authentication_method_externally_delivered_code_enabled",
}

// DecidesSignIn reports whether a member, an object or a unit is one of the settings of sign-in as a whole.
func DecidesSignIn(path string) bool {
	return slices.ContainsFunc(signInSettings, func(of string) bool { return path == of || strings.HasPrefix(path, of+".") })
}

// permit returns the changed settings of sign-in, or an error if the rights do not cover all changes.
func permit(rights Rights, changed []Change, from, to *Units) (signIn []Change, err error) {
	for _, c := range changed {
		if DecidesSignIn(c.Path) {
			signIn = append(signIn, c)
		}
	}
	for _, path := range asksForLess(from, to) {
		signIn = append(signIn, Change{Path: path, unit: "organisations"})
	}
	switch {
	case rights == Ordinary && len(signIn) > 0:
		return nil, refuseOrdinary(signIn[0].Path)
	case rights < Owner:
		if id := changedForAdministrators(from, to); id != "" {
			return nil, withCode(http.StatusForbidden, coded.Errorf("owners_only_method", "method",
				"login_methods.login_methods: the method %s, which signs in administrators, "+ownersOnly, shown(id)))
		}
	}
	return signIn, nil
}

// applyKeyPairs stores key pairs, if the rights cover what that changes, and returns the changes. Login methods verify
// with key pairs what providers say.
func applyKeyPairs(tx storage.Tx, pairs *keystore.Change, rights Rights) ([]Change, error) {
	changed, err := changesOfKeyPairs(tx, pairs)
	if err != nil {
		return nil, err
	}
	if rights == Ordinary && len(changed) > 0 {
		return nil, refuseOrdinary(changed[0].Path)
	}
	return changed, pairs.Apply(tx)
}

func refuseOrdinary(path string) error {
	return withCode(http.StatusForbidden, coded.Errorf("owners_only", "member", "%s "+ownersOnly, path))
}

const ownersOnly = "can be changed only by an owner of the admin console, the command line or an API client with the API administrators"

// asksForLess returns the paths of members by which applications of organisations ask sign-ins for less than before.
// Their second_factor overrules client and settings, so it can be less, whatever these say; and so can a trusted
// browser, which counts for the second factor.
func asksForLess(from, to *Units) (paths []string) {
	for _, o := range slices.Concat(from.Organisations, to.Organisations) {
		for id := range o.ServiceProviders {
			was, is := from.SecondFactor(id, "-"), to.SecondFactor(id, "-")
			for member, less := range map[string]bool{
				"second_factor":                     was != is && is != authn.SecondFactorAlways && was != authn.SecondFactorOnDemand,
				"use_trusted_device":                !from.TrustsBrowsers(id) && to.TrustsBrowsers(id),
				"required_authentication_level":     to.RequiredLevel(id) < from.RequiredLevel(id),
				"required_identity_assurance_level": to.RequiredAssurance(id) < from.RequiredAssurance(id),
			} {
				if less {
					paths = append(paths, "organisations.service_providers."+shown(id)+"."+member)
				}
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// changedForAdministrators returns the id of a login method that signs in people with a role in the console, and is not
// as it was, or "". One that no longer does so takes nothing from anyone.
func changedForAdministrators(from, to *Units) string {
	for i := range to.LoginMethods.LoginMethods {
		now := &to.LoginMethods.LoginMethods[i]
		if !now.Removable || !now.AdministratorsEnabled {
			continue
		}
		was := from.method(now.ID)
		if was == nil || !reflect.DeepEqual(encode(now), encode(was)) || !slices.Equal(now.revealed(), was.revealed()) {
			return now.ID
		}
	}
	return ""
}

// AdmitsRoles reports whether a session that a login method has opened counts for people with a role in the console.
func (u *Units) AdmitsRoles(id string) bool {
	if id == "" || id == OwnMethod {
		return true
	}
	m := u.method(id)
	return m != nil && (!m.Removable || m.AdministratorsEnabled || m.Type == TypeQRCode)
}

// SignsIn reports whether people can sign in by a login method: it exists and is enabled.
func (u *Units) SignsIn(id string) bool {
	m := u.method(id)
	return m != nil && m.Enabled
}

// OnSignInChange sets what is done in the transaction of a change of the settings of sign-in, such as telling the
// owners. It is called before the service is used.
func (s *Service) OnSignInChange(fn func(tx storage.Tx, by audit.Actor, paths []string, at time.Time) error) {
	s.onSignIn = fn
}

// tellOwners appends the event told and tells the owners, where settings of sign-in have changed. paths name them.
func (s *Service) tellOwners(tx storage.Tx, told audit.Event, by audit.Actor, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	told.Reason = listed(paths)
	if err := s.events.Append(tx, told); err != nil || s.onSignIn == nil {
		return err
	}
	return s.onSignIn(tx, by, paths, told.Occurred)
}
