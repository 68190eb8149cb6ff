package provider

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oauth2"
)

func init() {
	caddy.RegisterModule(OAuth2IDP{})
	caddy.RegisterModule(DiscordIDP{})
	caddy.RegisterModule(FacebookIDP{})
	caddy.RegisterModule(GitHubIDP{})
	caddy.RegisterModule(LinkedInIDP{})
	caddy.RegisterModule(TwitterIDP{})
}

// OAuth2IDP signs people in at a provider that speaks OAuth 2.0 without OpenID Connect. The redirect URI to register
// there is /oidc/<id>/callback.
type OAuth2IDP struct {
	RemoteOptions

	// What the provider calls Gatehouse. Required.
	ClientID string `json:"client_id,omitempty"`
	// The secret there. Required.
	ClientSecret caddyfileutil.Sensitive `json:"client_secret,omitempty"`
	// How Gatehouse authenticates there: basic or post. Default: that of the preset, otherwise post.
	AuthMethod string `json:"auth_method,omitempty"`
	// The scopes that are requested. Default: those of the preset.
	Scopes []string `json:"scopes,omitempty"`
	// Where browsers are sent. Default: that of the preset.
	AuthorizationURL string `json:"authorization_url,omitempty"`
	// The token endpoint. Default: that of the preset.
	TokenURL string `json:"token_url,omitempty"`
	// Where the profile of the person is, as JSON. Default: that of the preset.
	ProfileURL string `json:"profile_url,omitempty"`
	// Where the addresses of a person at GitHub are. Default: that of the preset.
	EmailsURL string `json:"emails_url,omitempty"`
	// The member of the profile that identifies a person for good. Default: that of the preset.
	Subject string `json:"subject,omitempty"`
	// The member with the e-mail address. Default: that of the preset.
	Email string `json:"email,omitempty"`
	// The member that is true if the address is verified. Default: that of the preset.
	EmailVerified string `json:"email_verified,omitempty"`

	preset string
	cfg    oauth2.Config
}

// DiscordIDP signs people in at Discord.
type DiscordIDP struct{ OAuth2IDP }

// FacebookIDP signs people in at Facebook.
type FacebookIDP struct{ OAuth2IDP }

// GitHubIDP signs people in at GitHub.
type GitHubIDP struct{ OAuth2IDP }

// LinkedInIDP signs people in at LinkedIn.
type LinkedInIDP struct{ OAuth2IDP }

// TwitterIDP signs people in at X.
type TwitterIDP struct{ OAuth2IDP }

// CaddyModule implements caddy.Module.
func (OAuth2IDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".oauth2", New: func() caddy.Module { return new(OAuth2IDP) }}
}

// CaddyModule implements caddy.Module.
func (DiscordIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  Namespace + "." + oauth2.Discord,
		New: func() caddy.Module { return &DiscordIDP{OAuth2IDP{preset: oauth2.Discord}} },
	}
}

// CaddyModule implements caddy.Module.
func (FacebookIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  Namespace + "." + oauth2.Facebook,
		New: func() caddy.Module { return &FacebookIDP{OAuth2IDP{preset: oauth2.Facebook}} },
	}
}

// CaddyModule implements caddy.Module.
func (GitHubIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  Namespace + "." + oauth2.GitHub,
		New: func() caddy.Module { return &GitHubIDP{OAuth2IDP{preset: oauth2.GitHub}} },
	}
}

// CaddyModule implements caddy.Module.
func (LinkedInIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  Namespace + "." + oauth2.LinkedIn,
		New: func() caddy.Module { return &LinkedInIDP{OAuth2IDP{preset: oauth2.LinkedIn}} },
	}
}

// CaddyModule implements caddy.Module.
func (TwitterIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  Namespace + "." + oauth2.Twitter,
		New: func() caddy.Module { return &TwitterIDP{OAuth2IDP{preset: oauth2.Twitter}} },
	}
}

