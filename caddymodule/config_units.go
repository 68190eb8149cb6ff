package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// maxBootstrap is the size in bytes of the file of identity { bootstrap }.
const maxBootstrap = 512 << 10

// openConfig opens the configuration units over the store.
func (a *App) openConfig(c *core, events *event.Recorder) (*config.Service, error) {
	return config.New(a.ctx, a.configOf(), config.Deps{
		Store: c.Store, Keyring: c.keyring, Events: events, Origin: a.origin, Log: a.log.Named("config"),
	})
}

func (a *App) configOf() config.Config {
	return config.Config{Fixed: a.fixedMethods(), Bootstrap: a.bootstrap, Verify: verifyMethod}
}

// verifyMethod tells whether a provider can be made of a login method.
func verifyMethod(m config.LoginMethod) error {
	switch {
	case m.Type == config.TypeSAML && m.SAML != nil:
		return samlMethod(&m).Validate()
	case m.Type == config.TypeOIDC && m.OIDC != nil:
		return oidcMethod(&m).Validate()
	}
	return config.ErrTypeNotSupported
}

// loadBootstrap reads and judges the units that an empty storage starts with.
func (a *App) loadBootstrap() error {
	r := &resolver{repl: caddy.NewReplacer()}
	file, ok := r.text("identity: bootstrap", a.Identity.Bootstrap, nil)
	if err := r.err(); err != nil || !ok {
		return err
	}
	raw, err := os.ReadFile(file)
	if err == nil && len(raw) > maxBootstrap {
		err = errors.New("the file has more than 512 KiB")
	}
	if err == nil {
		err = a.configOf().Check(raw)
	}
	if err != nil {
		return fmt.Errorf("gatehouse: identity: bootstrap %s: %w", file, err)
	}
	a.bootstrap = raw
	return nil
}

// methodTypes are the types of login methods by the kinds of providers in the Caddyfile.
var methodTypes = map[string]string{
	"saml": config.TypeSAML, "oidc": config.TypeOIDC, "ldap": config.TypeLDAP, "kerberos": config.TypeKerberos, "header": config.TypeHeader,
}

// providerKinds returns the kind of each provider. It is asked before the modules are loaded, which takes their configuration away.
func providerKinds(raw caddy.ModuleMap) map[string]string {
	kinds := map[string]string{}
	for id, one := range raw {
		var m struct {
			Module string `json:"module"`
		}
		if json.Unmarshal(one, &m) == nil {
			kinds[id] = m.Module
		}
	}
	return kinds
}

// fixedMethods are the providers of the Caddyfile as the configuration API shows them.
func (a *App) fixedMethods() []config.LoginMethod {
	var out []config.LoginMethod
	for _, p := range a.persons.Providers {
		m := config.LoginMethod{ID: p.ID, Name: p.Name, Type: methodTypes[a.kinds[p.ID]], Enabled: !p.Disabled}
		if m.Name == "" {
			m.Name = p.ID
		}
		if m.Type == "" { // a module of somebody else's
			m.Type = config.TypeHeader
		}
		out = append(out, m)
	}
	return out
}
