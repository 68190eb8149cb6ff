package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// methodKey returns everything that a provider is built from, secrets included. It is only kept in memory.
func methodKey(m *settings.LoginMethod) ([]byte, error) {
	plain, err := json.Marshal(m)
	if m.OIDC != nil {
		plain = append(plain, m.OIDC.ClientSecret.Reveal()...)
	}
	if m.AzureADB2C != nil {
		plain = append(plain, m.AzureADB2C.ClientSecret.Reveal()...)
	}
	if of := social(m); of != nil {
		plain = append(plain, of.ClientSecret.Reveal()...)
	}
	if m.LDAP != nil {
		plain = append(plain, m.LDAP.Password.Reveal()...)
	}
	return plain, err
}

// methodPath is the first part of the addresses of a login method. Empty: it has none.
func methodPath(m *settings.LoginMethod) string {
	switch m.Type {
	case settings.TypeSAML, settings.TypeDigiD, settings.TypeEIDAS:
		return "saml"
	case settings.TypeLDAP, settings.TypeQRCode:
		return ""
	case settings.TypeKerberos:
		return "kerberos"
	}
	return "oidc"
}

func mappingOf(m *settings.LoginMethod) (out idp.Mapping) {
	for _, a := range m.AttributeMappings {
		out.Attributes = append(out.Attributes, idp.Attribute{From: a.MapFrom, To: a.MapTo})
	}
	for _, a := range m.CustomAttributeMappings {
		if both := (idp.Attribute{From: a.AttributeToMapFrom, To: a.AttributeToMapTo}); !slices.Contains(out.Attributes, both) {
			out.Attributes = append(out.Attributes, both)
		}
	}
	return out
}

// customOf are the details that become custom attributes of the person.
func customOf(m *settings.LoginMethod) (out []string) {
	for _, a := range m.CustomAttributeMappings {
		if !slices.Contains(out, a.AttributeToMapTo) {
			out = append(out, a.AttributeToMapTo)
		}
	}
	return out
}

// excludedOf returns the details that a login method drops, except those that a mapping sets.
func excludedOf(m *settings.LoginMethod) []string {
	mapped := mappingOf(m).Attributes
	return slices.DeleteFunc(slices.Clone(m.ExcludedUnmappedAttributes), func(name string) bool {
		return slices.ContainsFunc(mapped, func(a idp.Attribute) bool { return a.To == name })
	})
}

// movingOf returns how newcomers by a login method connect accounts that they already have. People of a directory type
// their password on our page, so they are never asked.
func movingOf(m *settings.LoginMethod, f *settings.Features) federation.Moving {
	if !f.MigrationEnabled || !m.MigrationDuringSignUp || m.Type == settings.TypeLDAP {
		return federation.Moving{}
	}
	return federation.Moving{
		Ask: true, Trust: f.UnauthenticatedMigrationEnabled,
		Named: f.PersonIdentifierInExternalProfileRequiredForMigration,
	}
}

// editableOf returns the details that persons may change although the provider sends them.
func editableOf(m *settings.LoginMethod) (out []string) {
	for _, a := range m.AttributeMappings {
		if a.Editable {
			out = append(out, a.MapTo)
		}
	}
	return out
}

// samlMethod returns the configuration of a method that speaks SAML.
func samlMethod(m *settings.LoginMethod) (cfg saml.Config, ok bool) {
	switch {
	case m.Type == settings.TypeSAML && m.SAML != nil:
		cfg = plainSAML(m)
	case m.Type == settings.TypeDigiD && m.DigiD != nil:
		cfg = saml.Config{Metadata: m.DigiD.IDPMetadata, Scheme: saml.DigiD, Assurance: strings.ToLower(m.DigiD.RequiredAuthenticationLevel)}
	case m.Type == settings.TypeEIDAS && m.EIDAS != nil:
		cfg = eidasMethod(m.EIDAS)
	default:
		return cfg, false
	}
	cfg.NoFiles, cfg.Mapping = true, mappingOf(m)
	cfg.ClientKey, cfg.ServerCertificate = m.SAMLMutualTLS.ClientKeyPairID, m.SAMLMutualTLS.ServerCertificateID
	return cfg, true
}

// The eIDAS message service of the scheme eToegang, to which brokers send people of other countries.
const (
	eidasAcceptance = "urn:etoegang:EB:00000004000000149000:entities:9009"
	eidasProduction = "urn:etoegang:EB:00000004000000149000:entities:0001"
)

