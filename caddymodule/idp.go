package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/idp"
)

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
	if err := caddyfileutil.Check(d, "idp", id, provider.CheckID); err != nil {
		return err
	}
	if caddyfileutil.HasPlaceholder(id) {
		return d.Errf("idp: the id %s must be known when the Caddyfile is read", id)
	}
	if a.IDPsRaw[id] != nil {
		return d.Errf("idp %s is already defined at %s: keep one of them", id, a.Places.Of("idp "+id))
	}
	d.NextArg()
	kind := d.Val()
	if _, err := caddy.GetModule(provider.Namespace + "." + kind); err != nil {
		if _, err := caddy.GetModule(provider.Namespace + "." + id); err == nil {
			return d.Errf("idp: the id comes first, and then the kind: write `idp %s %s`", kind, id)
		}
		return d.Errf("idp %s: module %s.%s is not built in: use saml, oidc, google, microsoft, azure_ad_b2c, apple, itsme, oauth2, github, discord, facebook, linkedin, twitter, ldap, kerberos or header", id, provider.Namespace, kind)
	}
	mod, err := caddyfile.UnmarshalModule(d, provider.Namespace+"."+kind)
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
			if caddyfileutil.HasPlaceholder(id) || id == provider.OwnID || a.IDPsRaw[id] != nil {
				continue
			}
			known := append([]string{provider.OwnID}, slices.Sorted(maps.Keys(a.IDPsRaw))...)
			return c.ErrorAt(fmt.Errorf("client %s: idps: there is no provider %s: %s", c.ID, id,
				caddyfileutil.DidYouMean(id, known, fmt.Sprintf("add `idp %s ...`, or use one of %v", id, known))))
		}
	}
	return nil
}

// loadIDPs makes the providers ready.
func (a *App) loadIDPs() error {
	for id := range a.IDPsRaw {
		if err := provider.CheckID(id); err != nil {
			return fmt.Errorf("gatehouse: idp: %w", err)
		}
	}
	if a.IDPsRaw != nil {
		mods, err := a.ctx.LoadModule(a, "IDPsRaw")
		if err != nil {
			return fmt.Errorf("gatehouse: idp: %w", err)
		}
		loaded, _ := mods.(map[string]any)
		for _, id := range slices.Sorted(maps.Keys(loaded)) {
			p, ok := loaded[id].(provider.IDP)
			if !ok {
				return fmt.Errorf("gatehouse: idp %s: module %T is not an identity provider", id, loaded[id])
			}
			known, provider := a.idps.Add(id, p)
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
		return id == provider.OwnID || slices.ContainsFunc(a.authz.Providers, func(p clientstore.Provider) bool { return p.ID == id })
	}
	for _, c := range a.authz.Clients {
		for _, id := range c.IDPs {
			if !known(id) {
				ids := []string{provider.OwnID}
				for _, p := range a.authz.Providers {
					ids = append(ids, p.ID)
				}
				return fmt.Errorf("gatehouse: client %s: idps: there is no provider %s: %s", c.ID, id,
					caddyfileutil.DidYouMean(id, ids, "use one of "+strings.Join(ids, ", ")))
			}
		}
	}
	return nil
}

// RequestReaders returns the providers that read requests, for handlers that the app knows nothing of.
func (a *App) RequestReaders() []idp.RequestReader {
	var out []idp.RequestReader
	for _, p := range a.persons.Providers {
		if source, ok := p.Source.(idp.RequestReader); ok {
			out = append(out, source)
		}
	}
	return out
}
