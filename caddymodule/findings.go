package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
)

// Found adds a finding about this configuration, and logs it. One that is there already is not logged again.
func (a *App) Found(f diagnostic.Finding) {
	if !a.findings.Add(f) {
		return
	}
	diagnostic.Report(f)
	if f.Severity == diagnostic.Warning { // an error stops the start, and is logged with that
		a.logFinding(f)
	}
}

func (a *App) logFinding(f diagnostic.Finding) {
	a.log.Warn(f.Reason, zap.String("fix", f.Fix), zap.String("at", f.Place))
}

// warn adds a warning about an option.
func (a *App) warn(option, reason, fix string) {
	a.Found(diagnostic.Finding{Severity: diagnostic.Warning, Place: a.Places.Of(option), Reason: reason, Fix: fix, About: option})
}

// checkBootstrap looks at the settings that an empty storage would start with.
func (a *App) checkBootstrap() {
	if _, ok := a.storage.(shared.KeyFiler); ok && !a.startsEmpty() {
		return // the settings are in the storage
	}
	warn := func(option, reason, fix string) {
		a.first(diagnostic.Finding{Severity: diagnostic.Warning, Place: a.Places.Of(option), Reason: reason, Fix: fix, About: option})
	}
	a.missingSenders(a.initial, warn)
	a.missingWay(a.initial, warn)
}

// first reports what is looked at again while the configuration runs, when the settings of the storage count, and so is
// not among the findings that stay.
func (a *App) first(f diagnostic.Finding) {
	a.firsts = append(a.firsts, f)
	diagnostic.Report(f)
	a.logFinding(f)
}

// checkSites looks at the sites that Caddy serves. The http app may have asked for this app in the middle of its own
// Provision; otherwise it is provisioned now, which is why this comes after everything that its handlers ask for.
func (a *App) checkSites() error {
	found, err := a.ctx.AppIfConfigured("http")
	if err != nil && !errors.Is(err, caddy.ErrNotConfigured) {
		return err
	}
	app, ok := found.(*caddyhttp.App)
	if !ok {
		app = new(caddyhttp.App)
	}
	routetree.ReadFromRight(app)
	a.tree, a.reloads = routetree.Read(app), routetree.Reloads(app)
	a.checkProxies(app)
	for _, f := range a.tree.Check(a.issuer, a.Places.Of("issuer"), a.served.Load()) {
		a.Found(f)
	}
	a.mu.Lock()
	places := a.resourcesAt
	a.mu.Unlock()
	for _, place := range places {
		a.checkReach(place)
	}
	if err := a.findings.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	return nil
}
