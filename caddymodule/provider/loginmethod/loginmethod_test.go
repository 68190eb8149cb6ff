package loginmethod_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

// TestLoginMethodMembers: each member of a login method of the configuration API reaches the provider that is made of
// it.
func TestLoginMethodMembers(t *testing.T) {
	t.Parallel()
	s, _ := loginmethod.SAML(&settings.LoginMethod{
		ID: "partner", Type: settings.TypeSAML, AuthenticationLevel: 2,
		AttributeMappings: []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email"}},
		SAML: &settings.SAMLAttributes{
			IDPMetadata: "https://partner.example.com/metadata", Comparison: "MINIMUM",
			AuthenticationLevelMappings: []settings.AuthenticationLevelMapping{{AuthnContextClassRefName: "urn:x:strong", AuthenticationLevel: 3}},
		},
	})
	if s.Metadata != "https://partner.example.com/metadata" || s.Level != 2 || s.Levels["urn:x:strong"] != 3 || s.AuthnContext == nil ||
		s.AuthnContext.Comparison != "minimum" || !slices.Equal(s.AuthnContext.Classes, []string{"urn:x:strong"}) {
		t.Errorf("SAML() = %+v", s)
	}
	if a := s.Mapping.Attributes; len(a) != 1 || a[0].From != "mail" || a[0].To != "email" {
		t.Errorf("mapping %+v", a)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for _, comparison := range []string{"EXACT", "MINIMUM", "MAXIMUM", "BETTER", ""} {
		one, _ := loginmethod.SAML(&settings.LoginMethod{Type: settings.TypeSAML, SAML: &settings.SAMLAttributes{
			Comparison: comparison, AuthenticationLevelMappings: []settings.AuthenticationLevelMapping{{
				AuthnContextClassRefName: "urn:x",
				AuthenticationLevel:      1,
			}},
		}})
		if err := (saml.Config{Metadata: s.Metadata, AuthnContext: one.AuthnContext}).Validate(); err != nil {
			t.Errorf("comparison %q: %v", comparison, err)
		}
	}

	o := settings.OIDCAttributes{
		ClientAuthenticationMethod: "CLIENT_SECRET_BASIC", ClientID: "gatehouse", ClientSecret: "secret",
		DiscoveryURL: "https://corp.example.com/.well-known/openid-configuration",
		Issuer:       "https://corp.example.com", Scopes: []string{"email"}, Claims: []string{"department"}, IDTokenEncryptionRequired: true,
		UserInfoEncryptionRequired: true, FrontChannelLogoutEnabled: true, MetadataExpirationInSeconds: 600,
	}
	got, _ := loginmethod.OpenID(&settings.LoginMethod{ID: "corp", Type: settings.TypeOIDC, AuthenticationLevel: 3, OIDC: &o})
	if got.ClientID != "gatehouse" || got.ClientSecret.Reveal() != "secret" || got.AuthMethod != oidc.AuthBasic ||
		got.DiscoveryURL != o.DiscoveryURL || got.Issuer != o.Issuer ||
		!slices.Equal(got.Scopes, o.Scopes) || got.Level != 3 || !got.IDTokenEncryptionRequired || !got.UserInfoEncryptionRequired ||
		!got.FrontChannelLogout ||
		got.MetadataExpiration != 10*time.Minute {
		t.Errorf("OpenID() = %+v", got)
	}
	var claims map[string]map[string]any
	if err := json.Unmarshal(got.Claims, &claims); err != nil {
		t.Fatal(err)
	}
	if _, ok := claims["userinfo"]["department"]; !ok {
		t.Errorf("claims %s", got.Claims)
	}

	o.ClientAuthenticationMethod, o.SigningKeyID, o.ManualMetadataSetup = "PRIVATE_KEY_JWT", "corp-key", true
	o.AuthorizationURL, o.IDTokenURL, o.UserInfoURL = "https://corp.example.com/a", "https://corp.example.com/t", "https://corp.example.com/u"
	o.JWKSURL, o.EndSessionURL = "https://corp.example.com/k", "https://corp.example.com/e"
	got, _ = loginmethod.OpenID(&settings.LoginMethod{ID: "corp", Type: settings.TypeOIDC, OIDC: &o})
	want := oidc.Metadata{
		AuthorizationURL: o.AuthorizationURL, TokenURL: o.IDTokenURL, UserInfoURL: o.UserInfoURL, JWKSURL: o.JWKSURL,
		EndSessionURL: o.EndSessionURL,
	}
	if got.AuthMethod != oidc.AuthPrivateKey || got.Key != "corp-key" || !got.ClientSecret.IsZero() ||
		got.DiscoveryURL != "" || got.Metadata != want {
		t.Errorf("OpenID() = %+v", got)
	}
}

// TestLoginMethodMembersOfSchemes: likewise for DigiD and eIDAS.
func TestLoginMethodMembersOfSchemes(t *testing.T) {
	t.Parallel()
	const at = "https://service.example.com/metadata"
	mtls := settings.SAMLMutualTLS{ClientKeyPairID: "client", ServerCertificateID: "server"}
	for _, level := range []string{"BASIC", "MIDDLE", "SUBSTANTIAL", "HIGH"} {
		m := settings.LoginMethod{
			ID: "d", Type: settings.TypeDigiD, SAMLMutualTLS: mtls,
			DigiD: &settings.DigiDAttributes{IDPMetadata: at, RequiredAuthenticationLevel: level},
		}
		got, ok := loginmethod.SAML(&m)
		if !ok || got.Metadata != at || got.Scheme != saml.DigiD || got.Assurance != strings.ToLower(level) || got.ClientKey != "client" ||
			got.ServerCertificate != "server" || !got.NoFiles || loginmethod.Verify(m) != nil || loginmethod.Path(&m) != "saml" {
			t.Errorf("SAML() = %+v, %v", got, loginmethod.Verify(m))
		}
		if m.SAMLMutualTLS.ClientKeyPairID = ""; loginmethod.Verify(m) == nil {
			t.Error("DigiD without a certificate is taken")
		}
	}
	a := settings.EIDASAttributes{
		RequiredLevelOfAssurance: "SUBSTANTIAL", EntityID: "urn:etoegang:DV:00000001123456789000:entities:0001", SigningKeyID: "sign",
		EncryptionKeyID: "seal", IDPMetadata: at,
		AuthenticationServiceCustomValue: "urn:etoegang:AD:1:entities:1",
	}
	m := settings.LoginMethod{
		ID: "e", Type: settings.TypeEIDAS, EIDAS: &a, SAMLMutualTLS: mtls,
		AttributeMappings: []settings.AttributeMapping{{MapFrom: "urn:x:name", MapTo: "name"}},
	}
	for service, via := range map[string]string{
		"": "", "NONE": "", "ACCEPTANCE": loginmethod.EIDASAcceptance, "PRODUCTION": loginmethod.EIDASProduction,
		"CUSTOM": a.AuthenticationServiceCustomValue,
	} {
		a.AuthenticationService = service
		got, ok := loginmethod.SAML(&m)
		if !ok || got.Via != via || got.Scheme != saml.EToegang || got.EntityID != a.EntityID || !slices.Equal(got.Sign, []string{"sign"}) ||
			!slices.Equal(got.Decrypt, []string{"seal"}) ||
			got.ClientKey != "client" || got.Metadata != at || len(got.Mapping.Attributes) != 1 || loginmethod.Verify(m) != nil {
			t.Errorf("SAML() with %q = %+v, %v", service, got, loginmethod.Verify(m))
		}
	}
	for _, level := range []string{"NON_EXISTENT", "LOW", "LOW_PLUS", "SUBSTANTIAL", "HIGH"} {
		if a.RequiredLevelOfAssurance = level; loginmethod.Verify(m) != nil {
			t.Error(loginmethod.Verify(m))
		}
	}
	if a.RequiredLevelOfAssurance = ""; loginmethod.Verify(m) == nil {
		t.Error("eIDAS without a level is taken")
	}
	plain := settings.LoginMethod{ID: "p", Type: settings.TypeSAML, SAMLMutualTLS: mtls, SAML: &settings.SAMLAttributes{IDPMetadata: at}}
	if got, _ := loginmethod.SAML(&plain); got.ClientKey != "client" || got.ServerCertificate != "server" || loginmethod.Verify(plain) != nil {
		t.Errorf("SAML() = %+v, %v", got, loginmethod.Verify(plain))
	}
}

// TestLoginMethodMembersOfPresets: likewise for providers that are known.
func TestLoginMethodMembersOfPresets(t *testing.T) {
	t.Parallel()
	of := &settings.SocialAttributes{ClientID: "gatehouse", ClientSecret: "secret"}
	for preset, m := range map[string]settings.LoginMethod{
		oidc.Google:    {Type: settings.TypeGoogle, Google: of},
		oidc.Microsoft: {Type: settings.TypeMicrosoft, Microsoft: of},
	} {
		m.ID, m.AuthenticationLevel, m.AttributeMappings = "x", 2, []settings.AttributeMapping{{MapFrom: "email", MapTo: "email"}}
		got, ok := loginmethod.OpenID(&m)
		if !ok || got.Preset != preset || got.ClientID != "gatehouse" || got.ClientSecret.Reveal() != "secret" || got.Level != 2 ||
			len(got.Mapping.Attributes) != 1 || loginmethod.Verify(m) != nil {
			t.Errorf("OpenID() of %s = %+v, %v", preset, got, loginmethod.Verify(m))
		}
	}
}

// TestLoginMethodMembersOfPolicies: likewise for a directory of Azure AD B2C.
func TestLoginMethodMembersOfPolicies(t *testing.T) {
	t.Parallel()
	m := settings.LoginMethod{ID: "x", Type: settings.TypeAzureADB2C, AuthenticationLevel: 2, AzureADB2C: &settings.AzureADB2CAttributes{
		TenantID: "contoso", ApplicationID: "gatehouse", ClientSecret: "secret", Policy: "B2C_1_sign_in", FrontChannelLogoutEnabled: true,
	}}
	got, ok := loginmethod.OpenID(&m)
	if !ok || got.Preset != oidc.AzureADB2C || got.Tenant != "contoso" || got.Policy != "B2C_1_sign_in" || got.ClientID != "gatehouse" ||
		got.ClientSecret.Reveal() != "secret" || !got.FrontChannelLogout ||
		got.Level != 2 || loginmethod.Verify(m) != nil {
		t.Errorf("OpenID() = %+v, %v", got, loginmethod.Verify(m))
	}
	if m.AzureADB2C.ClientSecret = ""; loginmethod.Verify(m) != nil { // a public client
		t.Error(loginmethod.Verify(m))
	}
	if m.AzureADB2C.TenantID = "../x"; loginmethod.Verify(m) == nil {
		t.Error("a directory that is a path is taken")
	}
}

// TestLoginMethodMembersOfApple: likewise for Apple.
func TestLoginMethodMembersOfApple(t *testing.T) {
	t.Parallel()
	a := settings.AppleAttributes{
		ClientID: "com.example.auth", TeamID: "ABCDE12345", KeyID: "FGHIJ67890", SigningKeyID: "apple",
		JWKSURI: "https://appleid.apple.com/auth/keys", Scopes: []string{"email"},
	}
	m := settings.LoginMethod{
		ID: "x", Type: settings.TypeApple, AuthenticationLevel: 2,
		AttributeMappings: []settings.AttributeMapping{{MapFrom: "email", MapTo: "email"}}, Apple: &a,
	}
	got, ok := loginmethod.OpenID(&m)
	if !ok || got.Preset != oidc.Apple || got.ClientID != a.ClientID || got.TeamID != a.TeamID || got.KeyID != a.KeyID ||
		got.Key != a.SigningKeyID || got.JWKSURL != a.JWKSURI ||
		!slices.Equal(got.Scopes, a.Scopes) || got.Level != 2 || len(got.Mapping.Attributes) != 1 || loginmethod.Verify(m) != nil {
		t.Errorf("OpenID() = %+v, %v", got, loginmethod.Verify(m))
	}
	if a.Scopes = []string{}; loginmethod.Verify(m) != nil {
		t.Error(loginmethod.Verify(m))
	}
	if got, _ := loginmethod.OpenID(&m); got.Scopes != nil {
		t.Errorf("scopes %q, want the default", got.Scopes)
	}
	if a.TeamID = "the team"; loginmethod.Verify(m) == nil {
		t.Error("a team that Apple cannot have is taken")
	}
}

// TestLoginMethodMembersOfItsme: likewise for itsme.
func TestLoginMethodMembersOfItsme(t *testing.T) {
	t.Parallel()
	a := settings.ItsmeAttributes{
		ClientID: "gatehouse", LoginServiceCode: "MY_LOGIN", DiscoveryURL: "https://idp.e2e.itsme.services/v2/.well-known/openid-configuration",
		SecurityLevel:             "ADVANCED",
		FrontChannelLogoutEnabled: true, MetadataExpirationInSeconds: 600, Scopes: []string{"eid"},
		Claims: []string{"http://itsme.services/v2/claim/BEeidSn"},
	}
	m := settings.LoginMethod{ID: "x", Type: settings.TypeItsme, AuthenticationLevel: 3, Itsme: &a}
	got, ok := loginmethod.OpenID(&m)
	if !ok || got.Preset != oidc.Itsme || got.ClientID != a.ClientID || got.ServiceCode != a.LoginServiceCode ||
		got.DiscoveryURL != a.DiscoveryURL || got.SecurityLevel != oidc.ItsmeAdvanced ||
		!got.FrontChannelLogout || got.MetadataExpiration != 10*time.Minute || !slices.Equal(got.Scopes, a.Scopes) ||
		got.Level != 3 || loginmethod.Verify(m) != nil {
		t.Errorf("OpenID() = %+v, %v", got, loginmethod.Verify(m))
	}
	var claims map[string]map[string]any
	if err := json.Unmarshal(got.Claims, &claims); err != nil {
		t.Fatal(err)
	}
	if _, ok := claims["userinfo"][a.Claims[0]]; !ok {
		t.Errorf("claims %s", got.Claims)
	}
	a.DiscoveryURL, a.SecurityLevel, a.Scopes, m.AuthenticationLevel = "", "", nil, 0
	if err := loginmethod.Verify(m); err != nil {
		t.Error(err)
	}
	if a.LoginServiceCode = "MY LOGIN"; loginmethod.Verify(m) == nil {
		t.Error("a service that is two scopes is taken")
	}
}

// TestLoginMethodMembersOfDirectories: likewise for a directory.
func TestLoginMethodMembersOfDirectories(t *testing.T) {
	t.Parallel()
	l := settings.LDAPAttributes{
		ServerURLs: "ldaps://a.example.com,ldaps://b.example.com\n ldap://c.example.com", BaseSuffix: "dc=example,dc=com",
		UserDistinguishedName: "cn=reader,dc=example,dc=com",
		Password:              "secret", MatchPattern: "(mail=%s)", IPRanges: []string{"10.0.0.0/8", "::1"},
		AttributesToBeFetched: []string{"department"},
	}
	m := &settings.LoginMethod{
		ID: "staff", Type: settings.TypeLDAP, AuthenticationLevel: 2, LDAP: &l,
		AttributeMappings: []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email"}},
	}
	got := loginmethod.LDAP(m)
	if !slices.Equal(got.URLs, []string{"ldaps://a.example.com", "ldaps://b.example.com", "ldap://c.example.com"}) ||
		got.Base != l.BaseSuffix || got.BindDN != l.UserDistinguishedName ||
		got.BindPassword.Reveal() != "secret" || got.Match != l.MatchPattern || !slices.Equal(got.Attributes, l.AttributesToBeFetched) ||
		got.Level != 2 || len(got.Mapping.Attributes) != 1 {
		t.Errorf("LDAP() = %+v", got)
	}
	if err := loginmethod.Verify(*m); err != nil || len(got.Networks) != 0 {
		t.Errorf("%v, networks %v, want none while they are off", err, got.Networks)
	}
	l.IPRangeEnabled, l.UserDistinguishedName, l.AuthenticationDNTemplate = true, "", "uid=%s,dc=example,dc=com"
	if got := loginmethod.LDAP(m); len(got.Networks) != 2 || got.Template != l.AuthenticationDNTemplate || loginmethod.Verify(*m) != nil {
		t.Errorf("LDAP() = %+v", got)
	}
	l.MatchPattern = "(mail=*)"
	if err := loginmethod.Verify(*m); err == nil {
		t.Error("a filter that everybody matches is taken")
	}
}
