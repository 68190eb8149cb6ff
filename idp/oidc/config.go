package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/providerhttp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Methods of our authentication at the token endpoint. (OpenID Connect Core 9)
const (
	AuthBasic      = "client_secret_basic"
	AuthPost       = "client_secret_post"
	AuthPrivateKey = "private_key_jwt"
	AuthNone       = "none" // a public client: PKCE only

	authApple = "apple" // client_secret_post, with a secret that our key makes
)

const (
	discoveryPath = "/.well-known/openid-configuration"

	// defaultTimeout bounds all requests of one sign-in to the provider.
	defaultTimeout = 5 * time.Second

	lowest, highest = 1, 4 // authentication levels
	maxAddress      = 2048 // bytes of a URL
	maxScopes       = 101
	maxClaims       = 64 << 10 // bytes of the claims parameter

	maxExpiration = 366 * 24 * time.Hour
)

// Metadata are the addresses of a provider without discovery.
type Metadata struct {
	AuthorizationURL string `json:"authorization_url,omitempty"`
	TokenURL         string `json:"token_url,omitempty"`
	UserInfoURL      string `json:"user_info_url,omitempty"`
	JWKSURL          string `json:"jwks_url,omitempty"`
	EndSessionURL    string `json:"end_session_url,omitempty"`
}

// IsZero reports whether Metadata is empty, so discovery is used.
func (m Metadata) IsZero() bool { return m == Metadata{} }

