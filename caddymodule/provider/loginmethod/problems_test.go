package loginmethod_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// TestProblemsOfLoginMethods: what is wrong with a login method is said at the member that is wrong, and not in the
// words that the Caddyfile has for it.
func TestProblemsOfLoginMethods(t *testing.T) {
	t.Parallel()
	ldap := func(change func(*settings.LDAPAttributes)) *settings.LoginMethod {
		a := &settings.LDAPAttributes{
			ServerURLs: "ldaps://ldap.example.com", UserDistinguishedName: "cn=reader,dc=example,dc=com", Password: "p",
			BaseSuffix: "dc=example,dc=com",
		}
		change(a)
		return &settings.LoginMethod{Type: settings.TypeLDAP, LDAP: a}
	}
	oidc := func(change func(*settings.OIDCAttributes)) *settings.LoginMethod {
		a := &settings.OIDCAttributes{Issuer: "https://corp.example.com", ClientID: "gatehouse", ClientSecret: "s"}
		change(a)
		return &settings.LoginMethod{Type: settings.TypeOIDC, OIDC: a}
	}
	saml := func(change func(*settings.SAMLAttributes)) *settings.LoginMethod {
		a := &settings.SAMLAttributes{IDPMetadata: "https://partner.example.com/metadata"}
		change(a)
		return &settings.LoginMethod{Type: settings.TypeSAML, SAML: a}
	}
	level := func(class string, n int) settings.AuthenticationLevelMapping {
		return settings.AuthenticationLevelMapping{AuthnContextClassRefName: class, AuthenticationLevel: n}
	}
	mapped := func(from, to string) []settings.AttributeMapping {
		return []settings.AttributeMapping{{MapFrom: "mail", MapTo: "email"}, {MapFrom: from, MapTo: to}}
	}
	apple := settings.AppleAttributes{ClientID: "com.example", TeamID: "ABCDE12345", KeyID: "ABCDE12345", SigningKeyID: "k"}
	itsme := settings.ItsmeAttributes{ClientID: "gatehouse", LoginServiceCode: "LOGIN"}
	b2c := settings.AzureADB2CAttributes{TenantID: "contoso", ApplicationID: "gatehouse", Policy: "B2C_1_in", ClientSecret: "s"}
	social := func(kind string, a settings.SocialAttributes) *settings.LoginMethod {
		m := &settings.LoginMethod{Type: kind}
		switch kind {
		case settings.TypeFacebook:
			m.Facebook = &a
		case settings.TypeGoogle:
			m.Google = &a
		case settings.TypeLinkedIn:
			m.LinkedIn = &a
		case settings.TypeMicrosoft:
			m.Microsoft = &a
		case settings.TypeTwitter:
			m.Twitter = &a
		case settings.TypeGitHub:
			m.GitHub = &a
		case settings.TypeDiscord:
			m.Discord = &a
		}
		return m
	}
	with := func(m *settings.LoginMethod, change func(*settings.LoginMethod)) *settings.LoginMethod {
		change(m)
		return m
	}
	tests := map[string]struct {
		method *settings.LoginMethod
		path   string
	}{
		"ldap server": {
			ldap(func(a *settings.LDAPAttributes) { a.ServerURLs = "https://ldap.example.com" }),
			"ladp_attributes.server_urls",
		},
		"ldap servers": {ldap(func(a *settings.LDAPAttributes) { a.ServerURLs = " " }), "ladp_attributes.server_urls"},
		"ldap server twice": {
			ldap(func(a *settings.LDAPAttributes) { a.ServerURLs = "ldaps://a.example.com,ldaps://a.example.com" }),
			"ladp_attributes.server_urls",
		},
		"ldap nobody": {ldap(func(a *settings.LDAPAttributes) { a.UserDistinguishedName = "" }), "ladp_attributes.user_distinguished_name"},
		"ldap both": {
			ldap(func(a *settings.LDAPAttributes) { a.AuthenticationDNTemplate = "uid=%s,dc=example,dc=com" }),
			"ladp_attributes.authentication_dn_template",
		},
		"ldap password":     {ldap(func(a *settings.LDAPAttributes) { a.Password = "" }), "ladp_attributes.password"},
		"ldap no base":      {ldap(func(a *settings.LDAPAttributes) { a.BaseSuffix = "" }), "ladp_attributes.base_suffix"},
		"ldap base":         {ldap(func(a *settings.LDAPAttributes) { a.BaseSuffix = "example.com" }), "ladp_attributes.base_suffix"},
		"ldap match":        {ldap(func(a *settings.LDAPAttributes) { a.MatchPattern = "(uid=%s" }), "ladp_attributes.match_pattern"},
		"ldap match of all": {ldap(func(a *settings.LDAPAttributes) { a.MatchPattern = "(uid=ann)" }), "ladp_attributes.match_pattern"},
		"ldap template": {
			ldap(func(a *settings.LDAPAttributes) { a.UserDistinguishedName, a.AuthenticationDNTemplate = "", "uid=x" }),
			"ladp_attributes.authentication_dn_template",
		},
		"ldap template no DN": {ldap(func(a *settings.LDAPAttributes) {
			a.UserDistinguishedName, a.AuthenticationDNTemplate = "", "%s at home"
		}), "ladp_attributes.authentication_dn_template"},
		"ldap attribute": {
			ldap(func(a *settings.LDAPAttributes) { a.AttributesToBeFetched = []string{"cn", "given name"} }),
			"ladp_attributes.attributes_to_be_fetched[1]",
		},
		"ldap mapping": {with(ldap(func(*settings.LDAPAttributes) {}),
			func(m *settings.LoginMethod) { m.AttributeMappings = mapped("given name", "name") }), "attribute_mappings[1].map_from"},

		"oidc issuer": {
			oidc(func(a *settings.OIDCAttributes) { a.Issuer = "https://corp.example.com?x" }),
			"open_id_connect_attributes.issuer",
		},
		"oidc no issuer": {
			oidc(func(a *settings.OIDCAttributes) { a.Issuer, a.DiscoveryURL = "", "https://corp.example.com/metadata" }),
			"open_id_connect_attributes.issuer",
		},
		"oidc discovery": {
			oidc(func(a *settings.OIDCAttributes) { a.DiscoveryURL = "http://corp.example.com/metadata" }),
			"open_id_connect_attributes.discovery_url",
		},
		"oidc no token URL": {oidc(func(a *settings.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.JWKSURL = true, "https://corp.example.com/a", "https://corp.example.com/k"
		}), "open_id_connect_attributes.id_token_url"},
		"oidc keys": {oidc(func(a *settings.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.IDTokenURL, a.JWKSURL = true, "https://corp.example.com/a", "https://corp.example.com/t",
				"http://corp.example.com/k"
		}), "open_id_connect_attributes.jwks_url"},
		"oidc userinfo": {oidc(func(a *settings.OIDCAttributes) {
			a.ManualMetadataSetup, a.AuthorizationURL, a.IDTokenURL, a.JWKSURL, a.UserInfoURL = true, "https://corp.example.com/a",
				"https://corp.example.com/t", "https://corp.example.com/k", "http://corp.example.com/u"
		}), "open_id_connect_attributes.user_info_url"},
		"oidc client": {oidc(func(a *settings.OIDCAttributes) { a.ClientID = "\u0001" }), "open_id_connect_attributes.client_id"},
		"oidc no secret": {oidc(func(a *settings.OIDCAttributes) {
			a.ClientSecret, a.ClientAuthenticationMethod = "", "CLIENT_SECRET_BASIC"
		}), "open_id_connect_attributes.client_secret"},
		"oidc scope": {oidc(func(a *settings.OIDCAttributes) { a.Scopes = []string{"a b"} }), "open_id_connect_attributes.scopes"},
		"oidc expiration": {
			oidc(func(a *settings.OIDCAttributes) { a.MetadataExpirationInSeconds = 1 << 30 }),
			"open_id_connect_attributes.metadata_expiration_time_in_seconds",
		},
		"oidc mapping": {with(oidc(func(*settings.OIDCAttributes) {}),
			func(m *settings.LoginMethod) { m.AttributeMappings = mapped("x", "") }), "attribute_mappings[1].map_to"},
		"oidc mapping twice": {with(oidc(func(*settings.OIDCAttributes) {}),
			func(m *settings.LoginMethod) { m.AttributeMappings = mapped("mail", "email") }), "attribute_mappings[1]"},
		"oidc custom mapping": {with(oidc(func(*settings.OIDCAttributes) {}), func(m *settings.LoginMethod) {
			m.CustomAttributeMappings = []settings.CustomAttributesMapping{{AttributeToMapFrom: "x\u0001", AttributeToMapTo: "y"}}
		}), "custom_attribute_mappings[0].attribute_to_map_from"},

		"saml address": {
			saml(func(a *settings.SAMLAttributes) { a.IDPMetadata = "http://partner.example.com/metadata" }),
			"saml_attributes.idp_metadata",
		},
		"saml file": {saml(func(a *settings.SAMLAttributes) { a.IDPMetadata = "/etc/passwd" }), "saml_attributes.idp_metadata"},
		"saml other scheme": {
			saml(func(a *settings.SAMLAttributes) { a.IDPMetadata = "ftp://partner.example.com" }),
			"saml_attributes.idp_metadata",
		},
		"saml metadata": {saml(func(a *settings.SAMLAttributes) { a.IDPMetadata = "<html></html>" }), "saml_attributes.idp_metadata"},
		"saml class": {saml(func(a *settings.SAMLAttributes) {
			a.AuthenticationLevelMappings = []settings.AuthenticationLevelMapping{level("urn:x", 1), level("strong", 2)}
		}), "saml_attributes.authentication_level_mappings[1].authn_context_class_ref_name"},
		"saml class twice": {saml(func(a *settings.SAMLAttributes) {
			a.Comparison, a.AuthenticationLevelMappings = "EXACT", []settings.AuthenticationLevelMapping{level("urn:x", 1), level("urn:x", 2)}
		}), "saml_attributes.authentication_level_mappings[1].authn_context_class_ref_name"},
		"saml level": {saml(func(a *settings.SAMLAttributes) {
			a.AuthenticationLevelMappings = []settings.AuthenticationLevelMapping{level("urn:x", 7)}
		}), "saml_attributes.authentication_level_mappings[0].authentication_level"},
		"digid level": {
			&settings.LoginMethod{
				Type: settings.TypeDigiD, SAMLMutualTLS: settings.SAMLMutualTLS{ClientKeyPairID: "k"},
				DigiD: &settings.DigiDAttributes{IDPMetadata: "https://digid.example.com", RequiredAuthenticationLevel: "LOW"},
			},
			"digid_attributes.required_authentication_level",
		},
		"digid key": {
			&settings.LoginMethod{
				Type:  settings.TypeDigiD,
				DigiD: &settings.DigiDAttributes{IDPMetadata: "https://digid.example.com", RequiredAuthenticationLevel: "BASIC"},
			},
			"saml_mutual_ssl_tls_attributes.client_key_pair_id",
		},
		"digid metadata": {&settings.LoginMethod{
			Type: settings.TypeDigiD, SAMLMutualTLS: settings.SAMLMutualTLS{ClientKeyPairID: "k"},
			DigiD: &settings.DigiDAttributes{IDPMetadata: "<x/>", RequiredAuthenticationLevel: "BASIC"},
		}, "digid_attributes.idp_metadata"},
		"eidas service": {
			&settings.LoginMethod{
				Type: settings.TypeEIDAS,
				EIDAS: &settings.EIDASAttributes{
					IDPMetadata: "https://broker.example.com", RequiredLevelOfAssurance: "LOW",
					AuthenticationService: "CUSTOM", AuthenticationServiceCustomValue: "not a URI",
				},
			},
			"eidas_attributes.authentication_service_custom_value",
		},
		"eidas entity": {
			&settings.LoginMethod{
				Type:  settings.TypeEIDAS,
				EIDAS: &settings.EIDASAttributes{IDPMetadata: "https://broker.example.com", RequiredLevelOfAssurance: "LOW", EntityID: "not a URI"},
			},
			"eidas_attributes.entity_id",
		},
		"apple team": {&settings.LoginMethod{
			Type:  settings.TypeApple,
			Apple: func() *settings.AppleAttributes { a := apple; a.TeamID = "x"; return &a }(),
		}, "apple_attributes.team_id"},
		"apple key id": {&settings.LoginMethod{
			Type:  settings.TypeApple,
			Apple: func() *settings.AppleAttributes { a := apple; a.KeyID = "x"; return &a }(),
		}, "apple_attributes.key_id"},
		"apple key": {&settings.LoginMethod{
			Type:  settings.TypeApple,
			Apple: func() *settings.AppleAttributes { a := apple; a.SigningKeyID = ""; return &a }(),
		}, "apple_attributes.signing_key_id"},
		"apple keys": {
			&settings.LoginMethod{
				Type:  settings.TypeApple,
				Apple: func() *settings.AppleAttributes { a := apple; a.JWKSURI = "http://apple.example.com"; return &a }(),
			},
			"apple_attributes.jwks_uri",
		},
		"apple client": {&settings.LoginMethod{
			Type:  settings.TypeApple,
			Apple: func() *settings.AppleAttributes { a := apple; a.ClientID = ""; return &a }(),
		}, "apple_attributes.client_id"},
		"itsme code": {&settings.LoginMethod{
			Type:  settings.TypeItsme,
			Itsme: func() *settings.ItsmeAttributes { a := itsme; a.LoginServiceCode = "a b"; return &a }(),
		}, "itsme_attributes.login_service_code"},
		"itsme security": {&settings.LoginMethod{
			Type:  settings.TypeItsme,
			Itsme: func() *settings.ItsmeAttributes { a := itsme; a.SecurityLevel = "HIGH"; return &a }(),
		}, "itsme_attributes.security_level"},
		"itsme client": {&settings.LoginMethod{
			Type:  settings.TypeItsme,
			Itsme: func() *settings.ItsmeAttributes { a := itsme; a.ClientID = ""; return &a }(),
		}, "itsme_attributes.client_id"},
		"itsme discovery": {
			&settings.LoginMethod{
				Type:  settings.TypeItsme,
				Itsme: func() *settings.ItsmeAttributes { a := itsme; a.DiscoveryURL = "http://itsme.example.com"; return &a }(),
			},
			"itsme_attributes.discovery_url",
		},
		"b2c tenant": {&settings.LoginMethod{
			Type:       settings.TypeAzureADB2C,
			AzureADB2C: func() *settings.AzureADB2CAttributes { a := b2c; a.TenantID = "a/b"; return &a }(),
		}, "azure_ad_b2c_attributes.tenant_id"},
		"b2c policy": {&settings.LoginMethod{
			Type:       settings.TypeAzureADB2C,
			AzureADB2C: func() *settings.AzureADB2CAttributes { a := b2c; a.Policy = "a/b"; return &a }(),
		}, "azure_ad_b2c_attributes.policy"},
		"b2c application": {
			&settings.LoginMethod{
				Type:       settings.TypeAzureADB2C,
				AzureADB2C: func() *settings.AzureADB2CAttributes { a := b2c; a.ApplicationID = ""; return &a }(),
			},
			"azure_ad_b2c_attributes.application_id",
		},
		"kerberos custom": {&settings.LoginMethod{
			Type: settings.TypeKerberos, Kerberos: &settings.KerberosAttributes{KeytabID: "k"},
			AttributeMappings: mapped("", "x"),
		}, "attribute_mappings[1].map_from"},
	}
	for _, kind := range []string{
		settings.TypeFacebook, settings.TypeGoogle, settings.TypeLinkedIn,
		settings.TypeMicrosoft, settings.TypeTwitter, settings.TypeGitHub, settings.TypeDiscord,
	} {
		object := strings.ToLower(kind) + "_attributes."
		tests[kind+" client"] = struct {
			method *settings.LoginMethod
			path   string
		}{social(kind, settings.SocialAttributes{ClientSecret: "s"}), object + "clientId"}
	}
	for _, kind := range []string{
		settings.TypeFacebook, settings.TypeLinkedIn, settings.TypeTwitter, settings.TypeGitHub, settings.TypeDiscord,
	} {
		tests[kind+" secret"] = struct {
			method *settings.LoginMethod
			path   string
		}{social(kind, settings.SocialAttributes{ClientID: "x"}), strings.ToLower(kind) + "_attributes.client_secret"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := settings.MethodError(nil)
			if err := loginmethod.Verify(*tt.method); !errors.As(err, &wrong) {
				t.Fatalf("Verify = %v, want a problem at %s", err, tt.path)
			}
			for _, p := range wrong {
				if p.Code == "" {
					t.Errorf("the problem %q at %q has no code, so pages have no words for it", p.Problem, p.Path)
				}
				if word := foreignWord.FindString(p.Problem); word != "" || p.Problem == "" || p.Path == "" {
					t.Errorf("the problem at %q is %q, want it at a member and without %q", p.Path, p.Problem, word)
				}
			}
			if !slices.ContainsFunc(wrong, func(p jsonapi.Problem) bool { return p.Path == tt.path }) {
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
	wrong := settings.MethodError(nil)
	if err := loginmethod.Verify(settings.LoginMethod{Type: settings.TypeKerberos}); !errors.As(err, &wrong) ||
		wrong[0].Path != "kerberos_attributes.keytab_id" {
		t.Errorf("Verify = %v, want a problem at kerberos_attributes.keytab_id", err)
	}
}
