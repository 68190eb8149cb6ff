package caddymodule

import (
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// maxBootstrap is the size in bytes of the file of identity { bootstrap }.
const maxBootstrap = 512 << 10

// newUnits opens the configuration units over the store.
func (a *App) newUnits(c *core, events *event.Recorder) (*config.Service, error) {
	return config.New(a.ctx, a.configOf(), config.Deps{
		Store: c.Store, Keyring: c.keyring, Events: events, Origin: a.Origin, Log: a.log.Named("config"),
	})
}

func (a *App) configOf() config.Config {
	return config.Config{Fixed: a.fixedMethods(), Bootstrap: a.bootstrap, Verify: provider.Verify}
}

// loadBootstrap reads and checks the units that an empty storage starts with.
func (a *App) loadBootstrap() error {
	r := options.NewResolver(caddy.NewReplacer())
	file, ok := r.Text("identity: bootstrap", a.Identity.Bootstrap, nil)
	if err := r.Err(); err != nil || !ok {
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

// fixedMethods are the providers of the Caddyfile as the configuration API shows them.
func (a *App) fixedMethods() []config.LoginMethod {
	var out []config.LoginMethod
	for _, p := range a.persons.Providers {
		m := config.LoginMethod{ID: p.ID, Name: p.Name, Type: a.idps.MethodType(p.ID), Enabled: !p.Disabled}
		if m.Name == "" {
			m.Name = p.ID
		}
		out = append(out, m)
	}
	return out
}
