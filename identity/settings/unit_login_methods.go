package settings

import "github.com/gatehouse-id/gatehouse/internal/jsonapi"

// LoginMethods are the ways to sign in. (identity service document, "LoginMethodsConfiguration")
type LoginMethods struct {
	LoginMethods []LoginMethod `json:"login_methods" check:"most,100"`
	MobileLogin  MobileLogin   `json:"mobile_login"`
}

// MobileLogin is sign-in by a phone on which the person is signed in.
type MobileLogin struct {
	AllowedLoginAttempts int    `json:"allowed_login_attempts" check:"int,1,1000"`
	AuthenticationType   string `json:"authentication_type" check:"enum,|BROWSER|APP"`
	Enabled              bool   `json:"enabled"`
	LoginMessage         string `json:"login_message" check:"text,1024"`
	ShowUseMobileToLogin bool   `json:"show_use_mobile_to_login"`
	StepUpMessage        string `json:"step_up_message" check:"text,1024"`
	StepUpType           string `json:"step_up_type" check:"enum,|PIN|SMS|EMAIL|GOOGLE_AUTHENTICATOR|PUSH|EXTERNALLY_DELIVERED_CODE|PASSKEY"`
}

// The types of login methods. (identity service document; docs/decisions/configuration.md#login-methods names those
// that it omits)
const (
	TypeEIDAS      = "EIDAS"
	TypeKerberos   = "KERBEROS"
	TypeLDAP       = "LDAP"
	TypeOIDC       = "OPEN_ID_CONNECT"
	TypeQRCode     = "QR_CODE"
	TypeSAML       = "SAML"
	TypePassword   = "USERNAME_AND_PASSWORD"
	TypeAzureADB2C = "AZURE_AD_B2C"
	TypeIDIN       = "IDIN"
	TypeDigiD      = "DIGID"
	TypeItsme      = "ITSME"
	TypeApple      = "APPLE"
	TypeFacebook   = "FACEBOOK"
	TypeGoogle     = "GOOGLE"
	TypeLinkedIn   = "LINKEDIN"
	TypeTwitter    = "TWITTER"
	TypeInstagram  = "INSTAGRAM"
	TypeMicrosoft  = "MICROSOFT"
	// GitHub and Discord are additions to the document.
	TypeGitHub  = "GITHUB"
	TypeDiscord = "DISCORD"
	// TypeHeader is the type of a header provider of the Caddyfile. No method of this type can be added.
	TypeHeader = "HEADER"
)

// OwnMethod is the id of the login method that is Gatehouse's own: username and password.
const OwnMethod = "identity"

