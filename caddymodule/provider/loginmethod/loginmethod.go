// Package loginmethod reads the login methods of the configuration API. It returns the configuration of the provider
// that a method describes, and the problems of a method by its members.
package loginmethod

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/kerberos"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Key returns everything that a provider is built from, secrets included. It is only kept in memory.
func Key(m *settings.LoginMethod) ([]byte, error) {
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

// Path returns the first part of the addresses of a login method. Empty: it has none.
func Path(m *settings.LoginMethod) string {
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

// Custom returns the details that become custom attributes of the person.
func Custom(m *settings.LoginMethod) (out []string) {
	for _, a := range m.CustomAttributeMappings {
		if !slices.Contains(out, a.AttributeToMapTo) {
			out = append(out, a.AttributeToMapTo)
		}
	}
	return out
}

// Excluded returns the details that a login method drops, except those that a mapping sets.
func Excluded(m *settings.LoginMethod) []string {
	mapped := mappingOf(m).Attributes
	return slices.DeleteFunc(slices.Clone(m.ExcludedUnmappedAttributes), func(name string) bool {
		return slices.ContainsFunc(mapped, func(a idp.Attribute) bool { return a.To == name })
	})
}

// Moving returns how newcomers by a login method connect accounts that they already have. People of a directory type
// their password on our page, so they are never asked.
func Moving(m *settings.LoginMethod, f *settings.Features) federation.Moving {
	if !f.MigrationEnabled || !m.MigrationDuringSignUp || m.Type == settings.TypeLDAP {
		return federation.Moving{}
	}
	return federation.Moving{
		Ask: true, Trust: f.UnauthenticatedMigrationEnabled,
		Named: f.PersonIdentifierInExternalProfileRequiredForMigration,
	}
}

// Editable returns the details that persons may change although the provider sends them.
func Editable(m *settings.LoginMethod) (out []string) {
	for _, a := range m.AttributeMappings {
		if a.Editable {
			out = append(out, a.MapTo)
		}
	}
	return out
}

// SAML returns the configuration of a method that speaks SAML.
func SAML(m *settings.LoginMethod) (cfg saml.Config, ok bool) {
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

// The eIDAS message services of the scheme eToegang, to which brokers send people of other countries.
const (
	EIDASAcceptance = "urn:etoegang:EB:00000004000000149000:entities:9009"
	EIDASProduction = "urn:etoegang:EB:00000004000000149000:entities:0001"
)

func eidasMethod(a *settings.EIDASAttributes) saml.Config {
	cfg := saml.Config{
		Metadata: a.IDPMetadata, Scheme: saml.EToegang, Assurance: strings.ToLower(a.RequiredLevelOfAssurance), EntityID: a.EntityID,
		Via: map[string]string{
			"ACCEPTANCE": EIDASAcceptance, "PRODUCTION": EIDASProduction,
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

// ServerURLs returns the servers of a stored directory, which are separated by spaces or commas.
func ServerURLs(l *settings.LDAPAttributes) []string {
	return strings.FieldsFunc(l.ServerURLs, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// LDAP returns the configuration of a method of a directory, which has its attributes.
func LDAP(m *settings.LoginMethod) ldap.Config {
	l := m.LDAP
	cfg := ldap.Config{
		URLs:   ServerURLs(l),
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

// OpenID returns the configuration of a method that speaks OpenID Connect.
func OpenID(m *settings.LoginMethod) (cfg oidc.Config, ok bool) {
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

// OAuth2 returns the configuration of a method at a social network.
func OAuth2(m *settings.LoginMethod) (cfg oauth2.Config, ok bool) {
	of := social(m)
	if of == nil {
		return cfg, false
	}
	return oauth2.Config{
		Preset: socialPresets[m.Type], ClientID: of.ClientID, ClientSecret: secret.New(of.ClientSecret.Reveal()),
		Level: m.AuthenticationLevel, Mapping: mappingOf(m),
	}, true
}

// KeytabID names the key pair with the keytab of a login method. Empty: it has the keytab of the machine, or none.
func KeytabID(m *settings.LoginMethod) string {
	if m.Type != settings.TypeKerberos || m.Kerberos == nil {
		return ""
	}
	return m.Kerberos.KeytabID
}

// Kerberos returns the configuration of a method of type KERBEROS. kept is the keytab of its key pair. Without a key
// pair it has the keys of this machine.
func Kerberos(m *settings.LoginMethod, kept []byte) (cfg kerberos.Config, err error) {
	file := kerberos.DefaultKeytab()
	cfg = kerberos.Config{Level: m.AuthenticationLevel, Auto: m.Kerberos != nil && m.Kerberos.AutoLoginEnabled, Mapping: mappingOf(m)}
	if KeytabID(m) != "" {
		cfg.Keytab = kept
		return cfg, nil
	}
	if cfg.Keytab, err = os.ReadFile(file); err != nil { //nolint:gosec // the operator's own
		return cfg, fmt.Errorf("the keytab of this machine, %s, cannot be read: make it there, or name another file in KRB5_KTNAME", file)
	}
	return cfg, nil
}

// Verify returns nil if a provider can be made from a login method, otherwise a settings.MethodError or
// ErrTypeNotSupported.
func Verify(m settings.LoginMethod) error {
	switch {
	case m.Type == settings.TypeQRCode:
		return nil
	case m.Type == settings.TypeLDAP && m.LDAP != nil:
		return problemsOf(&m, LDAP(&m).Validate())
	case m.Type == settings.TypeKerberos:
		cfg, err := Kerberos(&m, nil)
		switch {
		case err != nil:
		case KeytabID(&m) != "": // its keytab has been checked
			err = cfg.Mapping.Validate()
		default:
			err = cfg.Validate()
		}
		return problemsOf(&m, err)
	}
	if cfg, ok := SAML(&m); ok {
		if err := problemsOf(&m, cfg.Validate()); err != nil {
			return err
		}
		return metadataProblem(&m, cfg.CheckMetadata(time.Now()))
	}
	if cfg, ok := OpenID(&m); ok {
		return problemsOf(&m, cfg.Validate())
	}
	if cfg, ok := OAuth2(&m); ok {
		return problemsOf(&m, cfg.Validate())
	}
	return settings.ErrTypeNotSupported
}
