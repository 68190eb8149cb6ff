package provider

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
)

func init() {
	caddy.RegisterModule(OIDCIDP{})
}

// OIDCIDP signs people in at an OpenID provider. The redirect URI to register there is /oidc/<id>/callback.
type OIDCIDP struct {
	RemoteOptions

	// The provider's issuer identifier, exactly as it writes it. Required.
	Issuer string `json:"issuer,omitempty"`
	// What the provider calls Gatehouse. Required.
	ClientID string `json:"client_id,omitempty"`
	// The secret there. Default: none.
	ClientSecret caddyfileutil.Sensitive `json:"client_secret,omitempty"`
	// How Gatehouse authenticates there: basic, post, private_key_jwt or none. Default: basic with a secret, otherwise
	// none.
	AuthMethod string `json:"auth_method,omitempty"`
	// The key pair of the configuration that signs for private_key_jwt. Default: Gatehouse's own.
	Key string `json:"key,omitempty"`
	// The kid under which the provider knows the key. Default: its thumbprint, as in Gatehouse's own jwks.
	KeyID string `json:"key_id,omitempty"`
	// Key pairs that decrypt ID tokens and user info. Default: the key, if encryption is required; otherwise encrypted
	// answers are refused.
	Decrypt []string `json:"decrypt,omitempty"`
	// The scopes that are requested; openid always is. Default: openid.
	Scopes []string `json:"scopes,omitempty"`
	// The claims parameter, a JSON object. Default: none.
	Claims string `json:"claims,omitempty"`
	// How the answer comes back: query or form_post. Default: query.
	ResponseMode string `json:"response_mode,omitempty"`
	// Other audiences that an ID token may name besides Gatehouse. Default: none.
	Audiences []string `json:"audiences,omitempty"`
	// Authentication levels by acr values. Default: none.
	Levels map[string]caddyfileutil.Count `json:"levels,omitempty"`
	// The addresses of a provider that publishes no metadata. Default: they are discovered.
	Metadata *OIDCMetadata `json:"metadata,omitempty"`
	// How long discovered metadata is used without looking again. Default: as the provider says, otherwise 1h.
	MetadataExpiration caddyfileutil.Duration `json:"metadata_expiration,omitempty"`
	// Whether an ID token that is not encrypted is refused. Default: false.
	IDTokenEncryptionRequired bool `json:"id_token_encryption_required,omitempty"`
	// Whether user info that is not encrypted is refused. Default: false.
	UserInfoEncryptionRequired bool `json:"user_info_encryption_required,omitempty"`
	// Whether the provider may sign people out by a frame: /oidc/<id>/frontchannel-logout. Default: false.
	FrontChannelLogout bool `json:"front_channel_logout,omitempty"`
	// Whether email_verified counts as the string "true" too, as some providers write it. Default: false, only the
	// boolean counts.
	EmailVerifiedStrings bool `json:"email_verified_strings,omitempty"`
	// What moves here from the provider: password, at the first sign-in, which its token endpoint is asked about once.
	// Default: nothing.
	Migrate string `json:"migrate,omitempty"`

	cfg oidc.Config
}

// OIDCMetadata are the addresses of a provider.
type OIDCMetadata struct {
	// Where browsers are sent. Required.
	AuthorizationURL string `json:"authorization_url,omitempty"`
	// The token endpoint. Required.
	TokenURL string `json:"token_url,omitempty"`
	// The user info endpoint. Default: none.
	UserInfoURL string `json:"user_info_url,omitempty"`
	// The keys. Required.
	JWKSURL string `json:"jwks_url,omitempty"`
	// Where browsers are sent after sign-out. Default: none.
	EndSessionURL string `json:"end_session_url,omitempty"`
}