// UnmarshalCaddyfile reads
//
//	idp <id> oauth2|discord|facebook|github|linkedin|twitter {
//		client_id         <text>
//		client_secret     <secret>
//		auth_method       basic|post
//		scopes            <scope>...
//		authorization_url <address>
//		token_url         <address>
//		profile_url       <address>
//		emails_url        <address>
//		subject           <member>
//		email             <member>
//		email_verified    <member>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *OAuth2IDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start, kind, block := d.Token(), "oauth2", &reference.OAuth2
	if o.preset != "" {
		kind, block = o.preset, &reference.OAuth2Preset
	}
	own := caddyfileutil.Subdirectives{
		"client_id":         caddyfileutil.Value(&o.ClientID, nil),
		"client_secret":     caddyfileutil.Value(&o.ClientSecret, nil),
		"scopes":            caddyfileutil.Values(&o.Scopes, nil),
		"authorization_url": caddyfileutil.Value(&o.AuthorizationURL, nil),
		"token_url":         caddyfileutil.Value(&o.TokenURL, nil),
		"profile_url":       caddyfileutil.Value(&o.ProfileURL, nil),
	}
	if o.preset != "" {
		own["emails_url"] = caddyfileutil.Value(&o.EmailsURL, nil)
	} else {
		own["auth_method"] = caddyfileutil.Value(&o.AuthMethod, checkCodeAuth)
		own["subject"] = caddyfileutil.Value(&o.Subject, nil)
		own["email"] = caddyfileutil.Value(&o.Email, nil)
		own["email_verified"] = caddyfileutil.Value(&o.EmailVerified, nil)
	}
	if err := caddyfileutil.ReadOptions(d, "idp "+kind, block, o.with(own)); err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if o.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp %s: %w", kind, r.Err()))
	}
	return nil
}

var checkCodeAuth = caddyfileutil.OneOf("basic", "post")

// Provision resolves the options.
func (o *OAuth2IDP) Provision(caddy.Context) error {
	return o.provision(o.build)
}

// build resolves and checks the configuration, unless parts of it are not known yet.
func (o *OAuth2IDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	o.remote = o.resolve(r, attribute.InOpenID)
	o.cfg = oauth2.Config{
		Preset: o.preset, ClientID: r.Plain("client_id", o.ClientID, nil), Scopes: r.List("scopes", o.Scopes, nil),
		AuthMethod:       providerAuth[r.Plain("auth_method", o.AuthMethod, checkCodeAuth)],
		AuthorizationURL: r.Plain("authorization_url", o.AuthorizationURL, nil), TokenURL: r.Plain("token_url", o.TokenURL, nil),
		ProfileURL: r.Plain("profile_url", o.ProfileURL, nil), EmailsURL: r.Plain("emails_url", o.EmailsURL, nil),
		Subject: r.Plain("subject", o.Subject, nil), Email: r.Plain("email", o.Email, nil),
		EmailVerified: r.Plain("email_verified", o.EmailVerified, nil),
		Level:         o.remote.level, Mapping: o.remote.mapping, IdentifyBy: o.remote.identifyBy, Timeout: o.remote.timeout,
	}
	if o.preset == "" {
		o.cfg.Issuer = o.cfg.AuthorizationURL
	}
	o.cfg.ClientSecret = secretOf(r, "client_secret", o.ClientSecret)
	if r.ProblemCount() == before && !(r.Adapting() && o.unknown()) {
		r.AddError(oneLine(o.cfg.Validate()))
	}
}

// unknown reports whether a value is only known when the configuration is loaded. The secret is not checked before.
func (o *OAuth2IDP) unknown() bool {
	all := append(slices.Clone(o.Scopes), o.ClientID, o.AuthMethod, o.AuthorizationURL, o.TokenURL, o.ProfileURL, o.EmailsURL, o.Subject,
		o.Email, o.EmailVerified, string(o.Timeout))
	return o.RemoteOptions.unknown() || slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

func (o *OAuth2IDP) open(env idp.Env) (idp.Provider, error) { return oauth2.New(o.cfg, env) }

// path is that of OpenID providers: the addresses are one and the same.
func (*OAuth2IDP) path() string { return "oidc" }

var (
	_ caddy.Provisioner     = (*OAuth2IDP)(nil)
	_ caddyfile.Unmarshaler = (*OAuth2IDP)(nil)
	_ remoteIDP             = (*OAuth2IDP)(nil)
)