func eidasMethod(a *settings.EIDASAttributes) saml.Config {
	cfg := saml.Config{
		Metadata: a.IDPMetadata, Scheme: saml.EToegang, Assurance: strings.ToLower(a.RequiredLevelOfAssurance), EntityID: a.EntityID,
		Via: map[string]string{
			"ACCEPTANCE": eidasAcceptance, "PRODUCTION": eidasProduction,
			"CUSTOM": a.AuthenticationServiceCustomValue,
		}[a.AuthenticationService],
	}
	if a.SigningKeyID != "" {
		cfg.Sign = []string{a.SigningKeyID}
	}
	if a.EncryptionKeyID != "" {
		cfg.Decrypt = []string{a.EncryptionKeyID}
	}
	return cfg
}

func plainSAML(m *settings.LoginMethod) saml.Config {
	cfg := saml.Config{Metadata: m.SAML.IDPMetadata, Level: m.AuthenticationLevel}
	var classes []string
	for _, l := range m.SAML.AuthenticationLevelMappings {
		if cfg.Levels == nil {
			cfg.Levels = map[string]int{}
		}
		cfg.Levels[l.AuthnContextClassRefName] = l.AuthenticationLevel
		classes = append(classes, l.AuthnContextClassRefName)
	}
	if m.SAML.Comparison != "" && len(classes) > 0 {
		cfg.AuthnContext = &saml.AuthnContext{Comparison: strings.ToLower(m.SAML.Comparison), Classes: classes}
	}
	return cfg
}

func oidcMethod(m *settings.LoginMethod) oidc.Config {
	o := m.OIDC
	cfg := oidc.Config{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret.New(o.ClientSecret.Reveal()), Key: o.SigningKeyID, Scopes: o.Scopes,
		Level:   m.AuthenticationLevel,
		Mapping: mappingOf(m), IDTokenEncryptionRequired: o.IDTokenEncryptionRequired, UserInfoEncryptionRequired: o.UserInfoEncryptionRequired,
		FrontChannelLogout: o.FrontChannelLogoutEnabled, MetadataExpiration: time.Duration(o.MetadataExpirationInSeconds) * time.Second,
		Claims: oidc.ClaimsParameter(o.Claims),
	}
	switch o.ClientAuthenticationMethod {
	case "CLIENT_SECRET_BASIC":
		cfg.AuthMethod = oidc.AuthBasic
	case "PRIVATE_KEY_JWT":
		cfg.AuthMethod, cfg.ClientSecret = oidc.AuthPrivateKey, secret.String{}
	}
	if o.ManualMetadataSetup {
		cfg.Metadata = oidc.Metadata{
			AuthorizationURL: o.AuthorizationURL, TokenURL: o.IDTokenURL, UserInfoURL: o.UserInfoURL, JWKSURL: o.JWKSURL,
			EndSessionURL: o.EndSessionURL,
		}
	} else {
		cfg.DiscoveryURL = o.DiscoveryURL
	}
	return cfg
}

