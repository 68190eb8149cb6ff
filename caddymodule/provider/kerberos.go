package provider

import (
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/kerberos"
)

func init() {
	caddy.RegisterModule(KerberosIDP{})
}

// KerberosIDP signs people in by the Kerberos ticket that their computer has. (RFC 4559)
type KerberosIDP struct {
	RemoteOptions

	// The file with the keys of the service. Default: KRB5_KTNAME, or /etc/krb5.keytab.
	Keytab string `json:"keytab,omitempty"`
	// The principal that browsers ask a ticket for, without the realm. Default: HTTP/ and the host of the issuer.
	Service string `json:"service,omitempty"`
	// The realms whose people sign in. Default: those of the keys.
	Realms []string `json:"realms,omitempty"`
	// The networks that people sign in from. Default: any.
	Networks []string `json:"networks,omitempty"`
	// Whether browsers in these networks sign in without a choice. Default: false.
	Auto bool `json:"auto,omitempty"`
	// Whether tickets without a PAC are taken. Never for Active Directory. Default: false.
	WithoutPAC bool `json:"without_pac,omitempty"`

	cfg kerberos.Config
}

// CaddyModule implements caddy.Module.
func (KerberosIDP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".kerberos", New: func() caddy.Module { return new(KerberosIDP) }}
}

// UnmarshalCaddyfile reads
//
//	idp <id> kerberos {
//		keytab      <file>
//		service     <principal>
//		realms      <realm>...
//		networks    <address or network>...
//		auto        [on|off]
//		without_pac [on|off]
//	}
//
// and what RemoteOptions read.
func (k *KerberosIDP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	start := d.Token()
	words := k.with(caddyfileutil.Subdirectives{
		"keytab":      caddyfileutil.Value(&k.Keytab, nil),
		"service":     caddyfileutil.Value(&k.Service, nil),
		"realms":      caddyfileutil.Values(&k.Realms, nil),
		"networks":    caddyfileutil.Values(&k.Networks, checkNetwork),
		"auto":        readSwitch(&k.Auto),
		"without_pac": readSwitch(&k.WithoutPAC),
	})
	for _, word := range reference.NotKerberos {
		delete(words, word)
	}
	if err := caddyfileutil.ReadOptions(d, "idp kerberos", &reference.Kerberos, words); err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if k.build(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("idp kerberos: %w", r.Err()))
	}
	return nil
}

// Provision resolves the options.
func (k *KerberosIDP) Provision(caddy.Context) error {
	return k.provision(k.build)
}

func (k *KerberosIDP) build(r *caddyfileutil.Resolver) {
	before := r.ProblemCount()
	k.remote = k.resolve(r, attribute.Nowhere)
	k.cfg = kerberos.Config{
		Service: r.Plain("service", k.Service, nil), Realms: r.List("realms", k.Realms, nil), Auto: k.Auto,
		WithoutPAC: k.WithoutPAC, Level: k.remote.level, Mapping: k.remote.mapping,
	}
	k.cfg.Networks = networks(r, "networks", k.Networks, checkNetwork)
	if k.Auto && len(k.Networks) == 0 {
		r.Fail("auto: networks is missing: name where the computers are that have tickets, since browsers elsewhere would be asked in vain")
	}
	file := r.Plain("keytab", k.Keytab, nil)
	if r.Adapting() { // perhaps on another machine
		return
	}
	if k.Keytab == "" {
		file = kerberos.DefaultKeytab()
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		k.without(r, "keytab", "the file %s cannot be read", file)
		return
	}
	if k.cfg.Keytab = raw; k.cfg.CheckKeytab() != nil {
		k.without(r, "keytab", "the file %s: %w", file, k.cfg.CheckKeytab())
		return
	}
	if r.ProblemCount() == before {
		r.AddError(oneLine(k.cfg.Validate()))
	}
}

func (k *KerberosIDP) open(env idp.Env) (idp.Provider, error) { return kerberos.New(k.cfg, env) }

func (*KerberosIDP) path() string { return "kerberos" }

var (
	_ caddy.Provisioner     = (*KerberosIDP)(nil)
	_ caddyfile.Unmarshaler = (*KerberosIDP)(nil)
	_ remoteIDP             = (*KerberosIDP)(nil)
)
