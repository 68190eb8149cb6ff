package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(visitor{}) }

// visitor is an app that gives the routes of a configuration, while it is validated, to the one who has put it there. A
// configuration of an operator has no use for it.
type visitor struct {
	// Which visit it is.
	Visit string `json:"visit,omitempty"`
}

const visitorName = "gatehouse_visitor"

var (
	visits sync.Map // number -> func(*Routes) error
	number atomic.Int64
)

// CaddyModule implements caddy.Module.
func (visitor) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: visitorName, New: func() caddy.Module { return new(visitor) }}
}

// Provision implements caddy.Provisioner.
func (v visitor) Provision(ctx caddy.Context) error {
	visit, ok := visits.Load(v.Visit)
	if !ok {
		return errors.New(visitorName + " is no part of a configuration: leave it out")
	}
	found, err := ctx.AppIfConfigured("http")
	if err != nil && !errors.Is(err, caddy.ErrNotConfigured) {
		return err
	}
	app, ok := found.(*caddyhttp.App)
	if !ok {
		return errors.New("the configuration has no sites")
	}
	routes, err := New(ctx, app)
	if err != nil {
		return err
	}
	return visit.(func(*Routes) error)(routes) //nolint:forcetypeassert // Visit alone stores there
}

// Start implements caddy.App.
func (visitor) Start() error { return nil }

// Stop implements caddy.App.
func (visitor) Stop() error { return nil }

// Visit loads a configuration without starting it, and calls visit with its routes.
func Visit(ctx context.Context, raw []byte, visit func(*Routes) error) error {
	var config caddy.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n := strconv.FormatInt(number.Add(1), 10)
	var failed error
	visits.Store(n, func(r *Routes) error {
		failed = visit(r)
		return nil // it would be told as an error of the configuration
	})
	defer visits.Delete(n)
	if config.AppsRaw == nil {
		config.AppsRaw = caddy.ModuleMap{}
	}
	config.AppsRaw[visitorName] = fmt.Appendf(nil, `{"visit":%q}`, n)
	if err := caddy.Validate(&config); err != nil {
		return err
	}
	return failed
}

var (
	_ caddy.App         = (*visitor)(nil)
	_ caddy.Provisioner = (*visitor)(nil)
)
