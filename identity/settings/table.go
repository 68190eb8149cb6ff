package settings

import (
	"encoding/json"
	"reflect"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// unit is one configuration unit.
type unit struct {
	name string
	// of returns the unit in u.
	of func(u *Units) any
	// check checks what the tags of the fields cannot express: relations between members.
	check func(u *Units, c *checker)
}

// table is every unit, in the order in which they are stored, checked and shown.
var table = []unit{
	{"attributes", func(u *Units) any { return &u.Attributes }, nil},
	{"custom_messages", func(u *Units) any { return &u.CustomMessages }, checkCustomMessages},
	{"features", func(u *Units) any { return &u.Features }, checkFeatures},
	{"login_methods", func(u *Units) any { return &u.LoginMethods }, checkLoginMethods},
	{"organisations", func(u *Units) any { return &u.Organisations }, checkOrganisations},
	{"redirects", func(u *Units) any { return &u.Redirects }, checkRedirects},
	{"step_up", func(u *Units) any { return &u.StepUp }, nil},
	{"ui_extension", func(u *Units) any { return &u.UIExtension }, checkUIExtension},
	{"email_notifications", func(u *Units) any { return &u.EmailNotifications }, nil},
	{"password_policy", func(u *Units) any { return &u.PasswordPolicy }, checkPasswordPolicy},
	{"profile", func(u *Units) any { return &u.Profile }, checkProfile},
	{"messages", func(u *Units) any { return &u.Messages }, checkMessages},
	{"policies", func(u *Units) any { return &u.Policies }, nil},
}

// Defaults returns the units of a system that was never configured, and sends no e-mail: the switches of the APIs, of
// sign-in, of app passwords, of the authenticator app and of sessions at service providers are on, all others off.
// (docs/decisions/configuration.md#configuration-units)
func Defaults() Units {
	u := Units{
		Features: Features{
			LoginEnabled: true, ConfigurationAPIEnabled: true, CredentialsAPIEnabled: true, EventsAPIEnabled: true, PersonAPIEnabled: true,
			StatisticsAPIEnabled: true, StorageAPIEnabled: true,
			GoogleAuthenticatorStepUpAuthenticationEnabled: true, AppPasswordsEnabled: true, CookieBasedSAMLAuthentication: true,
			ActionToken: ActionToken{
				Login:    ActionTokenLogin{TTL: 3600, AuthenticationLevel: 1},
				AppToWeb: ActionTokenAppToWeb{TTL: 3600, AuthenticationLevel: 1},
				Coupling: ActionTokenCoupling{TTL: 3600},
			},
			PersonActivation: PersonActivation{
				ExpirationTime: 86400, Type: "EMAIL",
				ExternallyDeliveredCode: ActivationExternallyDeliveredCode{ResendCodeMinimumPeriod: 60},
			},
			ExternallyDeliveredCodeStepUp: ExternallyDeliveredCodeStepUp{ExpirationTime: 600},
		},
		LoginMethods:   LoginMethods{LoginMethods: []LoginMethod{own()}, MobileLogin: MobileLogin{AllowedLoginAttempts: 5}},
		PasswordPolicy: PasswordPolicy{MinLength: 8, MaxLength: 256},
		StepUp: StepUp{
			Actions: StepUpActions{
				DefaultStepUpAuthenticationLevel: 2, DashboardStepUpAuthenticationLevel: 1, SetupStepUpMethodsAuthenticationLevel: 1,
				ChangeEmailAuthenticationLevel: 1, ChangePasswordAuthenticationLevel: 1,
			},
			AuthenticationMethods: StepUpMethods{
				PINAuthenticationLevel: 2, SMSAuthenticationLevel: 2, EmailAuthenticationLevel: 2, GoogleAuthenticatorAuthenticationLevel: 3,
				PushAuthenticationLevel: 3, ExternallyDeliveredCodeAuthenticationLevel: 2,
			},
			Strategy: "USER_PREFERENCE",
		},
	}
	u.complete()
	return u
}

// complete compiles the expressions, and replaces missing arrays and objects by empty ones: the document has no null.
func (u *Units) complete() {
	for _, un := range table {
		u.visit(un, visitor{value: fill, rewrites: true})
	}
	u.Features.CustomEmailValidation.compile()
}

func fill(v reflect.Value, _ place) {
	switch {
	case v.Kind() == reflect.Slice: // a copy, since the caller's value must not change
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
	case v.Kind() == reflect.Map && v.IsNil():
		v.Set(reflect.MakeMap(v.Type()))
	}
}

// clone returns a copy with its secrets, to be changed and completed.
func (u *Units) clone() *Units {
	out := new(Units)
	if err := json.Unmarshal(encode(u), out); err != nil {
		panic(err) // it was written a moment ago
	}
	var kept []jsonapi.Secret
	for _, s := range u.secrets() {
		kept = append(kept, *s)
	}
	for _, s := range out.secrets() {
		*s, kept = kept[0], kept[1:]
	}
	return out
}

// encode returns a unit as it is read and stored, without secrets.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // units are strings, numbers, arrays and objects
	}
	return raw
}

// decode returns a function that reads JSON into the unit: members that are present replace, absent ones stay.
func (un unit) decode(raw []byte) func(u *Units) error {
	return func(u *Units) error { return jsonapi.DecodeBytes(raw, un.of(u)) }
}

// merge is decode for members of their own, as a form or an export has them: no member of the unit is required.
func (un unit) merge(raw []byte) func(u *Units) error {
	return func(u *Units) error { return jsonapi.MergeBytes(raw, un.of(u)) }
}

// replace is merge for JSON that has the whole unit: absent members get their defaults.
func (un unit) replace(raw []byte, standard *Units) func(u *Units) error {
	return func(u *Units) error {
		next := standard.clone()
		if err := un.merge(raw)(next); err != nil {
			return err
		}
		reflect.ValueOf(un.of(u)).Elem().Set(reflect.ValueOf(un.of(next)).Elem())
		return nil
	}
}
