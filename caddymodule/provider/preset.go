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
	"github.com/gatehouse-id/gatehouse/idp/oidc"
)

func init() {
	caddy.RegisterModule(AzureADB2CIDP{})
	caddy.RegisterModule(GoogleIDP{})
	caddy.RegisterModule(MicrosoftIDP{})
}

// OIDCPreset are the options that OpenID providers with rules of their own share. The redirect URI to register there is
// /oidc/<id>/callback.
type OIDCPreset struct {
	RemoteOptions

	// What the provider calls Gatehouse. Required.
	ClientID string `json:"client_id,omitempty"`
	// The secret there. Required.
	ClientSecret caddyfileutil.Sensitive `json:"client_secret,omitempty"`
	// The scopes that are requested. Default: those for profile and address.
	Scopes []string `json:"scopes,omitempty"`
	// Whether the provider asks which account is meant. Default: false, it decides.
	SelectAccount bool `json:"select_account,omitempty"`
	// The provider's address. Default: the known one.
	Issuer string `json:"issuer,omitempty"`

	cfg oidc.Config
}

// GoogleIDP signs people in at Google.
type GoogleIDP struct {
	OIDCPreset

	// The domains of Google Workspace whose people can sign in. Default: everybody with an account.
	HostedDomains []string `json:"hosted_domains,omitempty"`
}

// MicrosoftIDP signs people in at Microsoft Entra, and with personal accounts of Microsoft.
type MicrosoftIDP struct {
	OIDCPreset

	// Whose people can sign in: common, organizations, consumers, or the id of a tenant. Default: common.
	Tenant string `json:"tenant,omitempty"`
	// The ids of the tenants whose people can sign in, where tenant is of several. Default: all.
	Tenants []string `json:"tenants,omitempty"`
	// Whether Microsoft may sign people out by a frame: /oidc/<id>/frontchannel-logout. Default: false.
	FrontChannelLogout bool `json:"front_channel_logout,omitempty"`
}

// AzureADB2CIDP signs people in at a directory of Azure AD B2C.
type AzureADB2CIDP struct {
	OIDCPreset

	// The name of the directory before .onmicrosoft.com. Required.
	Tenant string `json:"tenant,omitempty"`
	// The user flow or custom policy. Required.
	Policy string `json:"policy,omitempty"`
	// Where addresses have the policy: path or query. Default: path.
	PolicyIn string `json:"policy_in,omitempty"`
	// Whether the provider may sign people out by a frame: /oidc/<id>/frontchannel-logout. Default: false.
	FrontChannelLogout bool `json:"front_channel_logout,omitempty"`
}

// CaddyModule implements caddy.Module.
func (AzureADB2CIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + "." + oidc.AzureADB2C, New: func() caddy.Module { return new(AzureADB2CIDP) }}
}

// CaddyModule implements caddy.Module.
func (GoogleIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + "." + oidc.Google, New: func() caddy.Module { return new(GoogleIDP) }}
}

// CaddyModule implements caddy.Module.
func (MicrosoftIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + "." + oidc.Microsoft, New: func() caddy.Module { return new(MicrosoftIDP) }}
}

// read reads the block of a preset: own are the options that it has alone, build checks them.
func (o *OIDCPreset) read(d *caddyfile.Dispenser, kind string, block *reference.Block, own caddyfileutil.Subdirectives,
	build func(*caddyfileutil.Resolver),
) error {
	d.Next()
	start := d.Token()
	own["client_id"], own["scopes"] = caddyfileutil.Value(&o.ClientID, nil), caddyfileutil.Values(&o.Scopes, nil)
	own["issuer"] = caddyfileutil.Value(&o.Issuer, nil)
	switch kind {
	case oidc.Apple, oidc.Itsme: // our key authenticates us
	case oidc.AzureADB2C: // which knows no such prompt
		own["client_secret"] = caddyfileutil.Value(&o.ClientSecret, nil)
	default:
		own["client_secret"], own["select_account"] = caddyfileutil.Value(&o.ClientSecret, nil), caddyfileutil.Flag(&o.SelectAccount)
	}
	if err := caddyfileutil.ReadOptions(d, "idp "+kind, block, o.with(own)); err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp %s: %w", kind, r.Err()))
	}
	return nil
}

// resolvePreset resolves the shared options.
func (o *OIDCPreset) resolvePreset(r *caddyfileutil.Resolver, kind string) oidc.Config {
	o.remote = o.resolve(r, attribute.InOpenID)
	return oidc.Config{
		Preset: kind, ClientID: r.Plain("client_id", o.ClientID, nil), ClientSecret: secretOf(r, "client_secret", o.ClientSecret),
		Scopes: r.List("scopes", o.Scopes, nil), SelectAccount: o.SelectAccount, Issuer: r.Plain("issuer", o.Issuer, nil),
		Level: o.remote.level, Mapping: o.remote.mapping, IdentifyBy: o.remote.identifyBy, Timeout: o.remote.timeout,
	}
}

