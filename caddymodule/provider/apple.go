package provider

import (
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
)

func init() {
	caddy.RegisterModule(AppleIDP{})
}

// maxDomainFile is the limit of the configuration API too.
const maxDomainFile = 8192 // bytes

// AppleIDP signs people in at Apple.
type AppleIDP struct {
	OIDCPreset

	// The team at Apple. Required.
	TeamID string `json:"team_id,omitempty"`
	// What Apple calls the team's key. Required.
	KeyID string `json:"key_id,omitempty"`
	// The key pair of the configuration with that key. Required.
	Key string `json:"key,omitempty"`
	// Where Apple's keys are. Default: as Apple's metadata say.
	JWKSURI string `json:"jwks_uri,omitempty"`
	// The file by which Apple checks that the domain is yours. Default: none.
	DomainVerificationFile string `json:"domain_verification_file,omitempty"`

	domainFile string // its content
}

// CaddyModule implements caddy.Module.
func (AppleIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + "." + oidc.Apple, New: func() caddy.Module { return new(AppleIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> apple {
//		client_id      <text>
//		team_id        <text>
//		key_id         <text>
//		key            <key pair>
//		scopes         <scope>...
//		jwks_uri       <address>
//		domain_verification_file <file>
//		issuer         <address>
//		map, constant, level, couple, identify_by, domains, icon, timeout, name, disabled as for saml
//	}
func (o *AppleIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return o.read(d, oidc.Apple, &reference.Apple, caddyfileutil.Subdirectives{
		"team_id":                  caddyfileutil.Value(&o.TeamID, nil),
		"key_id":                   caddyfileutil.Value(&o.KeyID, nil),
		"key":                      caddyfileutil.Value(&o.Key, nil),
		"jwks_uri":                 caddyfileutil.Value(&o.JWKSURI, nil),
		"domain_verification_file": caddyfileutil.Value(&o.DomainVerificationFile, nil),
	}, o.build)
}

// Provision resolves the options.
func (o *AppleIDP) Provision(caddy.Context) error { return o.provision(o.build) }

func (o *AppleIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	cfg := o.resolvePreset(r, oidc.Apple)
	cfg.TeamID, cfg.KeyID, cfg.Key = r.Plain("team_id", o.TeamID, nil), r.Plain("key_id", o.KeyID, nil), r.Plain("key", o.Key, nil)
	cfg.JWKSURL = r.Plain("jwks_uri", o.JWKSURI, nil)
	o.domainFile = readDomainFile(r, o.DomainVerificationFile)
	o.settle(r, before, cfg, o.TeamID, o.KeyID, o.Key, o.JWKSURI)
}

// readDomainFile returns the content of the file of the option. It is read only when the configuration is loaded.
func readDomainFile(r *caddyfileutil.Resolver, name string) string {
	const option = "domain_verification_file"
	file, ok := r.Text(option, name, nil)
	if !ok || r.Adapting() {
		return ""
	}
	if r.Verbatim() { // a request must not read the server's files
		r.Fail("%s: only the configuration itself can name files", option)
		return ""
	}
	raw, err := os.ReadFile(file)
	if err == nil && (len(raw) == 0 || len(raw) > maxDomainFile) {
		err = errors.New("it is empty or too long: download it from Apple again")
	}
	if err != nil {
		r.Lack(caddyfileutil.Fault{
			Option: option,
			Reason: fmt.Sprintf("%s: Apple cannot verify the domain: the file %s cannot be used: %v", option, file, err),
			Fix:    "download it from Apple again, and run `caddy reload --force`",
		})
		return ""
	}
	return string(raw)
}

var (
	_ caddy.Provisioner     = (*AppleIDP)(nil)
	_ caddyfile.Unmarshaler = (*AppleIDP)(nil)
	_ remoteIDP             = (*AppleIDP)(nil)
)
