package provider

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
)

func init() {
	caddy.RegisterModule(ItsmeIDP{})
}

// ItsmeIDP signs people in at itsme, the Belgian mobile identity.
type ItsmeIDP struct {
	OIDCPreset

	// The code of the login service there. Required.
	ServiceCode string `json:"service_code,omitempty"`
	// What people sign in with at least: basic, or advanced, which is the itsme code. Default: basic.
	SecurityLevel string `json:"security_level,omitempty"`
	// Where the metadata are. Default: below the issuer.
	DiscoveryURL string `json:"discovery_url,omitempty"`
	// The RSA key pair of the configuration that signs and decrypts. Default: Gatehouse's own.
	Key string `json:"key,omitempty"`
	// Claims that are asked for by name. Default: none.
	Claims []string `json:"claims,omitempty"`
	// Authentication levels by acr values. Default: 2 for basic, 3 for advanced, or level for both.
	Levels map[string]caddyfileutil.Count `json:"levels,omitempty"`
	// How long discovered metadata are used without looking again. Default: as the provider says, otherwise 1h.
	MetadataExpiration caddyfileutil.Duration `json:"metadata_expiration,omitempty"`
	// Whether itsme may sign people out by a frame: /oidc/<id>/frontchannel-logout. Default: false.
	FrontChannelLogout bool `json:"front_channel_logout,omitempty"`
}

// CaddyModule implements caddy.Module.
func (ItsmeIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + "." + oidc.Itsme, New: func() caddy.Module { return new(ItsmeIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> itsme {
//		client_id      <text>
//		service_code   <text>
//		security_level basic|advanced
//		key            <key pair>
//		scopes         <scope>...
//		claims         <claim>...
//		map_level      <acr> <1 to 4>
//		discovery_url  <address>
//		metadata_expiration <duration>
//		front_channel_logout
//		issuer         <address>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *ItsmeIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return o.read(d, oidc.Itsme, &reference.Itsme, caddyfileutil.Subdirectives{
		"service_code":         caddyfileutil.Value(&o.ServiceCode, nil),
		"security_level":       caddyfileutil.Value(&o.SecurityLevel, checkSecurityLevel),
		"discovery_url":        caddyfileutil.Value(&o.DiscoveryURL, nil),
		"key":                  caddyfileutil.Value(&o.Key, nil),
		"claims":               caddyfileutil.Values(&o.Claims, nil),
		"map_level":            readLevels(&o.Levels),
		"metadata_expiration":  caddyfileutil.Value(&o.MetadataExpiration, caddyfileutil.CheckDuration),
		"front_channel_logout": caddyfileutil.Flag(&o.FrontChannelLogout),
	}, o.build)
}

var checkSecurityLevel = caddyfileutil.OneOf("basic", "advanced")

var securityLevels = map[string]string{"basic": oidc.ItsmeBasic, "advanced": oidc.ItsmeAdvanced}

// Provision resolves the options.
func (o *ItsmeIDP) Provision(caddy.Context) error { return o.provision(o.build) }

func (o *ItsmeIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	cfg := o.resolvePreset(r, oidc.Itsme)
	cfg.ServiceCode, cfg.Key, cfg.DiscoveryURL = r.Plain("service_code", o.ServiceCode, nil), r.Plain("key", o.Key, nil),
		r.Plain("discovery_url", o.DiscoveryURL, nil)
	cfg.SecurityLevel = securityLevels[r.Plain("security_level", o.SecurityLevel, checkSecurityLevel)]
	cfg.Claims, cfg.Levels = oidc.ClaimsParameter(r.List("claims", o.Claims, nil)), levels(r, o.Levels)
	cfg.MetadataExpiration, cfg.FrontChannelLogout = r.Duration("metadata_expiration", o.MetadataExpiration), o.FrontChannelLogout
	o.settle(r, before, cfg, append(slices.Concat(o.Claims, slices.Collect(maps.Keys(o.Levels))), o.ServiceCode, o.SecurityLevel,
		o.DiscoveryURL, o.Key, string(o.MetadataExpiration))...)
}

var (
	_ caddy.Provisioner     = (*ItsmeIDP)(nil)
	_ caddyfile.Unmarshaler = (*ItsmeIDP)(nil)
	_ remoteIDP             = (*ItsmeIDP)(nil)
)