// CaddyModule implements caddy.Module.
func (OIDCIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".oidc", New: func() caddy.Module { return new(OIDCIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> oidc {
//		issuer        <address>
//		client_id     <text>
//		client_secret <secret>
//		auth_method   basic|post|private_key_jwt|none
//		key           <key pair>
//		key_id        <text>
//		decrypt       <key pair>...
//		scopes        <scope>...
//		claims        <JSON>
//		response_mode query|form_post
//		audiences     <client id>...
//		map_level     <acr> <1 to 4>
//		metadata {
//			authorization_url|token_url|user_info_url|jwks_url|end_session_url <address>
//		}
//		metadata_expiration <duration>
//		id_token_encryption_required
//		user_info_encryption_required
//		front_channel_logout
//		email_verified_strings [on|off]
//		migrate       password
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *OIDCIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	m := &OIDCMetadata{}
	err := caddyfileutil.ReadOptions(d, "idp oidc", &reference.OIDC, o.with(caddyfileutil.Subdirectives{
		"issuer":        caddyfileutil.Value(&o.Issuer, nil),
		"client_id":     caddyfileutil.Value(&o.ClientID, nil),
		"client_secret": caddyfileutil.Value(&o.ClientSecret, nil),
		"auth_method":   caddyfileutil.Value(&o.AuthMethod, checkProviderAuth),
		"key":           caddyfileutil.Value(&o.Key, nil),
		"key_id":        caddyfileutil.Value(&o.KeyID, nil),
		"decrypt":       caddyfileutil.Values(&o.Decrypt, nil),
		"scopes":        caddyfileutil.Values(&o.Scopes, nil),
		"claims":        caddyfileutil.Value(&o.Claims, nil),
		"response_mode": caddyfileutil.Value(&o.ResponseMode, nil),
		"audiences":     caddyfileutil.Values(&o.Audiences, nil),
		"map_level":     readLevels(&o.Levels),
		"metadata": caddyfileutil.Block(&reference.OIDCMetadata, caddyfileutil.Subdirectives{
			"authorization_url": caddyfileutil.Value(&m.AuthorizationURL, nil),
			"token_url":         caddyfileutil.Value(&m.TokenURL, nil),
			"user_info_url":     caddyfileutil.Value(&m.UserInfoURL, nil),
			"jwks_url":          caddyfileutil.Value(&m.JWKSURL, nil),
			"end_session_url":   caddyfileutil.Value(&m.EndSessionURL, nil),
		}),
		"metadata_expiration":           caddyfileutil.Value(&o.MetadataExpiration, caddyfileutil.CheckDuration),
		"id_token_encryption_required":  caddyfileutil.Flag(&o.IDTokenEncryptionRequired),
		"user_info_encryption_required": caddyfileutil.Flag(&o.UserInfoEncryptionRequired),
		"front_channel_logout":          caddyfileutil.Flag(&o.FrontChannelLogout),
		"email_verified_strings":        readSwitch(&o.EmailVerifiedStrings),
		"migrate":                       caddyfileutil.Value(&o.Migrate, checkMigrate),
	}))
	if err != nil {
		return err
	}
	if *m != (OIDCMetadata{}) {
		o.Metadata = m
	}
	r := caddyfileutil.NewResolver(nil)
	if o.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp oidc: %w", r.Err()))
	}
	return nil
}

// providerAuth are the ways to authenticate, in the words of the option auth_method of clients and in those of OpenID
// Connect.
var providerAuth = map[string]string{
	"": "", "basic": oidc.AuthBasic, "post": oidc.AuthPost, "private_key_jwt": oidc.AuthPrivateKey, "none": oidc.AuthNone,
	oidc.AuthBasic: oidc.AuthBasic, oidc.AuthPost: oidc.AuthPost,
}

func checkProviderAuth(s string) error {
	if providerAuth[s] == "" {
		return fmt.Errorf("%q is not one of basic, post, private_key_jwt and none", s)
	}
	return nil
}

// Provision resolves the options.
func (o *OIDCIDP) Provision(caddy.Context) error {
	return o.provision(o.build)
}

// build resolves and checks the configuration, unless parts of it are not known yet.
func (o *OIDCIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	o.remote = o.resolve(r, attribute.InOpenID)
	r.Plain("migrate", o.Migrate, checkMigrate)
	o.cfg = oidc.Config{
		Issuer: r.Plain("issuer", o.Issuer, nil), ClientID: r.Plain("client_id", o.ClientID, nil),
		AuthMethod: providerAuth[r.Plain("auth_method", o.AuthMethod, checkProviderAuth)], Key: r.Plain("key", o.Key, nil),
		KeyID:   r.Plain("key_id", o.KeyID, nil),
		Decrypt: r.List("decrypt", o.Decrypt, nil), Scopes: r.List("scopes", o.Scopes, nil),
		ResponseMode: r.Plain("response_mode", o.ResponseMode, nil),
		Audiences:    r.List("audiences", o.Audiences, nil), Levels: levels(r, o.Levels), Level: o.remote.level, Mapping: o.remote.mapping,
		Timeout:            o.remote.timeout,
		MetadataExpiration: r.Duration("metadata_expiration", o.MetadataExpiration), IDTokenEncryptionRequired: o.IDTokenEncryptionRequired,
		UserInfoEncryptionRequired: o.UserInfoEncryptionRequired, FrontChannelLogout: o.FrontChannelLogout,
		EmailVerifiedStrings: o.EmailVerifiedStrings,
		IdentifyBy:           o.remote.identifyBy,
	}
	o.cfg.ClientSecret = secretOf(r, "client_secret", o.ClientSecret)
	if o.Claims != "" {
		// JSON has braces too, so only text that is not JSON is resolved.
		claims := o.Claims
		if json.Valid([]byte(claims)) {
			o.cfg.Claims = json.RawMessage(claims)
		} else if s, ok := r.Text("claims", claims, nil); ok {
			o.cfg.Claims = json.RawMessage(s)
		}
	}
	if m := o.Metadata; m != nil {
		o.cfg.Metadata = oidc.Metadata{
			AuthorizationURL: r.Plain("metadata authorization_url", m.AuthorizationURL, nil),
			TokenURL:         r.Plain("metadata token_url", m.TokenURL, nil),
			UserInfoURL:      r.Plain("metadata user_info_url", m.UserInfoURL, nil), JWKSURL: r.Plain("metadata jwks_url", m.JWKSURL, nil),
			EndSessionURL: r.Plain("metadata end_session_url", m.EndSessionURL, nil),
		}
	}
	if r.ProblemCount() == before && !(r.Adapting() && o.unknown()) {
		r.AddError(oneLine(o.cfg.Validate()))
	}
}

// unknown reports whether a value is only known when the configuration is loaded. The secret is not checked before.
func (o *OIDCIDP) unknown() bool {
	all := append(slices.Concat(o.Decrypt, o.Scopes, o.Audiences), o.Issuer, o.ClientID, o.AuthMethod, o.Key, o.KeyID, o.ResponseMode,
		string(o.Timeout), string(o.MetadataExpiration))
	if m := o.Metadata; m != nil {
		all = append(all, m.AuthorizationURL, m.TokenURL, m.UserInfoURL, m.JWKSURL, m.EndSessionURL)
	}
	for acr := range o.Levels {
		all = append(all, acr)
	}
	if o.Claims != "" && !json.Valid([]byte(o.Claims)) {
		all = append(all, o.Claims)
	}
	return o.RemoteOptions.unknown() || slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

func (o *OIDCIDP) open(env idp.Env) (idp.Provider, error) { return oidc.New(o.cfg, env) }

func (o *OIDCIDP) migrates() bool { return o.Migrate != "" }

func (*OIDCIDP) path() string { return "oidc" }

var (
	_ caddy.Provisioner     = (*OIDCIDP)(nil)
	_ caddyfile.Unmarshaler = (*OIDCIDP)(nil)
	_ remoteIDP             = (*OIDCIDP)(nil)
)
