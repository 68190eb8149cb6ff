// Package client reads clients as operators write them, in JSON and in the Caddyfile, and turns them into clients of
// authz.
package client

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Client is an OAuth client.
type Client struct {
	// The client_id. Required.
	ID string `json:"id"`
	// The name that people see. Default: the id.
	Name string `json:"name,omitempty"`
	// Whether the client cannot keep a secret: a single-page or mobile application. It must use PKCE. Default: false.
	Public bool `json:"public,omitempty"`
	// Whether the client is an application on people's devices: its redirect URIs at a loopback host hold for every
	// port, and can have a private scheme of any form. Default: false.
	Native bool `json:"native,omitempty"`
	// Secrets of at least 32 characters, all valid at once, so they can be rotated. Default: none.
	Secrets []caddyfileutil.Sensitive `json:"secrets,omitempty"`
	// Secrets as Argon2id or bcrypt PHC strings. Default: none.
	SecretHashes []caddyfileutil.Sensitive `json:"secret_hashes,omitempty"`
	// How the client authenticates: post (its secret in the form, or as Basic credentials), basic (not in the form),
	// private_key_jwt or self_signed_tls_client_auth, which need jwks and no secret, tls_client_auth, which needs
	// certificate_subject, or workload, by the tokens of a trusted issuer. Default: post.
	AuthMethod string `json:"auth_method,omitempty"`
	// The subject of the certificates of tls_client_auth: one of subject_dn, san_dns, san_uri, san_ip, san_email.
	// Default: none.
	CertificateSubject *Subject `json:"certificate_subject,omitempty"`
	// A file or a URL with its public keys (JSON Web Key Set), for private_key_jwt, self_signed_tls_client_auth,
	// signed requests and encryption. A file is read when the configuration is loaded, a URL when it is needed.
	// Default: none.
	JWKS string `json:"jwks,omitempty"`
	// Where the browser may be sent after authorization; compared exactly. Default: none.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	// Where the browser may be sent after sign-out; compared exactly, except that https://app.example.com and
	// https://app.example.com/ are the same. Default: none.
	PostLogoutRedirectURIs []string `json:"post_logout_redirect_uris,omitempty"`
	// Where a logout token is sent when a session that the client knows has ended. Default: none.
	BackchannelLogoutURI string `json:"backchannel_logout_uri,omitempty"`
	// The address that the page after a sign-out loads in a frame; its scheme, host and port are those of a redirect URI.
	// Default: none.
	FrontchannelLogoutURI string `json:"frontchannel_logout_uri,omitempty"`
	// The address to which the account page leads to start a sign-in at the client. Scheme, host and port are those of a
	// redirect URI. Default: none.
	InitiateLoginURI string `json:"initiate_login_uri,omitempty"`
	// The grants that the client may use: authorization_code, refresh_token, client_credentials, device_code (for devices
	// without a browser), jwt_bearer (for workloads of a trusted issuer), token_exchange, id_token (which signs people in
	// by an ID token alone), and the deprecated implicit, password and validate_bearer. Default: none.
	Grants []string `json:"grants,omitempty"`
	// The scopes it may ask for. Default: none.
	Scopes []string `json:"scopes,omitempty"`
	// The scopes it gets when it asks for none; each must be among scopes. Default: the only one of a client that has
	// one scope, otherwise none.
	DefaultScopes []string `json:"default_scopes,omitempty"`
	// The identity providers it may use, the first is the default: identity, and those of idps. Default: identity.
	IDPs []string `json:"idps,omitempty"`
	// The groups that may use the client: a person must be in one of them. Default: everyone may use it.
	Groups []string `json:"groups,omitempty"`
	// Whether people are asked: on (asked once and remembered), off, or always. Default: on.
	Consent string `json:"consent,omitempty"`
	// Whether this confidential client must use PKCE; public ones always must. Default: false.
	PKCERequired bool `json:"pkce_required,omitempty"`
	// Whether it must push its authorization requests (RFC 9126). Default: false.
	PARRequired bool `json:"par_required,omitempty"`
	// Whether it must sign its authorization requests (RFC 9101) by a key of jwks. Default: false.
	SignedRequestRequired bool `json:"require_signed_request_object,omitempty"`
	// The only algorithm that it signs them with: RS256, PS256, ES256 or EdDSA. Default: any of these.
	RequestAlg string `json:"request_object_signing_alg,omitempty"`
	// Whether the FAPI 2.0 Security Profile applies to the client: pushed requests, PKCE, tokens that are bound to a key
	// or certificate, no RS256. Default: false.
	FAPI2 bool `json:"fapi2,omitempty"`
	// Whether its access tokens are bound to the certificate of the connection (RFC 8705). Default: false.
	MTLSRequired bool `json:"mtls_required,omitempty"`
	// Whether its access tokens must be bound to a key, by DPoP (RFC 9449). Default: false.
	DPoPRequired bool `json:"dpop_required,omitempty"`
	// Whether the grant password signs in people who have set up a second factor, without asking for it. Default: false.
	PasswordOnly bool `json:"password_only,omitempty"`
	// When its sign-ins need a second step: when_set_up, always or on_demand. Default: as the settings say.
	SecondFactor string `json:"second_factor,omitempty"`
	// The signature of its ID tokens: RS256, ES256, EdDSA, ML-DSA-44, ML-DSA-65 or ML-DSA-87. Default: RS256.
	IDTokenAlg string `json:"id_token_alg,omitempty"`
	// The signature of its access tokens that are JWTs, one of the same. Default: that of its ID tokens if it is given
	// and not ML-DSA, otherwise ES256.
	TokenAlg string `json:"token_alg,omitempty"`
	// How its ID tokens are encrypted for a key of jwks: RSA-OAEP-256, ECDH-ES or ECDH-ES+A256KW. Default: not at all.
	IDTokenEncAlg string `json:"id_token_encrypted_response_alg,omitempty"`
	// The encryption of their content: A256GCM or A128CBC-HS256. Default: A256GCM.
	IDTokenEnc string `json:"id_token_encrypted_response_enc,omitempty"`
	// The signature of userinfo answers to it, one of the same. Default: none, they are JSON.
	UserinfoAlg string `json:"userinfo_signed_response_alg,omitempty"`
	// How they are encrypted, as for its ID tokens. Default: not at all.
	UserinfoEncAlg string `json:"userinfo_encrypted_response_alg,omitempty"`
	// The encryption of their content. Default: A256GCM.
	UserinfoEnc string `json:"userinfo_encrypted_response_enc,omitempty"`
	// The signature of its authorization responses, where it asks for signed ones: RS256, ES256 or EdDSA. Default:
	// RS256.
	ResponseAlg string `json:"authorization_signed_response_alg,omitempty"`
	// Whether the claims of the scopes are in its ID tokens too, not only at the userinfo endpoint, for libraries that do
	// not call that. Default: false.
	IDTokenClaims bool `json:"id_token_claims,omitempty"`
	// The form of its access tokens: opaque, or jwt (RFC 9068), signed with token_alg. Default: opaque.
	TokenFormat string `json:"token_format,omitempty"`
	// The identifier by which the client knows a person: public, the same for all, or pairwise, one for each host of
	// redirect URIs. Default: public.
	SubjectType string `json:"subject_type,omitempty"`
	// The mobile app that it is an instance of. Default: none.
	App *MobileApp `json:"app,omitempty"`
	// The resources (RFC 8707) that it may ask tokens for. Default: none.
	Audiences []string `json:"audiences,omitempty"`
	// The types of authorization details (RFC 9396) that it may ask for. Default: none.
	DetailTypes []string `json:"authorization_details_types,omitempty"`
	// Which tokens it may exchange for others (RFC 8693). Default: none.
	Exchange *Exchange `json:"exchange,omitempty"`
	// Origins of web pages that may call the token endpoint, besides those of its redirect URIs. Default: none.
	Origins []string `json:"origins,omitempty"`
	// How many sign-ins of one person the client may hold at once; the oldest is dropped. Default: 25.
	MaxSessions caddyfileutil.Count `json:"max_sessions,omitempty"`
	// The plan of the client's limits. Default: that of the person's groups, or the default plan.
	Plan string `json:"plan,omitempty"`
	// The e-mail address of its owner, who is told when 80 and 100 percent of a quota are used. Default: no one is told.
	Contact string `json:"contact,omitempty"`
	// Whether the client is switched off: none of its requests and tokens is accepted. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// How long its codes and tokens are valid.
	Lifetimes Lifetimes `json:"lifetimes,omitzero"`

	// A file with a PNG, JPEG or GIF picture of at most 64 KiB, shown next to the name where people sign in and
	// consent. Default: none.
	Logo string `json:"logo,omitempty"`

	token caddyfile.Token // its place in a Caddyfile
	logo  []byte          // of Logo
}

