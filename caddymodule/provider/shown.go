package provider

import (
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider/loginmethod"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

// The configuration API shows a provider of the Caddyfile as the login method that would mean the same. What a login
// method cannot say is left out, and secrets are never shown. (docs/decisions/configuration.md#login-methods)

// Shown adds to a provider, as the configuration API shows it, what its block says.
func (s *Set) Shown(id string, m *settings.LoginMethod) {
	p := s.all[id]
	if far, ok := p.(remoteIDP); ok {
		r := far.common().remote
		m.AuthenticationLevel = r.level
		m.AttributeMappings = mappings(id, r.mapping)
	}
	if shower, ok := p.(interface{ shown(m *settings.LoginMethod) }); ok {
		shower.shown(m)
	}
}

// mappings have the same ids after each start.
func mappings(id string, m idp.Mapping) (out []settings.AttributeMapping) {
	for _, a := range m.Attributes {
		name := uuid.NewSHA1(uuid.NameSpaceOID, []byte(id+"\x00"+a.From+"\x00"+a.To))
		out = append(out, settings.AttributeMapping{ID: name.String(), MapFrom: a.From, MapTo: a.To})
	}
	return most(out, maxMappings)
}

// A list of a login method has a largest length, which a Caddyfile does not have.
const (
	maxMappings = 200
	maxList     = 100
	maxClasses  = 50
)

func most[T any](list []T, n int) []T { return list[:min(n, len(list))] }

func (h *HeaderIDP) shown(m *settings.LoginMethod) {
	m.AuthenticationLevel = h.cfg.Level
	var list idp.Mapping
	for _, a := range h.cfg.Attributes {
		list.Attributes = append(list.Attributes, idp.Attribute{From: a.Header, To: a.Detail})
	}
	m.AttributeMappings = mappings(m.ID, list)
}

func (s *SAMLIDP) shown(m *settings.LoginMethod) {
	c := &s.cfg
	m.SAMLMutualTLS = settings.SAMLMutualTLS{ClientKeyPairID: c.ClientKey, ServerCertificateID: c.ServerCertificate}
	switch c.Scheme {
	case saml.DigiD:
		m.Type, m.DigiD = settings.TypeDigiD,
			&settings.DigiDAttributes{IDPMetadata: metadataOf(c), RequiredAuthenticationLevel: strings.ToUpper(c.Assurance)}
	case saml.EToegang:
		m.Type, m.EIDAS = settings.TypeEIDAS, eidasShown(c)
	default:
		m.SAML = &settings.SAMLAttributes{IDPMetadata: metadataOf(c), AuthenticationLevelMappings: levelMappings(c)}
		if c.AuthnContext != nil {
			m.SAML.Comparison = strings.ToUpper(c.AuthnContext.Comparison)
		}
	}
}

// maxShown is the size of metadata from which they are not shown: a login method can have no more.
const maxShown = 256 << 10

// metadataOf returns the address of the metadata, or those of the file. What a login method could not have is left out:
// a broken file of one provider must not keep the configuration from being loaded.
func metadataOf(c *saml.Config) string {
	if strings.HasPrefix(c.Metadata, "https://") || strings.HasPrefix(c.Metadata, "http://") {
		return c.Metadata
	}
	if info, err := os.Stat(c.Metadata); err != nil || info.Size() > maxShown {
		return ""
	}
	raw, err := os.ReadFile(c.Metadata) //nolint:gosec // the operator names it
	if err != nil || len(raw) > maxShown || !kind.IsMetadata(string(raw)) {
		return ""
	}
	return string(raw)
}

// levelMappings are the classes that are asked for, in their order, and the others whose levels are known.
func levelMappings(c *saml.Config) (out []settings.AuthenticationLevelMapping) {
	var classes []string
	if c.AuthnContext != nil {
		classes = slices.Clone(c.AuthnContext.Classes)
	}
	for _, class := range slices.Sorted(maps.Keys(c.Levels)) {
		if !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	for _, class := range classes {
		level := c.Levels[class]
		if level == 0 {
			level = max(1, c.Level)
		}
		out = append(out, settings.AuthenticationLevelMapping{AuthnContextClassRefName: class, AuthenticationLevel: level})
	}
	return most(out, maxClasses)
}

func eidasShown(c *saml.Config) *settings.EIDASAttributes {
	a := &settings.EIDASAttributes{IDPMetadata: metadataOf(c), RequiredLevelOfAssurance: strings.ToUpper(c.Assurance), EntityID: c.EntityID}
	switch c.Via {
	case "":
	case loginmethod.EIDASAcceptance:
		a.AuthenticationService = "ACCEPTANCE"
	case loginmethod.EIDASProduction:
		a.AuthenticationService = "PRODUCTION"
	default:
		a.AuthenticationService, a.AuthenticationServiceCustomValue = "CUSTOM", c.Via
	}
	if len(c.Sign) > 0 {
		a.SigningKeyID = c.Sign[0]
	}
	if len(c.Decrypt) > 0 {
		a.EncryptionKeyID = c.Decrypt[0]
	}
	return a
}

func (o *OIDCIDP) shown(m *settings.LoginMethod) {
	c := &o.cfg
	m.OIDC = &settings.OIDCAttributes{
		ClientAuthenticationMethod: map[string]string{
			oidc.AuthBasic:      "CLIENT_SECRET_BASIC",
			oidc.AuthPrivateKey: "PRIVATE_KEY_JWT",
		}[c.AuthMethod],
		ClientID: c.ClientID, SigningKeyID: c.Key, Issuer: c.Issuer, DiscoveryURL: c.DiscoveryURL,
		AuthorizationURL: c.Metadata.AuthorizationURL, IDTokenURL: c.Metadata.TokenURL, UserInfoURL: c.Metadata.UserInfoURL,
		JWKSURL:       c.Metadata.JWKSURL,
		EndSessionURL: c.Metadata.EndSessionURL, ManualMetadataSetup: o.Metadata != nil, FrontChannelLogoutEnabled: c.FrontChannelLogout,
		IDTokenEncryptionRequired: c.IDTokenEncryptionRequired, UserInfoEncryptionRequired: c.UserInfoEncryptionRequired,
		MetadataExpirationInSeconds: int(c.MetadataExpiration.Seconds()), Scopes: most(c.Scopes, maxList), Claims: claimsOf(c.Claims),
	}
}

// claimsOf returns the names of a claims parameter. (OpenID Connect Core 5.5)
func claimsOf(raw json.RawMessage) []string {
	var p map[string]map[string]json.RawMessage
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, place := range p {
		for name := range place {
			names[name] = true
		}
	}
	return most(slices.Sorted(maps.Keys(names)), maxList)
}

// shown of a provider of OAuth 2.0, which the API has no type for, has its addresses in the places of those of OpenID.
func (o *OAuth2IDP) shown(m *settings.LoginMethod) {
	c := &o.cfg
	of := &settings.SocialAttributes{ClientID: c.ClientID}
	switch o.preset {
	case oauth2.Facebook:
		m.Facebook = of
	case oauth2.LinkedIn:
		m.LinkedIn = of
	case oauth2.Twitter:
		m.Twitter = of
	default:
		m.OIDC = &settings.OIDCAttributes{
			ClientID: c.ClientID, Issuer: c.Issuer, AuthorizationURL: c.AuthorizationURL, IDTokenURL: c.TokenURL, UserInfoURL: c.ProfileURL,
			Scopes: c.Scopes, ManualMetadataSetup: o.preset == "",
		}
	}
}

func (o *GoogleIDP) shown(m *settings.LoginMethod) {
	m.Google = &settings.SocialAttributes{ClientID: o.cfg.ClientID}
}

func (o *MicrosoftIDP) shown(m *settings.LoginMethod) {
	m.Microsoft = &settings.SocialAttributes{ClientID: o.cfg.ClientID}
}

func (o *AzureADB2CIDP) shown(m *settings.LoginMethod) {
	c := &o.cfg
	m.AzureADB2C = &settings.AzureADB2CAttributes{
		TenantID: c.Tenant, ApplicationID: c.ClientID, Policy: c.Policy,
		FrontChannelLogoutEnabled: c.FrontChannelLogout,
	}
}

func (o *AppleIDP) shown(m *settings.LoginMethod) {
	c := &o.cfg
	m.Apple = &settings.AppleAttributes{
		ClientID: c.ClientID, TeamID: c.TeamID, KeyID: c.KeyID, JWKSURI: c.JWKSURL, SigningKeyID: c.Key, Scopes: c.Scopes,
		DomainVerificationFileContent: o.domainFile,
	}
}

func (o *ItsmeIDP) shown(m *settings.LoginMethod) {
	c := &o.cfg
	m.Itsme = &settings.ItsmeAttributes{
		ClientID: c.ClientID, LoginServiceCode: c.ServiceCode, DiscoveryURL: c.DiscoveryURL, SecurityLevel: c.SecurityLevel,
		FrontChannelLogoutEnabled:   c.FrontChannelLogout,
		MetadataExpirationInSeconds: int(c.MetadataExpiration.Seconds()), Scopes: c.Scopes, Claims: claimsOf(c.Claims),
	}
}

func (l *LDAPIDP) shown(m *settings.LoginMethod) {
	c := &l.cfg
	m.AutoEmailVerification, m.MigrationDuringSignUp = c.EmailVerified, l.migrates()
	m.LDAP = &settings.LDAPAttributes{
		ServerURLs: strings.Join(c.URLs, " "), BaseSuffix: c.Base, UserDistinguishedName: c.BindDN,
		AuthenticationDNTemplate: c.Template, MatchPattern: c.Match,
		IPRangeEnabled: len(c.Networks) > 0, IPRanges: most(networksShown(c.Networks), maxList),
		AttributesToBeFetched: most(c.Attributes, maxList),
	}
}

func networksShown(networks []netip.Prefix) (out []string) {
	for _, n := range networks {
		out = append(out, n.String())
	}
	return out
}

func (k *KerberosIDP) shown(m *settings.LoginMethod) {
	m.Kerberos = &settings.KerberosAttributes{AutoLoginEnabled: k.cfg.Auto}
}
