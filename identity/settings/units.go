package settings

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/settings/address"
)

// Units is one consistent state of all configuration units. It must not be changed.
//
// The names in JSON are those of the identity service document, misspellings included. The tag check says which values
// are valid (check.go). The effect of each member is listed in effect/table.go.
type Units struct {
	Attributes         Attributes         `json:"attributes"`
	CustomMessages     CustomMessages     `json:"custom_messages"`
	Features           Features           `json:"features"`
	LoginMethods       LoginMethods       `json:"login_methods"`
	Organisations      []Organisation     `json:"organisations" check:"most,200"`
	Redirects          Redirects          `json:"redirects"`
	StepUp             StepUp             `json:"step_up"`
	UIExtension        UIExtension        `json:"ui_extension"`
	EmailNotifications EmailNotifications `json:"email_notifications"`
	PasswordPolicy     PasswordPolicy     `json:"password_policy"`
	Profile            Profile            `json:"profile"`
	Messages           Messages           `json:"messages" check:"most,200,locale"`
	Policies           Policies           `json:"policies" check:"most,200,id"`
}

// Messages maps a locale to the translations of message keys. (identity service document, "Configuration")
type Messages map[string]Translations

// Translations maps message keys to texts.
type Translations map[string]string

// CustomMessages replace the built-in messages of the pages. (identity service document, "CustomMessages")
type CustomMessages struct {
	Default Translations            `json:"default" check:"most,2000,message"`
	Locales map[string]Translations `json:"locales" check:"most,200,locale"`
}

// PasswordPolicy is the demands on a new password. (identity service document, "PasswordPolicy"; all members are
// required)
type PasswordPolicy struct {
	MinLength               int  `json:"min_length" rest:"required" check:"int,1,256"`
	MaxLength               int  `json:"max_length" rest:"required" check:"int,1,256"`
	LowerCaseCharRequired   bool `json:"lower_case_char_required" rest:"required"`
	UpperCaseCharRequired   bool `json:"upper_case_char_required" rest:"required"`
	SpecialCharRequired     bool `json:"special_char_required" rest:"required"`
	BreachedPasswordBlocked bool `json:"breached_password_blocked" rest:"required"`
}

// Profile says which attributes a person must have. (identity service document, "Configuration")
type Profile struct {
	Rules []AttributeRule `json:"required_attributes_validation_rules" check:"most,20"`
}

// AttributeRule is met by any one of its attributes.
type AttributeRule struct {
	AnyOf []string `json:"any_of" rest:"required" check:"most,4,enum,NAME|PHONE|BIRTH_DATE|EMAIL"`
}

// The attributes of an AttributeRule.
const (
	AttributeName      = "NAME"
	AttributePhone     = "PHONE"
	AttributeBirthDate = "BIRTH_DATE"
	AttributeEmail     = "EMAIL"
)

// Attributes says which attributes are asked for. (identity service document, "AttributesConfiguration")
type Attributes struct {
	NameVisibleOnDashboard        bool                          `json:"name_visible_on_dashboard"`
	PersonCreationMandatoryFields PersonCreationMandatoryFields `json:"person_creation_mandatory_fields"`
	SignUpFormFields              SignUpFormFields              `json:"sign_up_form_fields"`
	Verification                  Verification                  `json:"verification"`
}

// PersonCreationMandatoryFields are the attributes that a new person must have.
type PersonCreationMandatoryFields struct {
	FirstNameRequired    bool `json:"first_name_required"`
	LastNameRequired     bool `json:"last_name_required"`
	MobileNumberRequired bool `json:"mobile_number_required"`
}

// SignUpFormFields are the fields of the sign-up page.
type SignUpFormFields struct {
	MobileNumberEnabled             bool `json:"mobile_number_enabled"`
	MobileNumberConfirmationEnabled bool `json:"mobile_number_confirmation_enabled"`
	EmailConfirmationEnabled        bool `json:"email_confirmation_enabled"`
}

// Verification says which attributes are verified.
type Verification struct {
	EmailEnabled        bool `json:"email_enabled"`
	EmailRequired       bool `json:"email_required"`
	MobileNumberEnabled bool `json:"mobile_number_enabled"`
}

// WhitelistedURL is a URL that a person can be sent to, along with everything below its path. (identity service
// document, "WhitelistedUrl")
type WhitelistedURL struct {
	ID  string `json:"id" check:"text,64"` // a UUID that Gatehouse chooses
	URL string `json:"url" rest:"required" check:"whitelisted"`
}

// Whitelisted reports whether a person can be sent to raw: one URL of the list has its origin, and a path whose
// segments its own path begins with. A URL that a browser would read differently is never whitelisted.
func Whitelisted(list []WhitelistedURL, raw string) bool {
	u, err := address.Parse(raw)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(w WhitelistedURL) bool {
		entry, err := address.Parse(w.URL)
		return err == nil && entry.Scheme == u.Scheme && entry.Host == u.Host && address.Below(u.EscapedPath(), entry.EscapedPath())
	})
}

