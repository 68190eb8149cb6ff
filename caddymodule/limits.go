package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LimitsAt implements protect.App. Sites of the same name are of one server, and are numbered in the order of its
// routes, so each has the same counters after a reload.
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

// examinePlans finds clients that were added by command or in the console and name a plan that is not there any more.
func (i *instance) examinePlans(ctx context.Context, a *App, found func(diagnostic.Finding)) error {
	list, err := i.authz.Clients().List(ctx)
	if err != nil {
		return err
	}
	for n := range list {
		c := &list[n]
		if c.Plan == "" || a.Plans[c.Plan] != nil {
			continue
		}
		found(diagnostic.Finding{
			Severity: diagnostic.Warning, About: "client " + c.ID,
			Reason: fmt.Sprintf("client %s: there is no plan %s, so it has the plan of the person's groups, or the default plan", c.ID, c.Plan),
			Fix:    fmt.Sprintf("write `plan %s { … }` in the global block, or `caddy gatehouse client set %s --plan \"\"`", c.Plan, c.ID),
		})
	}
	return nil
}

// tellContact sends an e-mail to the contact of a client that has used a share of a quota.
func (i *instance) tellContact(tx storage.Tx, u limit.Use, percent int64, at time.Time) error {
	c, found, err := i.authz.Clients().Find(tx, u.Name)
	if err != nil || !found || c.Contact == "" {
		return err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return i.identity.Person.SendNotice(tx, notify.Notice{Kind: notify.QuotaReached, To: c.Contact, At: at, Data: map[string]string{
		"client": cmp.Or(c.Name, c.ID), "quota": u.About, "percent": number(percent), "used": number(u.Used), "of": number(u.Limit),
	}})
}
