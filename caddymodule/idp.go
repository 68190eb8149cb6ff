package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/idp"
)

// idpNamespace holds the identity providers. A package of one's own can add another.
const idpNamespace = "gatehouse.idp"

// ownIDP is the identity service itself, which needs no block.
const ownIDP = "identity"

// laterIDPs are the kinds of providers that are known and not supported yet.
var laterIDPs = []string{"ldap", "kerberos"}

// IDP is a guest module of the namespace gatehouse.idp. It is ready after Provision and opens nothing before the app starts.
type IDP interface {
	// Source is the provider itself, which implements one of the interfaces of package idp.
	Source() idp.Provider
	// Common are the options that every provider has.
	Common() IDPOptions
}

// IDPOptions are the options that every identity provider has.
type IDPOptions struct {
	// What people and events call the provider. Default: its id.
	Name string `json:"name,omitempty"`
	// Whether the provider is switched off: it signs nobody in. Default: false.
	Disabled bool `json:"disabled,omitempty"`
}

// Common implements IDP.
func (o *IDPOptions) Common() IDPOptions { return *o }

// with adds the words of these options to those of a provider.
func (o *IDPOptions) with(own subdirectives) subdirectives {
	own["name"], own["disabled"] = text(&o.Name), flag(&o.Disabled)
	return own
}

// readIDP reads
//
//	idp <id> <module> [{ ... }]
func (a *App) readIDP(d *caddyfile.Dispenser) error {
	args := d.CountRemainingArgs()
	if args < 2 {
		return d.Err("idp: want an id and a kind, such as `idp edge header { ... }`")
	}
	d.NextArg()
	id := d.Val()
	if err := check(d, "idp", id, checkNewIDP); err != nil {
		return err
	}
	if hasPlaceholder(id) {
		return d.Errf("idp: the id %s must be known when the Caddyfile is read", id)
	}
	if a.IDPsRaw[id] != nil {
		return d.Errf("idp %s is already defined: keep one of them", id)
	}
	d.NextArg()
	kind := d.Val()
	if slices.Contains(laterIDPs, kind) {
		return d.Errf("idp %s: %s %w: use saml, oidc or header", id, kind, errNotSupported)
	}
	if _, err := caddy.GetModule(idpNamespace + "." + kind); err != nil {
		return d.Errf("idp %s: module %s.%s is not built in: use saml, oidc or header", id, idpNamespace, kind)
	}
	mod, err := caddyfile.UnmarshalModule(d, idpNamespace+"."+kind)
	if err != nil {
		return err
	}
	if a.IDPsRaw == nil {
		a.IDPsRaw = caddy.ModuleMap{}
	}
	a.IDPsRaw[id] = caddyconfig.JSONModuleObject(mod, "module", kind, nil)
	return nil
}

// checkIDPs refuses clients that name a provider which is not there.
func (a *App) checkIDPs() error {
	for i := range a.Clients {
		c := &a.Clients[i]
		for _, id := range c.IDPs {
			if hasPlaceholder(id) || id == ownIDP || a.IDPsRaw[id] != nil {
				continue
			}
			known := append([]string{ownIDP}, slices.Sorted(maps.Keys(a.IDPsRaw))...)
			err := fmt.Errorf("client %s: idps: there is no provider %s: add `idp %s ...`, or use one of %v", c.ID, id, id, known)
			if c.token.File == "" {
				return err
			}
			return at(c.token, err)
		}
	}
	return nil
}

// loadIDPs makes the providers ready.
func (a *App) loadIDPs() error {
	for id := range a.IDPsRaw {
		if err := checkNewIDP(id); err != nil {
			return fmt.Errorf("gatehouse: idp: %w", err)
		}
	}
	a.kinds, a.keyUsers = providerKinds(a.IDPsRaw), providerKeys(a.IDPsRaw)
	if a.IDPsRaw != nil {
		mods, err := a.ctx.LoadModule(a, "IDPsRaw")
		if err != nil {
			return fmt.Errorf("gatehouse: idp: %w", err)
		}
		loaded, _ := mods.(map[string]any)
		for _, id := range slices.Sorted(maps.Keys(loaded)) {
			p, ok := loaded[id].(IDP)
			if !ok {
				return fmt.Errorf("gatehouse: idp %s: module %T is no identity provider", id, loaded[id])
			}
			of := p.Common()
			provider := identity.Provider{ID: id, Name: of.Name, Disabled: of.Disabled, Source: p.Source()}
			known := registry.Provider{ID: id, Disabled: of.Disabled}
			if far, ok := p.(remoteIDP); ok {
				a.addRemote(far, &provider)
			} else {
				known.Parameters = provider.Source.Parameters()
			}
			a.authz.Providers = append(a.authz.Providers, known)
			a.persons.Providers = append(a.persons.Providers, provider)
		}
	}
	for _, p := range a.authz.Providers {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("gatehouse: %w", err)
		}
	}
	known := func(id string) bool {
		return id == ownIDP || slices.ContainsFunc(a.authz.Providers, func(p registry.Provider) bool { return p.ID == id })
	}
	for _, c := range a.authz.Clients {
		for _, id := range c.IDPs {
			if !known(id) {
				return fmt.Errorf("gatehouse: client %s: idps: there is no provider %s", c.ID, id)
			}
		}
	}
	return nil
}

// addRemote keeps a provider that is made when the app starts.
func (a *App) addRemote(far remoteIDP, p *identity.Provider) {
	o := far.common()
	p.Path, p.CoupleEmail, p.Domains, p.Timeout = far.path(), o.Couple == "email", o.remote.domains, o.remote.timeout
	if a.remotes == nil {
		a.remotes, a.icons = map[string]remoteIDP{}, map[string][]byte{}
	}
	a.remotes[p.ID] = far
	if len(o.remote.icon) > 0 {
		a.icons[p.ID] = o.remote.icon
	}
}

// readers returns the providers that read requests, for handlers that the app knows nothing of.
func (a *App) readers() []idp.RequestReader {
	var out []idp.RequestReader
	for _, p := range a.persons.Providers {
		if source, ok := p.Source.(idp.RequestReader); ok {
			out = append(out, source)
		}
	}
	return out
}

// checkIDP is the form of a provider's id, which appears in addresses.
func checkIDP(s string) error {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q is not the id of a provider: letters, digits, dots, - and _", s)
		}
	}
	if s == "" || len(s) > 64 {
		return errors.New("the id of a provider has 1 to 64 characters")
	}
	return nil
}

func checkNewIDP(s string) error {
	if s == ownIDP {
		return errors.New("identity is the identity service itself: choose another id")
	}
	return checkIDP(s)
}