// Redirects says where people are sent. (identity service document, "RedirectsConfiguration")
type Redirects struct {
	DefaultOriginURL           string           `json:"default_origin_url" check:"origin"`
	URLAfterActivation         string           `json:"url_after_activation" check:"target"`
	URLAfterLogin              string           `json:"url_after_login" check:"target"`
	URLAfterLogout             string           `json:"url_after_logout" check:"target"`
	URLAfterSignUp             string           `json:"url_after_sign_up" check:"target"`
	ShowWaitPageWhileLoggingIn bool             `json:"show_wait_page_while_logging_in"`
	URLWhitelist               []WhitelistedURL `json:"url_whitelist" check:"most,500"`
}

// UIExtension is a user interface elsewhere. (identity service document, "UIExtensionConfiguration")
type UIExtension struct {
	BaseURL             string `json:"base_url" check:"url"`
	EnableLoginRedirect bool   `json:"enable_login_redirect"`
	LoginPath           string `json:"login_path" check:"path"`
}

// StepUp says which level each action needs, and which level each method gives. (identity service document,
// "StepUpConfiguration")
type StepUp struct {
	Actions               StepUpActions `json:"actions"`
	AuthenticationMethods StepUpMethods `json:"authentication_methods"`
	Strategy              string        `json:"stategy" check:"enum,USER_PREFERENCE|STRONGEST_AVAILABLE"` // spelled so on the wire
	SecondFactor          string        `json:"second_factor" check:"enum,|WHEN_SET_UP|ALWAYS|ON_DEMAND"` // not in the document
}

// StepUpActions are the levels that actions need.
type StepUpActions struct {
	AllowSetInitialStepUpMethodEnabled    bool `json:"allow_set_initial_step_up_method_enabled"`
	DefaultStepUpAuthenticationLevel      int  `json:"default_step_up_authentication_level" check:"int,1,4"`
	DashboardStepUpAuthenticationLevel    int  `json:"dashboard_step_up_authentication_level" check:"int,1,4"`
	SetupStepUpMethodsAuthenticationLevel int  `json:"setup_step_up_methods_authentication_level" check:"int,1,4"`
	ChangeEmailAuthenticationLevel        int  `json:"change_email_authentication_level" check:"int,1,4"`
	ChangePasswordAuthenticationLevel     int  `json:"change_password_authentication_level" check:"int,1,4"`
}

// StepUpMethods are the levels that methods give.
type StepUpMethods struct {
	PINAuthenticationLevel                     int `json:"pin_authentication_level" check:"int,1,4"`
	SMSAuthenticationLevel                     int `json:"sms_authentication_level" check:"int,1,4"`
	EmailAuthenticationLevel                   int `json:"email_authentication_level" check:"int,1,4"`
	GoogleAuthenticatorAuthenticationLevel     int `json:"google_authenticator_authentication_level" check:"int,1,4"`
	PushAuthenticationLevel                    int `json:"push_authentication_level" check:"int,1,4"`
	ExternallyDeliveredCodeAuthenticationLevel int `json:"externally_delivered_code_authentication_level" check:"int,1,4"`
}

// EmailNotifications says which notices people get by e-mail. (identity service document,
// "EmailNotificationConfiguration")
type EmailNotifications struct {
	AdministratorAccountBlocked            bool `json:"administrator_account_blocked"`
	ConfigurationErrorForAccountLinking    bool `json:"configuration_error_for_account_linking"`
	ValidationOfIDCardCompleted            bool `json:"validation_of_id_card_completed"`
	ValidationOfIDCardFailed               bool `json:"validation_of_id_card_failed"`
	AccountInvitation                      bool `json:"account_invitation"`
	IdentityCoupledToAccount               bool `json:"identity_coupled_to_account"`
	PasswordBlocked                        bool `json:"password_blocked"`
	PasswordReset                          bool `json:"password_reset"`
	PasswordResetForAccountWithoutPassword bool `json:"password_reset_for_account_without_password"`
	AccountRemoved                         bool `json:"account_removed"`
	StepUpAuthentication                   bool `json:"step_up_authentication"`
	PINReset                               bool `json:"pin_reset"`
	EmailVerification                      struct {
		OnWebEnabled bool `json:"on_web_enabled"`
		OnAPIEnabled bool `json:"on_api_enabled"`
	} `json:"email_verification"`
	Welcome struct {
		OnWebEnabled       bool `json:"on_web_enabled"`
		OnAPIEnabled       bool `json:"on_api_enabled"`
		OnMigrationEnabled bool `json:"on_migration_enabled"`
	} `json:"welcome"`
	AttributesUpdate struct {
		OnAllUpdated         bool `json:"on_all_updated"`
		OnEmailUpdated       bool `json:"on_email_updated"`
		OnPasswordUpdated    bool `json:"on_password_updated"`
		OnPhoneNumberUpdated bool `json:"on_phone_number_updated"`
	} `json:"attributes_update"`
}
