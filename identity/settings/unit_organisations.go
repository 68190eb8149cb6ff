package settings

// Organisation owns service providers. (identity service document, "Organisation")
type Organisation struct {
	ID                              string                     `json:"id" check:"id"`
	Name                            string                     `json:"name" check:"text,256"`
	LandingPageURL                  string                     `json:"landing_page_url" check:"url"`
	SiteURL                         string                     `json:"site_url" check:"url"`
	SupportURL                      string                     `json:"support_url" check:"url"`
	SupportEmail                    string                     `json:"support_email" check:"email"`
	AccountLinkURL                  string                     `json:"account_link_url" check:"url"`
	UsernameForBasicAuth            string                     `json:"username_for_basic_auth" check:"text,128"`
	PreferredLanguage               string                     `json:"preferred_language" check:"locale"`
	MigrationMessageHTML            string                     `json:"message_to_assist_user_during_migration_period_html" check:"lines,16384"`
	LogoSquareBase64                string                     `json:"logo_square_base64" check:"image,65536"`
	LogoLandscapeBase64             string                     `json:"logo_landscape_base64" check:"image,65536"`
	NotifyWhenUserDoesUnlinkAccount bool                       `json:"notify_when_user_does_unlink_account"`
	IsPrivate                       bool                       `json:"is_private"`
	ServiceProviders                map[string]ServiceProvider `json:"service_providers" check:"most,100,id"`
	UserProfileAttributes           UserProfileAttributes      `json:"user_profile_attributes"`
}

// UserProfileAttributes says what the service providers of an organisation learn about a person.
type UserProfileAttributes struct {
	SAMLSubjectName         SAMLSubjectName              `json:"saml_subject_name_attributes"`
	IdentityAttributes      map[string]IdentityAttribute `json:"identity_attributes" check:"most,200,key"`
	CustomAttributeMappings CustomAttributesMapping      `json:"custom_attribute_mappings"`
}

// SAMLSubjectName says how a person is named.
type SAMLSubjectName struct {
	Type               string `json:"type" check:"text,128"`
	Format             string `json:"format" check:"text,256"`
	Default            string `json:"default" check:"text,256"`
	CustomAttributeKey string `json:"custom_attribute_key" check:"text,256"`
}

// ServiceProvider is an application that asks for sign-ins. (identity service document, "ServiceProvider")
type ServiceProvider struct {
	Type                            string                       `json:"type" check:"text,64"`
	ID                              string                       `json:"id" check:"id"`
	Name                            string                       `json:"name" check:"text,256"`
	SAMLMetadata                    string                       `json:"saml_metadata" check:"metadata"`
	UseTrustedDevice                string                       `json:"use_trusted_device" check:"text,64"`
	IncludeUnmappedCustomAttributes string                       `json:"include_unmapped_custom_attributes_within_saml_response" check:"text,64"`
	RequiredAuthenticationLevel     int                          `json:"required_authentication_level" check:"int,0,4"`
	SecondFactor                    string                       `json:"second_factor" check:"enum,|WHEN_SET_UP|ALWAYS|ON_DEMAND"` // not in the document
	RequiredIdentityAssuranceLevel  int                          `json:"required_identity_assurance_level" check:"int,0,4"`
	CustomAttributeMappings         CustomAttributesMapping      `json:"custom_attribute_mappings"`
	IdentityAttributes              map[string]IdentityAttribute `json:"identity_attributes" check:"most,200,key"`
}

// IdentityAttribute is an attribute that a service provider receives. (identity service document, "IdentityAttribute")
type IdentityAttribute struct {
	AttributeName      string            `json:"attribute_name" check:"text,256"`
	ID                 string            `json:"id" check:"id"`
	Label              string            `json:"label" check:"text,256"`
	Optional           bool              `json:"optional"`
	Required           bool              `json:"required"`
	ShowExtendedFields bool              `json:"show_extended_fields"`
	Verification       bool              `json:"verification"`
	Unverified         bool              `json:"unverified"` // not in the document
	SAMLAttributeNames map[string]string `json:"saml_attribute_names" check:"most,20,key,text,256"`
}
