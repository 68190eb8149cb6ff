package provider

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/rest"
)

// TestProblemsOfLoginMethods: what is wrong with a login method is said at the member that is wrong, and not in the
// words that the Caddyfile has for it.
func TestProblemsOfLoginMethods(t *testing.T) {
	t.Parallel()
	ldap := func(change func(*config.LDAPAttributes)) *config.LoginMethod {
		a := &config.LDAPAttributes{ServerURLs: "ldaps://ldap.example.com", UserDistinguishedName: "cn=reader,dc=example,dc=com", Password: "p", BaseSuffix: "dc=example,dc=com"}
		change(a)
		return &config.LoginMethod{Type: config.TypeLDAP, LDAP: a}
	}
	oidc := func(change func(*config.OIDCAttributes)) *config.LoginMethod {
		a := &config.OIDCAttributes{Issuer: "https://corp.example.com", ClientID: "gatehouse", ClientSecret: "s"}
		change(a)
		return &config.LoginMethod{Type: config.TypeOIDC, OIDC: a}
	}
	saml := func(change func(*config.SAMLAttributes)) *config.LoginMethod {
		a := &config.SAMLAttributes{IDPMetadata: "https://partner.example.com/metadata"}
		change(a)
		return &config.LoginMethod{Type: config.TypeSAML, SAML: a}
	}
	level := func(class string, n int) config.AuthenticationLevelMapping {
		return config.AuthenticationLevelMapping{AuthnContextClassRefName: class, AuthenticationLevel: n}
	}
	mapped := func(from, to string) []config.AttributeMapping {
		return []config.AttributeMapping{{MapFrom: "mail", MapTo: "email"}, {MapFrom: from, MapTo: to}}
	}
	apple := config.AppleAttributes{ClientID: "com.example", TeamID: "ABCDE12345", KeyID: "ABCDE12345", SigningKeyID: "k"}
	itsme := config.ItsmeAttributes{ClientID: "gatehouse", LoginServiceCode: "LOGIN"}
	b2c := config.AzureADB2CAttributes{TenantID: "contoso", ApplicationID: "gatehouse", Policy: "B2C_1_in", ClientSecret: "s"}
	social := func(kind string, a config.SocialAttributes) *config.LoginMethod {
		m := &config.LoginMethod{Type: kind}
		switch kind {
		case config.TypeFacebook:
			m.Facebook = &a
		case config.TypeGoogle:
			m.Google = &a
		case config.TypeLinkedIn:
			m.LinkedIn = &a
		case config.TypeMicrosoft:
			m.Microsoft = &a
		case config.TypeTwitter:
			m.Twitter = &a
		}
		return m
	}
	with := func(m *config.LoginMethod, change func(*config.LoginMethod)) *config.LoginMethod {
		change(m)
		return m
	}
	tests := map[string]struct {
		method *config.LoginMethod
		path   string
	}{
		"ldap server":         {ldap(func(a *config.LDAPAttributes) { a.ServerURLs = "https://ldap.example.com" }), "ladp_attributes.server_urls"},
		"ldap servers":        {ldap(func(a *config.LDAPAttributes) { a.ServerURLs = " " }), "ladp_attributes.server_urls"},
		"ldap server twice":   {ldap(func(a *config.LDAPAttributes) { a.ServerURLs = "ldaps://a.example.com,ldaps://a.example.com" }), "ladp_attributes.server_urls"},
		"ldap nobody":         {ldap(func(a *config.LDAPAttributes) { a.UserDistinguishedName = "" }), "ladp_attributes.user_distinguished_name"},
		"ldap both":           {ldap(func(a *config.LDAPAttributes) { a.AuthenticationDNTemplate = "uid=%s,dc=example,dc=com" }), "ladp_attributes.authentication_dn_template"},
		"ldap password":       {ldap(func(a *config.LDAPAttributes) { a.Password = "" }), "ladp_attributes.password"},
		"ldap no base":        {ldap(func(a *config.LDAPAttributes) { a.BaseSuffix = "" }), "ladp_attributes.base_suffix"},
		"ldap base":           {ldap(func(a *config.LDAPAttributes) { a.BaseSuffix = "example.com" }), "ladp_attributes.base_suffix"},
		"ldap match":          {ldap(func(a *config.LDAPAttributes) { a.MatchPattern = "(uid=%s" }), "ladp_attributes.match_pattern"},
		"ldap match of all":   {ldap(func(a *config.LDAPAttributes) { a.MatchPattern = "(uid=ann)" }), "ladp_attributes.match_pattern"},
		"ldap template":       {ldap(func(a *config.LDAPAttributes) { a.UserDistinguishedName, a.AuthenticationDNTemplate = "", "uid=x" }), "ladp_attributes.authentication_dn_template"},
		"ldap template no DN": {ldap(func(a *config.LDAPAttributes) { a.UserDistinguishedName, a.AuthenticationDNTemplate = "", "%s at home" }), "ladp_attributes.authentication_dn_template"},
		"ldap attribute":      {ldap(func(a *config.LDAPAttributes) { a.AttributesToBeFetched = []string{"cn", "given name"} }), "ladp_attributes.attributes_to_be_fetched[1]"},
		"ldap mapping":        {with(ldap(func(*config.LDAPAttributes) {}), func(m *config.LoginMethod) { m.AttributeMappings = mapped("given name", "name") }), "attribute_mappings[1].map_from"},

		"oidc issuer":    {oidc(func(a *config.OIDCAttributes) { a.Issuer = "https://corp.example.com?x" }), "open_id_connect_attributes.issuer"},
		"oidc no issuer": {oidc(func(a *config.OIDCAttributes) { a.Issuer, a.DiscoveryURL = "", "https://corp.example.com/metadata" }), "open_id_connect_attributes.issuer"},
		"oidc discovery": {oidc(func(a *config.OIDCAttributes) { a.DiscoveryURL = "http://corp.example.com/metadata" }), "open_id_connect_attributes.discovery_url"},
		"oidc no token URL": {oidc(func(a *config.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.JWKSURL = true, "https://corp.example.com/a", "https://corp.example.com/k"
		}), "open_id_connect_attributes.id_token_url"},
		"oidc keys": {oidc(func(a *config.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.IDTokenURL, a.JWKSURL = true, "https://corp.example.com/a", "https://corp.example.com/t", "http://corp.example.com/k"
		}), "open_id_connect_attributes.jwks_url"},
		"oidc userinfo": {oidc(func(a *config.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.IDTokenURL, a.JWKSURL, a.UserInfoURL = true, "https://corp.example.com/a", "https://corp.example.com/t", "https://corp.example.com/k", "http://corp.example.com/u"
		}), "open_id_connect_attributes.user_info_url"},
		"oidc client": {oidc(func(a *config.OIDCAttributes) { a.ClientID = "\u0001" }), "open_id_connect_attributes.client_id"},
		"oidc no secret": {oidc(func(a *config.OIDCAttributes) {
			a.ClientSecret, a.ClientAuthenticationMethod = "", "CLIENT_SECRET_BASIC"
		}), "open_id_connect_attributes.client_secret"},
		"oidc scope":         {oidc(func(a *config.OIDCAttributes) { a.Scopes = []string{"a b"} }), "open_id_connect_attributes.scopes"},
		"oidc expiration":    {oidc(func(a *config.OIDCAttributes) { a.MetadataExpirationInSeconds = 1 << 30 }), "open_id_connect_attributes.metadata_expiration_time_in_seconds"},
		"oidc mapping":       {with(oidc(func(*config.OIDCAttributes) {}), func(m *config.LoginMethod) { m.AttributeMappings = mapped("x", "") }), "attribute_mappings[1].map_to"},
		"oidc mapping twice": {with(oidc(func(*config.OIDCAttributes) {}), func(m *config.LoginMethod) { m.AttributeMappings = mapped("mail", "email") }), "attribute_mappings[1]"},
		"oidc custom mapping": {with(oidc(func(*config.OIDCAttributes) {}), func(m *config.LoginMethod) {
			m.CustomAttributeMappings = []config.CustomAttributesMapping{{AttributeToMapFrom: "x\u0001", AttributeToMapTo: "y"}}
		}), "custom_attribute_mappings[0].attribute_to_map_from"},

		"saml address":      {saml(func(a *config.SAMLAttributes) { a.IDPMetadata = "http://partner.example.com/metadata" }), "saml_attributes.idp_metadata"},
		"saml file":         {saml(func(a *config.SAMLAttributes) { a.IDPMetadata = "/etc/passwd" }), "saml_attributes.idp_metadata"},
		"saml other scheme": {saml(func(a *config.SAMLAttributes) { a.IDPMetadata = "ftp://partner.example.com" }), "saml_attributes.idp_metadata"},
		"saml metadata":     {saml(func(a *config.SAMLAttributes) { a.IDPMetadata = "<html></html>" }), "saml_attributes.idp_metadata"},
		"saml class": {saml(func(a *config.SAMLAttributes) {
			a.AuthenticationLevelMappings = []config.AuthenticationLevelMapping{level("urn:x", 1), level("strong", 2)}
		}), "saml_attributes.authentication_level_mappings[1].authn_context_class_ref_name"},
		"saml class twice": {saml(func(a *config.SAMLAttributes) {
			a.Comparison, a.AuthenticationLevelMappings = "EXACT", []config.AuthenticationLevelMapping{level("urn:x", 1), level("urn:x", 2)}
		}), "saml_attributes.authentication_level_mappings[1].authn_context_class_ref_name"},
		"saml level": {saml(func(a *config.SAMLAttributes) {
			a.AuthenticationLevelMappings = []config.AuthenticationLevelMapping{level("urn:x", 7)}
		}), "saml_attributes.authentication_level_mappings[0].authentication_level"},
		"digid level":     {&config.LoginMethod{Type: config.TypeDigiD, SAMLMutualTLS: config.SAMLMutualTLS{ClientKeyPairID: "k"}, DigiD: &config.DigiDAttributes{IDPMetadata: "https://digid.example.com", RequiredAuthenticationLevel: "LOW"}}, "digid_attributes.required_authentication_level"},
		"digid key":       {&config.LoginMethod{Type: config.TypeDigiD, DigiD: &config.DigiDAttributes{IDPMetadata: "https://digid.example.com", RequiredAuthenticationLevel: "BASIC"}}, "saml_mutual_ssl_tls_attributes.client_key_pair_id"},
		"digid metadata":  {&config.LoginMethod{Type: config.TypeDigiD, SAMLMutualTLS: config.SAMLMutualTLS{ClientKeyPairID: "k"}, DigiD: &config.DigiDAttributes{IDPMetadata: "<x/>", RequiredAuthenticationLevel: "BASIC"}}, "digid_attributes.idp_metadata"},
		"eidas service":   {&config.LoginMethod{Type: config.TypeEIDAS, EIDAS: &config.EIDASAttributes{IDPMetadata: "https://broker.example.com", RequiredLevelOfAssurance: "LOW", AuthenticationService: "CUSTOM", AuthenticationServiceCustomValue: "not a URI"}}, "eidas_attributes.authentication_service_custom_value"},
		"eidas entity":    {&config.LoginMethod{Type: config.TypeEIDAS, EIDAS: &config.EIDASAttributes{IDPMetadata: "https://broker.example.com", RequiredLevelOfAssurance: "LOW", EntityID: "not a URI"}}, "eidas_attributes.entity_id"},
		"apple team":      {&config.LoginMethod{Type: config.TypeApple, Apple: func() *config.AppleAttributes { a := apple; a.TeamID = "x"; return &a }()}, "apple_attributes.team_id"},
		"apple key id":    {&config.LoginMethod{Type: config.TypeApple, Apple: func() *config.AppleAttributes { a := apple; a.KeyID = "x"; return &a }()}, "apple_attributes.key_id"},
		"apple key":       {&config.LoginMethod{Type: config.TypeApple, Apple: func() *config.AppleAttributes { a := apple; a.SigningKeyID = ""; return &a }()}, "apple_attributes.signing_key_id"},
		"apple keys":      {&config.LoginMethod{Type: config.TypeApple, Apple: func() *config.AppleAttributes { a := apple; a.JWKSURI = "http://apple.example.com"; return &a }()}, "apple_attributes.jwks_uri"},
		"apple client":    {&config.LoginMethod{Type: config.TypeApple, Apple: func() *config.AppleAttributes { a := apple; a.ClientID = ""; return &a }()}, "apple_attributes.client_id"},
		"itsme code":      {&config.LoginMethod{Type: config.TypeItsme, Itsme: func() *config.ItsmeAttributes { a := itsme; a.LoginServiceCode = "a b"; return &a }()}, "itsme_attributes.login_service_code"},
		"itsme security":  {&config.LoginMethod{Type: config.TypeItsme, Itsme: func() *config.ItsmeAttributes { a := itsme; a.SecurityLevel = "HIGH"; return &a }()}, "itsme_attributes.security_level"},
		"itsme client":    {&config.LoginMethod{Type: config.TypeItsme, Itsme: func() *config.ItsmeAttributes { a := itsme; a.ClientID = ""; return &a }()}, "itsme_attributes.client_id"},
		"itsme discovery": {&config.LoginMethod{Type: config.TypeItsme, Itsme: func() *config.ItsmeAttributes { a := itsme; a.DiscoveryURL = "http://itsme.example.com"; return &a }()}, "itsme_attributes.discovery_url"},
		"b2c tenant":      {&config.LoginMethod{Type: config.TypeAzureADB2C, AzureADB2C: func() *config.AzureADB2CAttributes { a := b2c; a.TenantID = "a/b"; return &a }()}, "azure_ad_b2c_attributes.tenant_id"},
		"b2c policy":      {&config.LoginMethod{Type: config.TypeAzureADB2C, AzureADB2C: func() *config.AzureADB2CAttributes { a := b2c; a.Policy = "a/b"; return &a }()}, "azure_ad_b2c_attributes.policy"},
		"b2c application": {&config.LoginMethod{Type: config.TypeAzureADB2C, AzureADB2C: func() *config.AzureADB2CAttributes { a := b2c; a.ApplicationID = ""; return &a }()}, "azure_ad_b2c_attributes.application_id"},
		"kerberos custom": {&config.LoginMethod{Type: config.TypeKerberos, Kerberos: &config.KerberosAttributes{KeytabID: "k"}, AttributeMappings: mapped("", "x")}, "attribute_mappings[1].map_from"},
	}
	for _, kind := range []string{config.TypeFacebook, config.TypeGoogle, config.TypeLinkedIn, config.TypeMicrosoft, config.TypeTwitter} {
		object := strings.ToLower(kind) + "_attributes."
		tests[kind+" client"] = struct {
			method *config.LoginMethod
			path   string
		}{social(kind, config.SocialAttributes{ClientSecret: "s"}), object + "clientId"}
	}
	for _, kind := range []string{config.TypeFacebook, config.TypeLinkedIn, config.TypeTwitter} {
		tests[kind+" secret"] = struct {
			method *config.LoginMethod
			path   string
		}{social(kind, config.SocialAttributes{ClientID: "x"}), strings.ToLower(kind) + "_attributes.client_secret"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := config.MethodError(nil)
			if err := Verify(*tt.method); !errors.As(err, &wrong) {
				t.Fatalf("Verify = %v, want a problem at %s", err, tt.path)
			}
			for _, p := range wrong {
				if word := foreignWord.FindString(p.Problem); word != "" || p.Problem == "" || p.Path == "" {
					t.Errorf("the problem at %q is %q, want it at a member and without %q", p.Path, p.Problem, word)
				}
			}
			if !slices.ContainsFunc(wrong, func(p rest.Problem) bool { return p.Path == tt.path }) {
				t.Errorf("Verify = %v, want a problem at %s", wrong, tt.path)
			}
		})
	}
}

// foreignWord finds words that the Caddyfile alone has.
var foreignWord = regexp.MustCompile(`\b(auth_method|bind|base:|template:|match:|url:|map|map_level|authn_context|client_key|assurance|service_code|tenant|token_url|scheme|entity,|client_secret_basic|path of a file)\b`)

// TestKeytabOfThisMachine: a method of type KERBEROS without a keytab says so at its member.
func TestKeytabOfThisMachine(t *testing.T) {
	t.Setenv("KRB5_KTNAME", "FILE:"+t.TempDir()+"/none")
	wrong := config.MethodError(nil)
	if err := Verify(config.LoginMethod{Type: config.TypeKerberos}); !errors.As(err, &wrong) || wrong[0].Path != "kerberos_attributes.keytab_id" {
		t.Errorf("Verify = %v, want a problem at kerberos_attributes.keytab_id", err)
	}
}
