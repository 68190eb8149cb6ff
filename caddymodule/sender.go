package caddymodule

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// loadGuest returns the guest module in a field of the app, which delivers messages. The zero value: none is
// configured.
func loadGuest[T any](a *App, option, field string, raw json.RawMessage) (m T, err error) {
	if raw == nil {
		return m, nil
	}
	mod, err := a.ctx.LoadModule(a, field)
	if err != nil {
		return m, fmt.Errorf("gatehouse: %s: %w", option, err)
	}
	m, ok := mod.(T)
	if !ok {
		return m, fmt.Errorf("gatehouse: %s module %T delivers nothing", option, mod)
	}
	return m, nil
}

// openSender returns what sends messages through a guest module, or nil where none is configured. transport gets the
// transport from the module.
func openSender[M comparable, T, S any](option string, m M, transport func(M) (T, error), sender func(T) (*S, error)) (*S, error) {
	if m == *new(M) {
		return nil, nil //nolint:nilnil // none is configured
	}
	t, err := transport(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return sender(t)
}

// senderDeps are the dependencies of a sender.
func senderDeps[T any](a *App, c *core, pages *page.Renderer, option string, t T) notify.Deps[T] {
	return notify.Deps[T]{Store: c.Store, Keyring: c.keyring, Transport: t, Words: pages.Words, Log: a.log.Named(option)}
}

// readGuest reads a guest module of the namespace gatehouse.<option>:
//
//	<option> <module> [<arguments of the module>...] [{ ... }]
//
// builtIn is the module that comes with Gatehouse, example an option that names it.
func readGuest(d *caddyfile.Dispenser, option, builtIn, example string) (json.RawMessage, error) {
	if !d.NextArg() {
		return nil, d.Errf("%s: the module is missing: add for example `%s`", option, example)
	}
	name := d.Val()
	id := "gatehouse." + option + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("%s: module %s is not built in: use %s", option, id, builtIn)
	}
	mod, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	return caddyconfig.JSONModuleObject(mod, "module", name, nil), nil
}