// Exchange says which tokens a client may exchange for others.
type Exchange struct {
	// The clients whose tokens it may exchange, besides its own. Default: none.
	From []string `json:"from,omitempty"`
	// The audiences of the tokens that it gets for them. Required, unless there is id_jag or txn_token.
	To []string `json:"to,omitempty"`
	// The other authorization servers for which it gets identity assertions. Default: none.
	IDJAG []IDJAG `json:"id_jag,omitempty"`
	// The trust domains for which it gets transaction tokens (experimental). Default: none.
	Domains []string `json:"txn_token,omitempty"`
}

// IDJAG is another authorization server, which accepts identity assertions about people.
type IDJAG struct {
	// Its issuer. Required.
	Issuer string `json:"issuer"`
	// The client_id of the client there. Required.
	ClientID string `json:"client_id"`
	// The scopes that the client may ask for there. Default: none.
	Scopes []string `json:"scopes,omitempty"`
}

// MobileApp is the mobile app that a client is an instance of. Introspection and validation return it.
type MobileApp struct {
	// The identifier of the app, such as com.example.app. Required.
	Identifier string `json:"identifier"`
	// The platform that it runs on, such as android. Required.
	Platform string `json:"platform"`
	// Its version. Required.
	Version string `json:"version"`
}

// Lifetimes of the codes and tokens of a client.
type Lifetimes struct {
	// Of an authorization code. Default: 30s.
	Code caddyfileutil.Duration `json:"code,omitempty"`
	// Of an access token. Default: 15m.
	AccessToken caddyfileutil.Duration `json:"access_token,omitempty"`
	// Of one refresh token. Default: 30d.
	RefreshToken caddyfileutil.Duration `json:"refresh_token,omitempty"`
	// Of the whole rotation chain of refresh tokens. Default: 90d.
	RefreshChain caddyfileutil.Duration `json:"refresh_chain,omitempty"`
	// How long a spent refresh token is answered with the same successor. Default: 10s.
	RefreshGrace caddyfileutil.Duration `json:"refresh_grace,omitempty"`
	// The oldest sign-in that the client accepts. Default: any.
	Session caddyfileutil.Duration `json:"session,omitempty"`
}