// LoginMethod is one way to sign in. It has at most one attribute object, that of its type.
type LoginMethod struct {
	ID                                           string `json:"id" check:"id"`
	Name                                         string `json:"name" check:"text,128"`
	Type                                         string `json:"type" rest:"required" check:"enum,EIDAS|KERBEROS|LDAP|OPEN_ID_CONNECT|QR_CODE|SAML|USERNAME_AND_PASSWORD|AZURE_AD_B2C|IDIN|DIGID|ITSME|APPLE|FACEBOOK|GOOGLE|LINKEDIN|TWITTER|INSTAGRAM|MICROSOFT|GITHUB|DISCORD|HEADER"`
	Enabled                                      bool   `json:"enabled"`
	Removable                                    bool   `json:"removable"`              // false: declared in the Caddyfile, or Gatehouse's own
	AdministratorsEnabled                        bool   `json:"administrators_enabled"` // not in the document
	AutoActivationEnabled                        bool   `json:"auto_activation_enabled"`
	AutoEmailVerification                        bool   `json:"auto_email_verification"`
	SynchroniseAttributes                        bool   `json:"synchronise_attributes"`
	MigrationDuringSignUp                        bool   `json:"migration_during_sign_up"`
	ForceCreatingUsernameAndPasswordDuringSignUp bool   `json:"force_creating_username_and_password_during_sign_up"`
	AuthenticationLevel                          int    `json:"authentication_level" check:"int,0,4"` // 0: the default, 1
	IdentityAssuranceLevel                       int    `json:"identity_assurance_level" check:"int,0,4"`

	AttributeMappings          []AttributeMapping        `json:"attribute_mappings" check:"most,200"`
	CustomAttributeMappings    []CustomAttributesMapping `json:"custom_attribute_mappings" check:"most,200"`
	CustomAttributeFields      []CustomAttributeField    `json:"custom_attribute_fields" check:"most,20"`
	ExcludedUnmappedAttributes []string                  `json:"excluded_unmapped_attributes" check:"most,200,text,256"`
	SAMLMutualTLS              SAMLMutualTLS             `json:"saml_mutual_ssl_tls_attributes"`

	EIDAS      *EIDASAttributes      `json:"eidas_attributes,omitempty"`
	Kerberos   *KerberosAttributes   `json:"kerberos_attributes,omitempty"`
	LDAP       *LDAPAttributes       `json:"ladp_attributes,omitempty"` // spelled so on the wire
	OIDC       *OIDCAttributes       `json:"open_id_connect_attributes,omitempty"`
	QRCode     *QRCodeAttributes     `json:"qr_code_attributes,omitempty"`
	SAML       *SAMLAttributes       `json:"saml_attributes,omitempty"`
	AzureADB2C *AzureADB2CAttributes `json:"azure_ad_b2c_attributes,omitempty"`
	IDIN       *IDINAttributes       `json:"idin_attributes,omitempty"`
	DigiD      *DigiDAttributes      `json:"digid_attributes,omitempty"`
	Itsme      *ItsmeAttributes      `json:"itsme_attributes,omitempty"`
	Apple      *AppleAttributes      `json:"apple_attributes,omitempty"`
	Facebook   *SocialAttributes     `json:"facebook_attributes,omitempty"`
	Google     *SocialAttributes     `json:"google_attributes,omitempty"`
	LinkedIn   *SocialAttributes     `json:"linkedin_attributes,omitempty"`
	Twitter    *SocialAttributes     `json:"twitter_attributes,omitempty"`
	Instagram  *SocialAttributes     `json:"instagram_attributes,omitempty"`
	Microsoft  *SocialAttributes     `json:"microsoft_attributes,omitempty"`
	GitHub     *SocialAttributes     `json:"github_attributes,omitempty"`
	Discord    *SocialAttributes     `json:"discord_attributes,omitempty"`
}

// AttributeMapping maps an attribute of the provider to one of the person.
type AttributeMapping struct {
	ID       string `json:"id" check:"id"`
	MapFrom  string `json:"map_from" rest:"required" check:"text,256"`
	MapTo    string `json:"map_to" rest:"required" check:"text,256"`
	Editable bool   `json:"editable"`
}

// CustomAttributesMapping maps an attribute of the provider to a custom attribute.
type CustomAttributesMapping struct {
	ID                 string `json:"id" check:"id"`
	AttributeToMapFrom string `json:"attribute_to_map_from" check:"text,256"`
	AttributeToMapTo   string `json:"attribute_to_map_to" check:"text,256"`
}

// The types of custom fields.
const (
	FieldText     = "TEXT"
	FieldNumber   = "NUMBER"
	FieldCheckbox = "CHECKBOX"
)

// CustomAttributeField is an additional field of the registration form.
type CustomAttributeField struct {
	ID   string `json:"id" check:"id"`
	Name string `json:"name" check:"text,128"`
	Type string `json:"type" check:"enum,TEXT|NUMBER|CHECKBOX"`
}

// SAMLMutualTLS names the key pairs that authenticate the back channel.
type SAMLMutualTLS struct {
	ClientKeyPairID     string `json:"client_key_pair_id" check:"keypair"`
	ServerCertificateID string `json:"server_certificate_id" check:"keypair"`
}

