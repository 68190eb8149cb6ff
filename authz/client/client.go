// Package client defines an OAuth client: its members and their defaults, redirect URIs, scopes, keys, and when it is
// valid. It reads and writes nothing; clients are stored by package clientstore.
package client

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Client is an OAuth client. The JSON form is the one of the configuration and of `client add`.
type Client struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // shown to people. Default: the id
	// Public clients have no secret and must use PKCE.
	Public bool `json:"public,omitempty"`
	// Native is an application on the device of a person: its redirect URIs at a loopback host hold for every port, and
	// can have a private scheme of any form.
	Native bool `json:"native,omitempty"`
	// Secrets are valid all at once, for rotation. Each has at least 32 characters.
	Secrets []secret.String `json:"secrets,omitempty"`
	// SecretHashes are secrets in PHC form (Argon2id, bcrypt) or, for stored clients, "hmac:", the name of a key, ":" and
	// the keyed hash in base64url.
	SecretHashes []string `json:"secret_hashes,omitempty"`
	// AuthMethod is post (default: in the form or as Basic credentials), basic (not in the form), private_key_jwt,
	// tls_client_auth, self_signed_tls_client_auth or workload.
	AuthMethod string `json:"auth_method,omitempty"`
	// CertificateSubject is the subject of the certificates of tls_client_auth.
	CertificateSubject     *certificate.Subject `json:"certificate_subject,omitempty"`
	JWKS                   *jwa.KeySet          `json:"jwks,omitempty"`     // its public keys, or certificates
	JWKSURI                string               `json:"jwks_uri,omitempty"` // or their address
	RedirectURIs           []string             `json:"redirect_uris,omitempty"`
	PostLogoutRedirectURIs []string             `json:"post_logout_redirect_uris,omitempty"`
	// BackchannelLogoutURI gets a logout token when a session ends.
	BackchannelLogoutURI string `json:"backchannel_logout_uri,omitempty"`
	// FrontchannelLogoutURI is loaded in a frame after a sign-out.
	FrontchannelLogoutURI string `json:"frontchannel_logout_uri,omitempty"`
	// InitiateLoginURI begins a sign-in at the client. (OpenID Connect Core 4)
	InitiateLoginURI string `json:"initiate_login_uri,omitempty"`
	// Grants are some of grantNames.
	Grants        []string `json:"grants,omitempty"`
	Scopes        []string `json:"scopes,omitempty"`
	DefaultScopes []string `json:"default_scopes,omitempty"` // Default: the only scope of a client that has one
	IDPs          []string `json:"idps,omitempty"`           // Default: identity
	// Groups are the groups that admit people: a person must be in one of them. Empty: any person.
	Groups       []string `json:"groups,omitempty"`
	Consent      string   `json:"consent,omitempty"` // on (default: remembered), off, always
	PKCERequired bool     `json:"pkce_required,omitempty"`
	PARRequired  bool     `json:"par_required,omitempty"` // its authorization requests are pushed (RFC 9126)
	// FAPI2 holds the client to the FAPI 2.0 Security Profile.
	FAPI2 bool `json:"fapi2,omitempty"`
	// MTLSRequired binds its access tokens to the certificate of the connection (RFC 8705 3).
	MTLSRequired bool `json:"mtls_required,omitempty"`
	DPoPRequired bool `json:"dpop_required,omitempty"` // its access tokens are bound to keys (RFC 9449)
	// SignedRequestRequired says that its authorization requests are signed (RFC 9101).
	SignedRequestRequired bool `json:"require_signed_request_object,omitempty"`
	// RequestAlg is the only algorithm accepted for those signatures. Default: any of AssertionAlgorithms
	RequestAlg string `json:"request_object_signing_alg,omitempty"`
	IDTokenAlg string `json:"id_token_alg,omitempty"` // one of SignatureAlgorithms. Default: RS256
	// TokenAlg signs its access tokens that are JWTs. Default: IDTokenAlg if that is given and not ML-DSA, or ES256
	TokenAlg string `json:"token_alg,omitempty"`
	// IDTokenEncAlg and IDTokenEnc encrypt its ID tokens for a key of it. Default: not encrypted; A256GCM
	IDTokenEncAlg string `json:"id_token_encrypted_response_alg,omitempty"`
	IDTokenEnc    string `json:"id_token_encrypted_response_enc,omitempty"`
	// UserinfoAlg signs its answers of userinfo, UserinfoEncAlg and UserinfoEnc encrypt them. Default: neither; A256GCM
	UserinfoAlg    string `json:"userinfo_signed_response_alg,omitempty"`
	UserinfoEncAlg string `json:"userinfo_encrypted_response_alg,omitempty"`
	UserinfoEnc    string `json:"userinfo_encrypted_response_enc,omitempty"`
	// ResponseAlg signs its authorization responses, if it asks for that: RS256 (default), ES256, EdDSA
	ResponseAlg string `json:"authorization_signed_response_alg,omitempty"`
	// AccessTokenAlg is TokenAlg or its default. The registry sets it. (docs/decisions/tokens.md#jwt-signatures)
	AccessTokenAlg string `json:"-"`
	// IDTokenClaims puts the claims of the scopes into the ID token too, for libraries that do not call userinfo.
	IDTokenClaims bool   `json:"id_token_claims,omitempty"`
	SubjectType   string `json:"subject_type,omitempty"` // public (default), pairwise
	TokenFormat   string `json:"token_format,omitempty"` // opaque (default), jwt
	App           *App   `json:"app,omitempty"`          // of a mobile app instance
	// PasswordOnly lets the password grant sign in people who have set up a second factor, without it.
	PasswordOnly bool `json:"password_only,omitempty"`
	// SecondFactor says when its sign-ins need a second step: when_set_up, always, on_demand. Default: as the settings
	// say
	SecondFactor string `json:"second_factor,omitempty"`
	// Audiences are the resources that it can ask tokens for (RFC 8707). Default: Sites
	Audiences []string `json:"audiences,omitempty"`
	// DetailTypes are the types of authorization details that it can ask for (RFC 9396).
	DetailTypes []string `json:"authorization_details_types,omitempty"`
	// Exchange says which tokens it can exchange for others (RFC 8693).
	Exchange *Exchange `json:"exchange,omitempty"`
	// Document is set for a client that no operator has registered. The registry sets it.
	Document *Document `json:"-"`
	// Sites are the resources of the sites of the configuration. The registry sets them.
	Sites []string `json:"-"`
	// Origins are CORS origins besides those of its https redirect URIs.
	Origins  []string `json:"origins,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
	// Plan is the name of the plan of its limits. Default: that of the person's groups, or the default plan
	Plan string `json:"plan,omitempty"`
	// Contact is the e-mail address of its owner, who is told when a quota is nearly used up. Default: no one is
	Contact string `json:"contact,omitempty"`
	// MaxSessions is the maximum number of live grants of one person; the oldest goes. Default: 25.
	MaxSessions int       `json:"max_sessions,omitempty"`
	Lifetimes   Lifetimes `json:"lifetimes,omitzero"`
}

// Document describes the origin of a client that no operator has registered.
type Document struct {
	// Host is the host of its metadata document. Empty: it has registered itself.
	Host string
	// Registered says that it has registered itself, and has no document.
	Registered bool
	// Trusted says that the operator knows the host.
	Trusted bool
	// Schemes are private schemes that its redirect URIs can have although they are not a reversed domain name.
	Schemes []string
	// Print is a fingerprint of the client as people see it on the consent page.
	Print string
	// JSON is its stored form.
	JSON []byte
}

// App is the mobile app that a client is an instance of. (token server document, "Introspection response":
// app_identifier and so on)
type App struct {
	Identifier string `json:"identifier"`
	Platform   string `json:"platform"`
	Version    string `json:"version"`
}

// Lifetimes of the codes and tokens of a client. Zero means the default.
type Lifetimes struct {
	Code         time.Duration `json:"code,omitempty"`          // Default: 30s
	AccessToken  time.Duration `json:"access_token,omitempty"`  // Default: 15m
	RefreshToken time.Duration `json:"refresh_token,omitempty"` // of one refresh token. Default: 30d
	RefreshChain time.Duration `json:"refresh_chain,omitempty"` // of the whole rotation chain. Default: 90d
	// RefreshGrace is the time during which a spent refresh token gets the same answer. Default: 10s.
	RefreshGrace time.Duration `json:"refresh_grace,omitempty"`
	// Session is the oldest sign-in that the client accepts. Default: any.
	Session time.Duration `json:"session,omitempty"`
}

// APIClient holds Basic credentials of the APIs. It is not an OAuth client.
type APIClient struct {
	ID           string          `json:"id"`
	Secrets      []secret.String `json:"secrets,omitempty"`
	SecretHashes []string        `json:"secret_hashes,omitempty"`
	// APIs are some of introspection, configuration, credentials, events, persons, policies, access, access_decisions,
	// statistics, storage, sessions, assurance, administrators.
	APIs      []string `json:"apis,omitempty"`
	Audiences []string `json:"audiences,omitempty"` // introspects only tokens for these. Default: all
	// IntrospectionAlg signs the answers of introspection that are JWTs. Default: RS256
	IntrospectionAlg string `json:"introspection_signed_response_alg,omitempty"`
	// Partitions are the partitions of persons that it is limited to. Default: all
	Partitions []string `json:"partitions,omitempty"`
	// Organisation is the id of the organisation that it belongs to, or * for none. Default: the one that names it
	Organisation string `json:"organisation,omitempty"`
	// MaxLevel is the highest level of the LOGIN tokens that it makes. Default: 2
	MaxLevel int  `json:"max_level,omitempty"`
	Disabled bool `json:"disabled,omitempty"`
	// CertificateSubject is the subject of its certificate, by which it authenticates at the introspection endpoint.
	CertificateSubject *certificate.Subject `json:"certificate_subject,omitempty"`
}

// HasScope reports whether the client can ask for a scope.
func (c *Client) HasScope(name string) bool {
	return slices.Contains(c.Scopes, name) || (name == ScopeOffline && c.HasGrant(GrantRefreshToken))
}

// HasGrant reports whether the client is allowed a grant. The implicit grant, which gives access tokens, also allows ID
// tokens.
func (c *Client) HasGrant(name string) bool {
	return slices.Contains(c.Grants, name) || (name == GrantIDToken && slices.Contains(c.Grants, GrantImplicit))
}

// StillAllowed returns the scopes that the client is still allowed. A scope that was taken from a client also
// disappears from its earlier tokens.
func (c *Client) StillAllowed(scope []string) []string {
	if !slices.ContainsFunc(scope, func(name string) bool { return !c.HasScope(name) }) {
		return scope
	}
	return slices.DeleteFunc(slices.Clone(scope), func(name string) bool { return !c.HasScope(name) })
}

// AsksConsent reports whether people are asked for consent before the client gets their data.
func (c *Client) AsksConsent() bool { return c.Consent != "off" }

// Admits reports whether a person of these groups can use the client.
func (c *Client) Admits(groups []string) bool {
	return len(c.Groups) == 0 || slices.ContainsFunc(c.Groups, func(g string) bool { return slices.Contains(groups, g) })
}

// HearsOfLogout reports whether the client is notified when sessions end.
func (c *Client) HearsOfLogout() bool {
	return c.BackchannelLogoutURI != "" || c.FrontchannelLogoutURI != ""
}
