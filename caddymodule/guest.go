package caddymodule

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// readGuest reads a guest module of the namespace gatehouse.<option>:
//
//	<option> <module> [<arguments of the module>...] [{ ... }]
//
// ours is the module that is built in, example an option that names it.
func readGuest(d *caddyfile.Dispenser, option, ours, example string) (json.RawMessage, error) {
	if !d.NextArg() {
		return nil, d.Errf("%s: the module is missing: add for example `%s`", option, example)
	}
	name := d.Val()
	id := "gatehouse." + option + "." + name
	if _, err := caddy.GetModule(id); err != nil {
		return nil, d.Errf("%s: module %s is not built in: use %s", option, id, ours)
	}
	mod, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return nil, err
	}
	return caddyconfig.JSONModuleObject(mod, "module", name, nil), nil
}

// loadGuest returns the guest module that stands in a field of the app, which hands messages over. Zero: none is configured.
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
		return m, fmt.Errorf("gatehouse: %s module %T hands nothing over", option, mod)
	}
	return m, nil
}