// settle checks the configuration, unless parts of it are not known yet. before is how many problems there were.
func (o *OIDCPreset) settle(r *caddyfileutil.Resolver, before int, cfg oidc.Config, others ...string) {
	o.cfg = cfg
	all := append(slices.Concat(o.Scopes, others), o.ClientID, o.Issuer, string(o.Timeout))
	if r.ProblemCount() == before && !(r.Adapting() && (o.unknown() || slices.ContainsFunc(all, caddyfileutil.HasPlaceholder))) {
		r.AddError(oneLine(o.cfg.Validate()))
	}
}

func (o *OIDCPreset) open(env idp.Env) (idp.Provider, error) { return oidc.New(o.cfg, env) }

func (*OIDCPreset) path() string { return "oidc" }

// UnmarshalCaddyfile reads
//
//	idp <id> google {
//		client_id      <text>
//		client_secret  <secret>
//		hosted_domain  <domain>...
//		select_account
//		scopes         <scope>...
//		issuer         <address>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *GoogleIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return o.read(d, oidc.Google, &reference.Google, caddyfileutil.Subdirectives{"hosted_domain": caddyfileutil.Values(&o.HostedDomains, nil)},
		o.build)
}

// Provision resolves the options.
func (o *GoogleIDP) Provision(caddy.Context) error { return o.provision(o.build) }

func (o *GoogleIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	cfg := o.resolvePreset(r, oidc.Google)
	cfg.HostedDomains = r.List("hosted_domain", o.HostedDomains, nil)
	o.settle(r, before, cfg, o.HostedDomains...)
}

// UnmarshalCaddyfile reads
//
//	idp <id> microsoft {
//		client_id      <text>
//		client_secret  <secret>
//		tenant         common|organizations|consumers|<tenant id>
//		tenants        <tenant id>...
//		select_account
//		front_channel_logout
//		scopes         <scope>...
//		issuer         <address>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *MicrosoftIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return o.read(d, oidc.Microsoft, &reference.Microsoft, caddyfileutil.Subdirectives{
		"tenant":               caddyfileutil.Value(&o.Tenant, nil),
		"tenants":              caddyfileutil.Values(&o.Tenants, nil),
		"front_channel_logout": caddyfileutil.Flag(&o.FrontChannelLogout),
	}, o.build)
}

// Provision resolves the options.
func (o *MicrosoftIDP) Provision(caddy.Context) error { return o.provision(o.build) }

func (o *MicrosoftIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	cfg := o.resolvePreset(r, oidc.Microsoft)
	cfg.Tenant, cfg.Tenants = r.Plain("tenant", o.Tenant, nil), r.List("tenants", o.Tenants, nil)
	cfg.FrontChannelLogout = o.FrontChannelLogout
	o.settle(r, before, cfg, append(slices.Clone(o.Tenants), o.Tenant)...)
}

// UnmarshalCaddyfile reads
//
//	idp <id> azure_ad_b2c {
//		client_id      <text>
//		client_secret  <secret>
//		tenant         <name>
//		policy         <name>
//		policy_in      path|query
//		front_channel_logout
//		scopes         <scope>...
//		issuer         <address>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *AzureADB2CIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return o.read(d, oidc.AzureADB2C, &reference.AzureADB2C, caddyfileutil.Subdirectives{
		"tenant":               caddyfileutil.Value(&o.Tenant, nil),
		"policy":               caddyfileutil.Value(&o.Policy, nil),
		"policy_in":            caddyfileutil.Value(&o.PolicyIn, checkPolicyIn),
		"front_channel_logout": caddyfileutil.Flag(&o.FrontChannelLogout),
	}, o.build)
}

var checkPolicyIn = caddyfileutil.OneOf("path", "query")

// Provision resolves the options.
func (o *AzureADB2CIDP) Provision(caddy.Context) error { return o.provision(o.build) }

func (o *AzureADB2CIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	cfg := o.resolvePreset(r, oidc.AzureADB2C)
	cfg.Tenant, cfg.Policy = r.Plain("tenant", o.Tenant, nil), r.Plain("policy", o.Policy, nil)
	cfg.PolicyInQuery = r.Plain("policy_in", o.PolicyIn, checkPolicyIn) == "query"
	cfg.FrontChannelLogout = o.FrontChannelLogout
	o.settle(r, before, cfg, o.Tenant, o.Policy, o.PolicyIn)
}

var (
	_ caddy.Provisioner     = (*AzureADB2CIDP)(nil)
	_ caddyfile.Unmarshaler = (*AzureADB2CIDP)(nil)
	_ remoteIDP             = (*AzureADB2CIDP)(nil)
	_ caddy.Provisioner     = (*GoogleIDP)(nil)
	_ caddyfile.Unmarshaler = (*GoogleIDP)(nil)
	_ remoteIDP             = (*GoogleIDP)(nil)
	_ caddy.Provisioner     = (*MicrosoftIDP)(nil)
	_ caddyfile.Unmarshaler = (*MicrosoftIDP)(nil)
	_ remoteIDP             = (*MicrosoftIDP)(nil)
)