// EIDASAttributes belong to type EIDAS.
type EIDASAttributes struct {
	AuthenticationService            string `json:"authentication_service" check:"enum,|NONE|ACCEPTANCE|PRODUCTION|CUSTOM"`
	AuthenticationServiceCustomValue string `json:"authentication_service_custom_value" check:"text,2048"`
	RequiredLevelOfAssurance         string `json:"required_level_of_assurance" check:"enum,|NON_EXISTENT|LOW|LOW_PLUS|SUBSTANTIAL|HIGH"`
	EntityID                         string `json:"entity_id" check:"text,1024"`
	BSNVerificationPoint             string `json:"bsn_verification_point" check:"text,2048"`
	PseudoIDVerificationPoint        string `json:"pseudo_id_verification_point" check:"text,2048"`
	EncryptionKeyID                  string `json:"encryption_key_id" check:"keypair"`
	SigningKeyID                     string `json:"signing_key_id" check:"keypair"`
	BSNDecryptionKeyID               string `json:"bsn_decryption_key_id" check:"keypair"`
	PseudoIDDecryptionKeyID          string `json:"pseudo_id_decryption_key_id" check:"keypair"`
	PseudoIDClosingKeyID             string `json:"pseudo_id_closing_key_id" check:"keypair"`
	IDPMetadata                      string `json:"idp_metadata" check:"metadata"`
}

// KerberosAttributes belong to type KERBEROS.
type KerberosAttributes struct {
	AutoLoginEnabled bool   `json:"auto_login_enabled"`
	KeytabID         string `json:"keytab_id" check:"keytab"` // an addition to the document (docs/decisions/configuration.md#login-methods)
}

// LDAPAttributes belong to type LDAP.
type LDAPAttributes struct {
	ServerURLs               string         `json:"server_urls" check:"text,2048"`
	BaseSuffix               string         `json:"base_suffix" check:"text,1024"`
	UserDistinguishedName    string         `json:"user_distinguished_name" check:"text,1024"`
	Password                 jsonapi.Secret `json:"password" check:"secret,1024"`
	AuthenticationDNTemplate string         `json:"authentication_dn_template" check:"text,1024"`
	MatchPattern             string         `json:"match_pattern" check:"text,1024"`
	IPRangeEnabled           bool           `json:"ip_range_enabled"`
	IPRanges                 []string       `json:"ip_ranges" check:"most,100,cidr"`
	AttributesToBeFetched    []string       `json:"attributes_to_be_fetched" check:"most,100,text,256"`
}

// OIDCAttributes belong to type OPEN_ID_CONNECT.
type OIDCAttributes struct {
	ClientAuthenticationMethod string `json:"client_authentication_method" check:"enum,|CLIENT_SECRET_BASIC|PRIVATE_KEY_JWT"`
	ClientID                   string `json:"client_id" check:"text,256"`
	// The document has no place for it (docs/decisions/configuration.md#login-methods).
	ClientSecret                jsonapi.Secret `json:"client_secret" check:"secret,1024"`
	SigningKeyID                string         `json:"signing_key_id" check:"keypair"` // likewise, for PRIVATE_KEY_JWT
	DiscoveryURL                string         `json:"discovery_url" check:"url"`
	AuthorizationURL            string         `json:"authorization_url" check:"url"`
	IDTokenURL                  string         `json:"id_token_url" check:"url"`
	UserInfoURL                 string         `json:"user_info_url" check:"url"`
	JWKSURL                     string         `json:"jwks_url" check:"url"`
	Issuer                      string         `json:"issuer" check:"url"`
	EndSessionURL               string         `json:"end_session_url" check:"url"`
	ManualMetadataSetup         bool           `json:"manual_metadata_setup"`
	FrontChannelLogoutEnabled   bool           `json:"front_channel_logout_enabled"`
	IDTokenEncryptionRequired   bool           `json:"id_token_encryption_required"`
	UserInfoEncryptionRequired  bool           `json:"user_info_encryption_required"`
	MetadataExpirationInSeconds int            `json:"metadata_expiration_time_in_seconds" check:"int,0,31622400"` // 0: the default
	Scopes                      []string       `json:"scopes" check:"most,100,scope"`
	Claims                      []string       `json:"claims" check:"most,100,text,256"`
}

// QRCodeAttributes belong to type QR_CODE.
type QRCodeAttributes struct {
	MobileAuthenticationType string `json:"mobile_authentication_type" check:"enum,|BROWSER|APP"`
	AndroidStoreLink         string `json:"android_store_link" check:"url"`
	AppStoreLink             string `json:"app_store_link" check:"url"`
	DeepLinkingEnabled       bool   `json:"deep_linking_enabled"`
	DeepLinkingRedirectURL   string `json:"deep_linking_redirect_url" check:"app"`
}

