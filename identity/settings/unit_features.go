package settings

import "regexp"

// Features are switches. (identity service document, "FeaturesConfiguration")
type Features struct {
	AcceptingInvitationEnabled                            bool `json:"accepting_invitation_enabled"`
	AdminConsoleEnabled                                   bool `json:"admin_console_enabled"`
	AllowSignUpWithoutInvitationValidation                bool `json:"allow_sign_up_without_invitation_validation"`
	AppPasswordsEnabled                                   bool `json:"app_passwords_enabled"`
	AutomatedExternalIdentityCouplingEnabled              bool `json:"automated_external_identity_coupling_enabled"`
	BindMultipleExternalAccountsWithOneCIMAccount         bool `json:"bind_multiple_external_accounts_with_one_cim_account"`
	ConfigurationAPIEnabled                               bool `json:"configuration_api_enabled"`
	CookieBasedSAMLAuthentication                         bool `json:"cookie_based_saml_authentication"`
	CredentialsAPIEnabled                                 bool `json:"credentials_api_enabled"`
	EventsAPIEnabled                                      bool `json:"events_api_enabled"`
	ExperimentalFeaturesEnabled                           bool `json:"experimental_features_enabled"`
	GoogleAuthenticatorStepUpAuthenticationEnabled        bool `json:"google_authenticator_step_up_authentication_enabled"`
	LoginEnabled                                          bool `json:"login_enabled"`
	MigrationEnabled                                      bool `json:"migration_enabled"`
	MobileAuthenticationEnabled                           bool `json:"mobile_authentication_enabled"`
	MobileNumberValidationBackendServicesEnabled          bool `json:"mobile_number_validation_backend_services_enabled"`
	PasswordResetEnabled                                  bool `json:"password_reset_enabled"`
	PersonAPIEnabled                                      bool `json:"person_api_enabled"`
	PersonIdentifierInExternalProfileRequiredForMigration bool `json:"person_identifier_in_external_profile_required_for_migration"`
	PINEnabled                                            bool `json:"pin_enabled"`
	PostLoginExtraRegistrationAfterSecondLogin            bool `json:"post_login_extra_registration_after_second_login"`
	SessionAPIEnabled                                     bool `json:"session_api_enabled"`
	SignUpEnabled                                         bool `json:"sign_up_enabled"`
	SMSEnabled                                            bool `json:"sms_enabled"`
	StatisticsAPIEnabled                                  bool `json:"statistics_api_enabled"`
	StorageAPIEnabled                                     bool `json:"storage_api_enabled"`
	UnauthenticatedMigrationEnabled                       bool `json:"unauthenticated_migration_enabled"`
	UsernameReminderViaSMSEnabled                         bool `json:"username_reminder_via_sms_enabled"`
	// StepUpExternallyDeliveredCodeEnabled is deprecated: ExternallyDeliveredCodeStepUp.Enabled says the same.
	StepUpExternallyDeliveredCodeEnabled bool `json:"step_up_authentication_method_externally_delivered_code_enabled"`

	ActionToken                    ActionToken                    `json:"action_token"`
	PersonActivation               PersonActivation               `json:"person_activation"`
	CustomEmailValidation          CustomEmailValidation          `json:"custom_email_validation"`
	InvitationVerificationRequired InvitationVerificationRequired `json:"invitation_verification_required"`
	ExternallyDeliveredCodeStepUp  ExternallyDeliveredCodeStepUp  `json:"externally_delivered_code_step_up"`
}

// ActionToken says which kinds of action tokens exist. A TTL counts seconds.
type ActionToken struct {
	Login           ActionTokenLogin    `json:"login"`
	AppToWeb        ActionTokenAppToWeb `json:"app_to_web"`
	Coupling        ActionTokenCoupling `json:"coupling"`
	WhitelistedURLs []WhitelistedURL    `json:"whitelisted_urls" check:"most,500"`
}

// ActionTokenLogin is about tokens that sign a person in.
type ActionTokenLogin struct {
	Enabled             bool `json:"enabled"`
	TTL                 int  `json:"ttl" check:"int,1,31536000"`
	AuthenticationLevel int  `json:"authentication_level" check:"int,1,4"`
	UIGenerationEnabled bool `json:"ui_generation_enabled"`
}

// ActionTokenAppToWeb is about tokens that carry a sign-in from an app to the web.
type ActionTokenAppToWeb struct {
	Enabled             bool `json:"enabled"`
	TTL                 int  `json:"ttl" check:"int,1,31536000"`
	AuthenticationLevel int  `json:"authentication_level" check:"int,1,4"`
}

// ActionTokenCoupling is about tokens that couple an external identity.
type ActionTokenCoupling struct {
	Enabled bool `json:"enabled"`
	TTL     int  `json:"ttl" check:"int,1,31536000"`
}

// PersonActivation says how new persons become active. Times count seconds.
type PersonActivation struct {
	Enabled                                    bool                              `json:"enabled"`
	ExpirationTime                             int                               `json:"expiration_time" check:"int,1,31536000"`
	Type                                       string                            `json:"type" check:"enum,EMAIL|EXTERNALLY_DELIVERED_CODE"`
	ExternallyDeliveredCode                    ActivationExternallyDeliveredCode `json:"externally_delivered_code"`
	ActivationDuringFirstAuthenticationEnabled bool                              `json:"activation_during_first_authentication_enabled"`
}

// ActivationExternallyDeliveredCode is about codes that are delivered outside Gatehouse. Times count seconds.
type ActivationExternallyDeliveredCode struct {
	UnavailabilityTime                      int  `json:"unavailability_time" check:"int,0,31536000"`
	ResendCodeMinimumPeriod                 int  `json:"resend_code_minimum_period" check:"int,0,31536000"`
	ForceActivationAfterAcceptingInvitation bool `json:"force_activation_after_accepting_invitation"`
}

// CustomEmailValidation is about additional demands on e-mail addresses: each expression must match the whole of its
// part.
type CustomEmailValidation struct {
	Enabled       bool   `json:"enabled"`
	BeforeAtRegex string `json:"before_at_regex" check:"regex,512"`
	AfterAtRegex  string `json:"after_at_regex" check:"regex,512"`

	before, after *regexp.Regexp // compiled, nil for an empty one
}

// InvitationVerificationRequired says how an invited person proves their identity.
type InvitationVerificationRequired struct {
	ViaBirthdateEnabled               bool `json:"via_birthdate_enabled"`
	ViaSMSEnabled                     bool `json:"via_sms_enabled"`
	ViaExternallyDeliveredCodeEnabled bool `json:"via_externally_delivered_code_enabled"`
}

// ExternallyDeliveredCodeStepUp is about step-up by codes that are delivered outside Gatehouse.
type ExternallyDeliveredCodeStepUp struct {
	Enabled        bool `json:"enabled"`
	ExpirationTime int  `json:"expiration_time" check:"int,1,31536000"` // seconds
}
