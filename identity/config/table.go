package config

import (
	"encoding/json"
	"reflect"
)

// unit is one configuration unit.
type unit struct {
	name string
	// of returns the unit in u.
	of func(u *Units) any
	// check says what the tags of the fields cannot: what members have to do with each other.
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
}

// Defaults returns the units of a system that nobody has configured: the switches of the APIs and of sign-in are on, all others off.
// (docs/decisions.md, "Configuration")
func Defaults() Units {
	u := Units{
		Features: Features{
			LoginEnabled: true, ConfigurationAPIEnabled: true, CredentialsAPIEnabled: true, EventsAPIEnabled: true, PersonAPIEnabled: true,
			SessionAPIEnabled: true, StatisticsAPIEnabled: true, StorageAPIEnabled: true,
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

// complete makes what derives from the members, and arrays and objects of what is empty, since null is no value of the document.
func (u *Units) complete() {
	fill(reflect.ValueOf(u).Elem())
	u.Features.CustomEmailValidation.compile()
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if v.Type().Elem().Kind() == reflect.String {
			return
		}
		for it := v.MapRange(); it.Next(); { // values of maps cannot be set in place
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(it.Value())
			fill(item)
			v.SetMapIndex(it.Key(), item)
		}
	}
}

// clone returns a copy that shares nothing with u but what is never changed in place. Secrets are kept.
func (u *Units) clone() *Units {
	out := *u
	for _, un := range table {
		copyInto(reflect.ValueOf(un.of(&out)).Elem())
	}
	return &out
}

// copyInto replaces every array, object and pointer in v by a copy.
func copyInto(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fresh := reflect.New(v.Type().Elem())
			fresh.Elem().Set(v.Elem())
			copyInto(fresh.Elem())
			v.Set(fresh)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				copyInto(v.Field(i))
			}
		}
	case reflect.Slice:
		fresh := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(fresh, v)
		for i := range fresh.Len() {
			copyInto(fresh.Index(i))
		}
		v.Set(fresh)
	case reflect.Map:
		fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(it.Value())
			copyInto(item)
			fresh.SetMapIndex(it.Key(), item)
		}
		v.Set(fresh)
	}
}

// encode returns a unit as it is read and stored, without secrets.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // units are strings, numbers, arrays and objects
	}
	return raw
}