// serverURLs returns the servers of a stored directory, which are separated by spaces or commas.
func serverURLs(l *settings.LDAPAttributes) []string {
	return strings.FieldsFunc(l.ServerURLs, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

func ldapMethod(m *settings.LoginMethod) ldap.Config {
	l := m.LDAP
	cfg := ldap.Config{
		URLs:   serverURLs(l),
		BindDN: l.UserDistinguishedName, BindPassword: secret.New(l.Password.Reveal()), Template: l.AuthenticationDNTemplate,
		Base: l.BaseSuffix, Match: l.MatchPattern,
		Attributes: l.AttributesToBeFetched, Mapping: mappingOf(m), Level: m.AuthenticationLevel,
	}
	if l.IPRangeEnabled {
		for _, r := range l.IPRanges {
			if n, err := caddyfileutil.ParseNetwork(r); err == nil { // the unit has checked it
				cfg.Networks = append(cfg.Networks, n)
			}
		}
	}
	return cfg
}

// socialPresets are the presets of the types with the attributes of a social network.
var socialPresets = map[string]string{
	settings.TypeFacebook: oauth2.Facebook, settings.TypeLinkedIn: oauth2.LinkedIn, settings.TypeTwitter: oauth2.Twitter,
	settings.TypeGoogle: oidc.Google, settings.TypeMicrosoft: oidc.Microsoft,
	settings.TypeGitHub: oauth2.GitHub, settings.TypeDiscord: oauth2.Discord,
}

// social returns the attributes of a method at a social network, or nil.
func social(m *settings.LoginMethod) *settings.SocialAttributes {
	return map[string]*settings.SocialAttributes{
		settings.TypeFacebook: m.Facebook, settings.TypeLinkedIn: m.LinkedIn, settings.TypeTwitter: m.Twitter, settings.TypeGoogle: m.Google,
		settings.TypeMicrosoft: m.Microsoft, settings.TypeGitHub: m.GitHub, settings.TypeDiscord: m.Discord,
	}[m.Type]
}

// openID returns the configuration of a method that speaks OpenID Connect.
func openID(m *settings.LoginMethod) (cfg oidc.Config, ok bool) {
	switch {
	case m.Type == settings.TypeOIDC && m.OIDC != nil:
		return oidcMethod(m), true
	case (m.Type == settings.TypeGoogle || m.Type == settings.TypeMicrosoft) && social(m) != nil:
		of := social(m)
		return oidc.Config{
			Preset: socialPresets[m.Type], ClientID: of.ClientID, ClientSecret: secret.New(of.ClientSecret.Reveal()),
			Level: m.AuthenticationLevel, Mapping: mappingOf(m),
		}, true
	case m.Type == settings.TypeAzureADB2C && m.AzureADB2C != nil:
		of := m.AzureADB2C
		return oidc.Config{
			Preset: oidc.AzureADB2C, Tenant: of.TenantID, ClientID: of.ApplicationID, ClientSecret: secret.New(of.ClientSecret.Reveal()),
			Policy:             of.Policy,
			FrontChannelLogout: of.FrontChannelLogoutEnabled, Level: m.AuthenticationLevel, Mapping: mappingOf(m),
		}, true
	case m.Type == settings.TypeApple && m.Apple != nil:
		of := m.Apple
		return oidc.Config{
			Preset: oidc.Apple, ClientID: of.ClientID, TeamID: of.TeamID, KeyID: of.KeyID, Key: of.SigningKeyID, JWKSURL: of.JWKSURI,
			Scopes: someOf(of.Scopes),
			Level:  m.AuthenticationLevel, Mapping: mappingOf(m),
		}, true
	case m.Type == settings.TypeItsme && m.Itsme != nil:
		of := m.Itsme
		return oidc.Config{
			Preset: oidc.Itsme, ClientID: of.ClientID, ServiceCode: of.LoginServiceCode, DiscoveryURL: of.DiscoveryURL,
			SecurityLevel:      of.SecurityLevel,
			FrontChannelLogout: of.FrontChannelLogoutEnabled, MetadataExpiration: time.Duration(of.MetadataExpirationInSeconds) * time.Second,
			Scopes: someOf(of.Scopes),
			Claims: oidc.ClaimsParameter(of.Claims), Level: m.AuthenticationLevel, Mapping: mappingOf(m),
		}, true
	}
	return cfg, false
}

// someOf returns nil for an empty list: the default.
func someOf(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

func socialMethod(m *settings.LoginMethod) oauth2.Config {
	of := social(m)
	return oauth2.Config{
		Preset: socialPresets[m.Type], ClientID: of.ClientID, ClientSecret: secret.New(of.ClientSecret.Reveal()),
		Level: m.AuthenticationLevel, Mapping: mappingOf(m),
	}
}

// Verify returns nil if a provider can be made from a login method, otherwise a settings.MethodError or
// ErrTypeNotSupported.
func Verify(m settings.LoginMethod) error {
	switch {
	case m.Type == settings.TypeQRCode:
		return nil
	case m.Type == settings.TypeLDAP && m.LDAP != nil:
		return problemsOf(&m, ldapMethod(&m).Validate())
	case m.Type == settings.TypeKerberos:
		cfg, err := kerberosMethod(&m, nil)
		switch {
		case err != nil:
		case keytabID(&m) != "": // its keytab has been checked
			err = cfg.Mapping.Validate()
		default:
			err = cfg.Validate()
		}
		return problemsOf(&m, err)
	}
	if cfg, ok := samlMethod(&m); ok {
		if err := problemsOf(&m, cfg.Validate()); err != nil {
			return err
		}
		return metadataProblem(&m, cfg.CheckMetadata(time.Now()))
	}
	if cfg, ok := openID(&m); ok {
		return problemsOf(&m, cfg.Validate())
	}
	if social(&m) != nil {
		return problemsOf(&m, socialMethod(&m).Validate())
	}
	return settings.ErrTypeNotSupported
}