// Config is the operator's configuration.
type Config struct {
	// Preset is Google, Microsoft, AzureADB2C, Apple or Itsme, which have rules of their own. Default: none.
	Preset string `json:"preset,omitempty"`
	// HostedDomains are the domains of Google Workspace whose people can sign in. Default: everybody with an account.
	HostedDomains []string `json:"hosted_domains,omitempty"`
	// Tenant is common, organizations, consumers or the id of a tenant of Microsoft. Default: common.
	Tenant string `json:"tenant,omitempty"`
	// Policy is the user flow or custom policy of Azure AD B2C by which people sign in. Tenant is the directory's name.
	Policy string `json:"policy,omitempty"`
	// PolicyInQuery has the policy as the parameter p of addresses. Default: it is part of their path.
	PolicyInQuery bool `json:"policy_in_query,omitempty"`
	// Tenants are the ids of the tenants whose people can sign in, if Tenant is of several. Default: all of them.
	Tenants []string `json:"tenants,omitempty"`
	// TeamID is the team at Apple. KeyID and Key are the team's key there, which makes the client secret.
	TeamID string `json:"team_id,omitempty"`
	// JWKSURL is the address of Apple's keys. Default: as its metadata say.
	JWKSURL string `json:"jwks_url,omitempty"`
	// ServiceCode is the code of the login service at itsme.
	ServiceCode string `json:"service_code,omitempty"`
	// SecurityLevel is ItsmeBasic or ItsmeAdvanced. Default: ItsmeBasic.
	SecurityLevel string `json:"security_level,omitempty"`
	// SelectAccount has the provider ask which account is meant.
	SelectAccount bool `json:"select_account,omitempty"`
	// Issuer is the provider's issuer identifier, exactly as the provider writes it. Default: that of the preset, or
	// DiscoveryURL without its well-known path. Of Microsoft it is the part before the tenant.
	Issuer string `json:"issuer,omitempty"`
	// DiscoveryURL is the address of the metadata. Default: the well-known path below Issuer.
	DiscoveryURL string `json:"discovery_url,omitempty"`
	// Metadata replaces discovery. It requires Issuer, AuthorizationURL, TokenURL and JWKSURL.
	Metadata Metadata `json:"metadata,omitzero"`
	// MetadataExpiration is the time that fetched metadata are used before they are fetched again, at least a minute.
	// Default: what the provider's caching headers say, otherwise 1 h.
	MetadataExpiration time.Duration `json:"metadata_expiration,omitempty"`
	// ClientID is our client id at the provider. Required.
	ClientID     string        `json:"client_id"`
	ClientSecret secret.String `json:"client_secret,omitzero"`
	// AuthMethod is one of the Auth constants. Default: client_secret_basic with a secret, otherwise none.
	AuthMethod string `json:"auth_method,omitempty"`
	// Key is the key pair that signs for private_key_jwt. Default: Gatehouse's own.
	Key string `json:"key,omitempty"`
	// KeyID is the kid under which the provider knows Key. Default: its thumbprint, as in our jwks. (RFC 7638)
	KeyID string `json:"key_id,omitempty"`
	// Decrypt lists the key pairs for encrypted answers. Default: Key if encryption is required; otherwise encrypted
	// answers are refused.
	Decrypt []string `json:"decrypt,omitempty"`
	// Scopes are the requested scopes. openid is added if it is missing. Default: openid.
	Scopes []string `json:"scopes,omitempty"`
	// Claims is the claims parameter, a JSON object. (OpenID Connect Core 5.5)
	Claims json.RawMessage `json:"claims,omitempty"`
	// ResponseMode is query or form_post. Default: query.
	ResponseMode string `json:"response_mode,omitempty"`
	// Audiences may appear in an ID token's aud in addition to us. Default: none.
	Audiences []string `json:"audiences,omitempty"`
	// IDTokenEncryptionRequired and UserInfoEncryptionRequired refuse unencrypted answers.
	IDTokenEncryptionRequired  bool `json:"id_token_encryption_required,omitempty"`
	UserInfoEncryptionRequired bool `json:"user_info_encryption_required,omitempty"`
	// FrontChannelLogout serves the address that the provider loads in a frame when a person signs out there.
	FrontChannelLogout bool `json:"front_channel_logout,omitempty"`
	// EmailVerifiedStrings accepts email_verified as the string "true", for providers that write it so. Default: only the
	// boolean counts.
	EmailVerifiedStrings bool `json:"email_verified_strings,omitempty"`
	// Level is the level of a sign-in whose acr is not in Levels, 1 to 4. Default: 1.
	Level int `json:"level,omitempty"`
	// Levels maps acr values to levels. The sufficient ones are requested as acr_values.
	Levels map[string]int `json:"levels,omitempty"`
	// Mapping turns claims into details. Members of objects have dotted names: address.locality.
	Mapping idp.Mapping `json:"mapping,omitzero"`
	// IdentifyBy is a claim that identifies a person in addition to sub, so the provider can change sub. Default: none.
	IdentifyBy string `json:"identify_by,omitempty"`
	// Timeout bounds all requests of one sign-in to the provider. Default and maximum: 5 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Validate returns all errors in the configuration, joined.
func (c Config) Validate() error {
	c = c.withDefaults()
	wrong := c.validatePreset()
	add := func(err error) { wrong = append(wrong, err) }
	if c.Issuer == "" {
		add(coded.New("issuer_missing", "issuer is missing: name the provider's issuer, such as https://login.example.com"))
	} else if err := checkIssuer(c.Issuer); err != nil {
		add(fmt.Errorf("issuer %q: %w", c.Issuer, err))
	}
	for _, e := range c.endpoints() {
		if err := checkEndpoint(c.Issuer, e.url); e.url != "" && err != nil {
			add(fmt.Errorf("%s %q: %w", e.name, e.url, err))
		}
		if e.url == "" && e.required {
			add(coded.Errorf("required", "", "metadata: %s is missing", e.name))
		}
	}
	if c.ClientID == "" || !idp.IsText(c.ClientID, idp.MaxSubject) {
		add(coded.New("client_id_missing", "client_id is missing: it is what the provider calls Gatehouse"))
	}
	wrong = append(wrong, c.validateAuth()...)
	wrong = append(wrong, c.validateRequest()...)
	if c.Level < lowest || c.Level > highest {
		add(coded.Errorf("range", "- from to", "level %d is not between %d and %d", c.Level, lowest, highest))
	}
	for _, acr := range slices.Sorted(maps.Keys(c.Levels)) {
		if n := c.Levels[acr]; n < lowest || n > highest || acr == "" || strings.ContainsAny(acr, " \t\r\n") {
			add(coded.Errorf("acr", "value - from to", "map_level %q %d: the acr value has no spaces, the level is between %d and %d", acr, n, lowest, highest))
		}
	}
	if !idp.IsText(c.IdentifyBy, idp.MaxSubject) || strings.TrimSpace(c.IdentifyBy) != c.IdentifyBy {
		add(coded.Errorf("not_claim", "value", "identify_by %q is not the name of a claim", c.IdentifyBy))
	}
	if err := c.Mapping.Validate(); err != nil {
		wrong = append(wrong, err)
	}
	if c.Timeout < 0 || c.Timeout > defaultTimeout {
		add(coded.Errorf("at_most", "- max", "timeout %s: at most %s, because a person waits for it", c.Timeout, defaultTimeout))
	}
	if c.MetadataExpiration < 0 || c.MetadataExpiration > maxExpiration {
		add(coded.Errorf("at_most", "- max", "metadata expiration %s: at most %s", c.MetadataExpiration, maxExpiration))
	}
	return errors.Join(wrong...)
}

func (c Config) validateAuth() (wrong []error) {
	hasSecret := !c.ClientSecret.IsZero()
	switch c.AuthMethod {
	case AuthBasic, AuthPost:
		if !hasSecret {
			wrong = append(wrong, coded.Errorf("secret_missing", "", "client_secret is missing: auth_method %s needs it", c.AuthMethod))
		}
	case AuthPrivateKey, AuthNone, authApple:
		if hasSecret {
			wrong = append(wrong, coded.Errorf("secret_unused", "", "client_secret: auth_method %s has none: remove either", c.AuthMethod))
		}
	default:
		wrong = append(wrong, coded.Errorf("auth_method", "", "auth_method %q: want %s, %s, %s or %s", c.AuthMethod, AuthBasic, AuthPost, AuthPrivateKey, AuthNone))
	}
	if c.KeyID != "" && !idp.IsText(c.KeyID, 256) {
		wrong = append(wrong, coded.New("key_id", "key id: at most 256 printable characters"))
	}
	return wrong
}

func (c Config) validateRequest() (wrong []error) {
	if len(c.Scopes) > maxScopes {
		wrong = append(wrong, coded.Errorf("entries", "max", "scopes: at most %d", maxScopes))
	}
	for _, s := range c.Scopes {
		if !isScope(s) {
			wrong = append(wrong, coded.Errorf("not_scope", "value", "scopes: %q is not a scope", s))
		}
	}
	if c.ResponseMode != "query" && c.ResponseMode != "form_post" {
		wrong = append(wrong, coded.Errorf("response_mode", "", "response_mode %q: want query or form_post", c.ResponseMode))
	}
	if len(c.Claims) > 0 {
		if _, err := providerhttp.ReadObject(c.Claims); err != nil || len(c.Claims) > maxClaims {
			wrong = append(wrong, coded.Errorf("claims_json", "max", "claims: want a JSON object of at most %d bytes, as in OpenID Connect Core 5.5", maxClaims))
		}
	}
	return wrong
}

type endpoint struct {
	name, url string
	required  bool
}

func (c Config) endpoints() []endpoint {
	m, manual := c.Metadata, !c.Metadata.IsZero()
	list := []endpoint{
		{"authorization_url", m.AuthorizationURL, manual},
		{"token_url", m.TokenURL, manual},
		{"jwks_url", m.JWKSURL, manual},
		{"user_info_url", m.UserInfoURL, false},
		{"end_session_url", m.EndSessionURL, false},
	}
	if !manual {
		list = append(list, endpoint{"discovery_url", c.DiscoveryURL, false})
	}
	return list
}

// hosts returns the hosts in the operator's configuration, with their ports.
func (c Config) hosts() map[string]bool {
	out := map[string]bool{}
	for _, raw := range []string{c.Issuer, c.DiscoveryURL, c.Metadata.TokenURL, c.Metadata.UserInfoURL, c.Metadata.JWKSURL, c.JWKSURL} {
		if u, err := url.Parse(raw); err == nil && raw != "" {
			out[providerhttp.HostPort(u)] = true
		}
	}
	return out
}

func (c Config) withDefaults() Config {
	c = c.presetDefaults()
	if c.Issuer == "" { // OpenID Connect Discovery 4: the well-known path is below the issuer
		if below, ok := strings.CutSuffix(c.DiscoveryURL, discoveryPath); ok {
			c.Issuer = below
		}
	}
	if c.DiscoveryURL == "" && c.Issuer != "" {
		c.DiscoveryURL = strings.TrimSuffix(c.Issuer, "/") + discoveryPath
	}
	if c.AuthMethod == "" {
		if c.AuthMethod = AuthBasic; c.ClientSecret.IsZero() {
			c.AuthMethod = AuthNone
		}
	}
	if !slices.Contains(c.Scopes, "openid") {
		c.Scopes = append([]string{"openid"}, c.Scopes...)
	}
	if len(c.Decrypt) == 0 {
		c.Decrypt = []string{c.Key}
	}
	if c.ResponseMode == "" {
		c.ResponseMode = "query"
	}
	if c.Level == 0 {
		c.Level = lowest
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	return c
}

// ClaimsParameter is the claims parameter that requests each of the names, from userinfo and the ID token, not as
// essential.
func ClaimsParameter(names []string) json.RawMessage {
	if len(names) == 0 {
		return nil
	}
	each := map[string]any{}
	for _, n := range names {
		each[n] = nil
	}
	raw, err := json.Marshal(map[string]any{"id_token": each, "userinfo": each})
	if err != nil {
		return nil // strings and nil always marshal
	}
	return raw
}

// checkIssuer: OpenID Connect Core 16.15 and Discovery 3, https without query and fragment. Plain http is for a
// provider on this machine.
func checkIssuer(raw string) error {
	u, err := checkURL(raw)
	if err != nil {
		return err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return coded.New("no_query", "an issuer has no query")
	}
	if issuer, found := strings.CutSuffix(strings.TrimSuffix(u.Path, "/"), discoveryPath); found { // Discovery 4
		return coded.Errorf("issuer_is_discovery", "path - - -", "it is the address of the metadata: write the issuer in it, without %s: %s://%s%s", discoveryPath,
			u.Scheme, u.Host, issuer)
	}
	if u.Scheme == "http" && !loopback.Is(u.Hostname()) {
		return coded.New("https", "must be https")
	}
	return nil
}

// checkEndpoint refuses an endpoint without https for a provider that has https.
func checkEndpoint(issuer, raw string) error {
	u, err := checkURL(raw)
	if err != nil {
		return err
	}
	if u.Scheme == "https" {
		return nil
	}
	if from, err := url.Parse(issuer); err != nil || from.Scheme != "http" || !loopback.Is(u.Hostname()) {
		return coded.New("https", "must be https")
	}
	return nil
}

func checkURL(raw string) (*url.URL, error) {
	if len(raw) > maxAddress || !idp.IsText(raw, maxAddress) || strings.ContainsAny(raw, " \\") {
		return nil, coded.New("address", "not an address")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, coded.New("address", "not an address")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, coded.New("https", "must be https")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, coded.New("address", "it names no host")
	case u.User != nil:
		return nil, coded.New("address_user", "it holds a user or password")
	case strings.Contains(raw, "#"):
		return nil, coded.New("no_fragment", "it has a fragment")
	}
	return u, nil
}

// isScope: RFC 6749 3.3.
func isScope(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}