// APIClient holds Basic credentials of the APIs. It is not an OAuth client.
type APIClient struct {
	// The username. Required.
	ID string `json:"id"`
	// Secrets of at least 32 characters, all valid at once. Default: none.
	Secrets []caddyfileutil.Sensitive `json:"secrets,omitempty"`
	// Secrets as Argon2id or bcrypt PHC strings. Default: none.
	SecretHashes []caddyfileutil.Sensitive `json:"secret_hashes,omitempty"`
	// The APIs it may use: introspection, configuration, credentials, events, persons, policies, access,
	// access_decisions, statistics, storage, sessions, assurance, administrators. Default: none.
	APIs []string `json:"apis,omitempty"`
	// It introspects only tokens for these resources (RFC 8707). Default: all.
	Audiences []string `json:"audiences,omitempty"`
	// The signature of introspection answers, where it asks for signed ones: RS256, ES256, EdDSA, ML-DSA-44, ML-DSA-65
	// or ML-DSA-87. Default: RS256.
	IntrospectionAlg string `json:"introspection_signed_response_alg,omitempty"`
	// The partitions that it is limited to, of those of identity. Default: all.
	Partitions []string `json:"partitions,omitempty"`
	// The id of the organisation that it belongs to, or * for none. Default: the one whose username_for_basic_auth it
	// is, or was.
	Organisation string `json:"organisation,omitempty"`
	// The highest authentication level, 1 to 4, of the LOGIN tokens that it makes for people. Default: 2.
	MaxLevel caddyfileutil.Count `json:"max_level,omitempty"`
	// Whether the credentials are switched off. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// The subject of its certificate, by which it authenticates at the introspection endpoint. Default: none.
	CertificateSubject *Subject `json:"certificate_subject,omitempty"`

	token caddyfile.Token // its place in a Caddyfile
}

// ErrorAt adds the place in the Caddyfile to an error about the client. A client of JSON has none.
func (c *Client) ErrorAt(err error) error {
	if c.token.File == "" {
		return err
	}
	return caddyfileutil.At(c.token, err)
}

// Picture returns the content of the file Logo, once the client is resolved. nil: none.
func (c *Client) Picture() []byte { return c.logo }
