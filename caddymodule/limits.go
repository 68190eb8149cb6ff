package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
)

// LimitsAt implements protect.App. Sites of the same name are numbered in the order of the configuration, so each has
// the same counters after a reload.
func (a *App) LimitsAt(site string) ratelimits.Scope {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limited == nil {
		a.limited = map[string]int{}
	}
	a.limited[site]++
	return ratelimits.Scope{Site: site + " " + strconv.Itoa(a.limited[site]), Plans: a.plans}
}

func (a *App) readPlan(d *caddyfile.Dispenser) error {
	if a.Plans == nil {
		a.Plans = map[string]*ratelimits.Plan{}
	}
	return ratelimits.ReadPlan(d, a.Plans)
}

// loadPlans prepares the plans.
func (a *App) loadPlans() (err error) {
	holders := map[string]string{}
	for _, c := range a.Clients {
		if c.Plan != "" {
			holders[c.ID] = c.Plan
		}
	}
	for _, g := range a.GroupPlans {
		a.NeedGroup(g.Group, a.Places.Of("group "+g.Group))
	}
	a.plans, err = ratelimits.ProvisionPlans(a.ctx, caddyfileutil.NewResolverAt(a.Places), a.Plans, holders, a.GroupPlans)
	if err != nil {
		return a.Places.Locate(fmt.Errorf("gatehouse: %w", err))
	}
	if a.plans != nil && !a.plans.HasDefault() {
		name := slices.Min(slices.Collect(maps.Keys(a.Plans)))
		a.Found(diagnostic.Finding{
			Severity: diagnostic.Warning, Place: a.Places.Of("plan " + name), About: "plans",
			Reason: "no plan is the default, so sites with plan do not count callers without one",
			Fix:    "write `default` in the plan of everyone else",
		})
	}
	return nil
}