// SAMLAttributes belong to type SAML.
type SAMLAttributes struct {
	IDPMetadata                 string                       `json:"idp_metadata" check:"metadata"` // XML, or an https URL of it
	Comparison                  string                       `json:"comparison" check:"enum,|EXACT|MINIMUM|MAXIMUM|BETTER"`
	AuthenticationLevelMappings []AuthenticationLevelMapping `json:"authentication_level_mappings" check:"most,50"`
}

// AuthenticationLevelMapping is the level of an AuthnContextClassRef.
type AuthenticationLevelMapping struct {
	AuthnContextClassRefName string `json:"authn_context_class_ref_name" rest:"required" check:"text,512"`
	AuthenticationLevel      int    `json:"authentication_level" rest:"required" check:"int,1,4"`
}

// AzureADB2CAttributes belong to type AZURE_AD_B2C.
type AzureADB2CAttributes struct {
	TenantID                  string         `json:"tenant_id" check:"text,256"`
	ApplicationID             string         `json:"application_id" check:"text,256"`
	ClientSecret              jsonapi.Secret `json:"client_secret" check:"secret,1024"` // an addition to the document (docs/decisions/configuration.md#login-methods)
	Policy                    string         `json:"policy" check:"text,256"`
	FrontChannelLogoutEnabled bool           `json:"front_channel_logout_enabled"`
}

// IDINAttributes belong to type IDIN.
type IDINAttributes struct {
	DirectoryURL                string `json:"directory_url" check:"url"`
	TransactionURL              string `json:"transaction_url" check:"url"`
	StatusURL                   string `json:"status_url" check:"url"`
	AcquirerPublicCertificateID string `json:"acquirer_public_certificate_id" check:"keypair"`
	MerchantID                  string `json:"merchant_id" check:"text,128"`
	SubID                       string `json:"sub_id" check:"text,128"`
	MerchantReturnHostName      string `json:"merchant_return_host_name" check:"text,256"`
	MerchantCertificatePairID   string `json:"merchant_certificate_pair_id" check:"keypair"`
	SAMLCertificatePairID       string `json:"saml_certificate_pair_id" check:"keypair"`
}

// DigiDAttributes belong to type DIGID.
type DigiDAttributes struct {
	IDPMetadata                 string `json:"idp_metadata" check:"metadata"`
	RequiredAuthenticationLevel string `json:"required_authentication_level" check:"enum,|BASIC|MIDDLE|SUBSTANTIAL|HIGH"`
}

// ItsmeAttributes belong to type ITSME.
type ItsmeAttributes struct {
	ClientID                    string   `json:"client_id" check:"text,256"`
	LoginServiceCode            string   `json:"login_service_code" check:"text,256"`
	DiscoveryURL                string   `json:"discovery_url" check:"url"`
	SecurityLevel               string   `json:"security_level" check:"enum,|BASIC|ADVANCED"`
	FrontChannelLogoutEnabled   bool     `json:"front_channel_logout_enabled"`
	MetadataExpirationInSeconds int      `json:"metadata_expiration_time_in_seconds" check:"int,0,31622400"`
	Scopes                      []string `json:"scopes" check:"most,100,scope"`
	Claims                      []string `json:"claims" check:"most,100,text,256"`
}

// AppleAttributes belong to type APPLE.
type AppleAttributes struct {
	ClientID                      string   `json:"client_id" check:"text,256"`
	TeamID                        string   `json:"team_id" check:"text,128"`
	KeyID                         string   `json:"key_id" check:"text,128"`
	JWKSURI                       string   `json:"jwks_uri" check:"url"`
	DomainVerificationFileContent string   `json:"domain_verification_file_content" check:"lines,8192"`
	SigningKeyID                  string   `json:"signing_key_id" check:"keypair"`
	Scopes                        []string `json:"scopes" check:"most,100,scope"`
}

// SocialAttributes belong to the types of social networks.
type SocialAttributes struct {
	ClientID     string         `json:"clientId" check:"text,256"` // spelled so on the wire
	ClientSecret jsonapi.Secret `json:"client_secret" check:"secret,1024"`
}
